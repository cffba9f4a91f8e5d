#include "assay/convert/safetensors.h"

#include <fmt/format.h>
#include <rapidjson/document.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "assay/log/json_text.h"
#include "base/error.h"
#include "base/input_file.h"
#include "base/new_file.h"

namespace assay {
namespace {

constexpr int64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr size_t kAlignment = 8;
constexpr const char* kHint = "give a file that assay convert or safetensors wrote";

std::string length_bytes(uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>((length >> (8 * i)) & 0xFF);
  return bytes;
}

}  // namespace

void SafetensorsWriter::add(const std::string& name, ArrayType type, std::vector<int64_t> shape,
                            ArraySource source) {
  if (!names_.insert(name).second) {
    throw Error(fmt::format("cannot add the array '{}' twice", printable(name, 80)), path_);
  }
  const int64_t bytes = array_bytes(type, shape, path_, name);
  entries_.push_back({name, {type, std::move(shape), bytes}, std::move(source)});
}

std::string SafetensorsWriter::header() const {
  std::string text = "{";
  int64_t offset = 0;
  for (const Entry& entry : entries_) {
    if (offset > 0 || text.size() > 1) text += ',';
    append_json_string(text, entry.name);
    text += fmt::format(":{{\"dtype\":\"{}\",\"shape\":", names_of(entry.info.type).safetensors);
    append_json_array(text, entry.info.shape);
    text += fmt::format(",\"data_offsets\":[{},{}]}}", offset, offset + entry.info.bytes);
    offset += entry.info.bytes;
  }
  text += '}';
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  return text;
}

void SafetensorsWriter::close() {
  const std::string text = header();
  if (std::ssize(text) > kMaxHeaderBytes) {
    throw Error("more arrays than the format can hold", path_, "convert to NPZ or Parquet");
  }
  NewFile file(path_);
  file.write(length_bytes(text.size()));
  file.write(text);
  std::string piece;
  for (const Entry& entry : entries_) {
    for (int64_t given = 0; given < entry.info.bytes;) {
      piece.clear();
      entry.source(piece);
      given += std::ssize(piece);
      if (piece.empty() || given > entry.info.bytes) {
        throw Error("an array's data does not match its shape", path_);
      }
      file.write(piece);
    }
  }
  file.finish();
}

namespace {

class SafetensorsReader : public ArrayReader {
 public:
  explicit SafetensorsReader(const std::string& path) : file_(path) {
    unsigned char start[8];
    if (file_.read(reinterpret_cast<char*>(start), 8, 0) != 8) fail("is not a safetensors file");
    uint64_t length = 0;
    for (int i = 0; i < 8; ++i) length |= static_cast<uint64_t>(start[i]) << (8 * i);
    if (length > static_cast<uint64_t>(kMaxHeaderBytes) ||
        static_cast<int64_t>(length) > file_.size() - 8) {
      fail("is not a safetensors file: the length of its header is out of range");
    }
    std::string text(length, '\0');
    if (file_.read(text.data(), length, 8) != length) fail("the header is cut off");
    rapidjson::Document header;
    header.Parse<rapidjson::kParseIterativeFlag>(text.data(), text.size());
    if (header.HasParseError() || !header.IsObject()) fail("the header is not a JSON object");
    const int64_t data = 8 + static_cast<int64_t>(length);
    for (const auto& [name, value] : std::as_const(header).GetObject()) {
      add({name.GetString(), name.GetStringLength()}, value, data, file_.size());
    }
    refuse_overlaps();
    if (claimed_ != static_cast<uint64_t>(file_.size() - data)) {
      fail(fmt::format("its arrays are {} bytes together, its data {}: some belong to no array",
                       claimed_, file_.size() - data));
    }
  }

  const std::map<std::string, ArrayInfo>& arrays() const override { return arrays_; }

  void read(const std::string& name, char* to, size_t count) override {
    const auto place = places_.find(name);
    if (place == places_.end() || file_.read(to, count, place->second) != count) {
      fail(fmt::format("the array '{}' is cut off", printable(name, 80)));
    }
    place->second += static_cast<int64_t>(count);
  }

  void skip(const std::string& name, int64_t count) override { places_.at(name) += count; }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw Error(what, file_.path(), kHint); }

  void add(const std::string& name, const rapidjson::Value& value, int64_t data, int64_t size) {
    if (name == "__metadata__") return;
    const bool usable = value.IsObject() && value.HasMember("dtype") && value["dtype"].IsString() &&
                        value.HasMember("shape") && value["shape"].IsArray() &&
                        value.HasMember("data_offsets") && value["data_offsets"].IsArray() &&
                        value["data_offsets"].Size() == 2 && value["data_offsets"][0].IsInt64() &&
                        value["data_offsets"][1].IsInt64();
    if (!usable) fail(fmt::format("the header does not describe '{}'", printable(name, 80)));
    ArrayInfo info;
    info.type = type_by_safetensors(value["dtype"].GetString());
    if (info.type == ArrayType::kOther) info.type_name = value["dtype"].GetString();
    for (const auto& dim : value["shape"].GetArray()) {
      info.shape.push_back(dim.IsInt64() ? dim.GetInt64() : -1);
    }
    info.bytes = array_bytes(info.type, info.shape, file_.path(), name);
    const int64_t begin = value["data_offsets"][0].GetInt64();
    const int64_t end = value["data_offsets"][1].GetInt64();
    if (begin < 0 || end < begin || end > size - data ||
        (info.type != ArrayType::kOther && end - begin != info.bytes)) {
      fail(fmt::format("the data of '{}' does not fit the file", printable(name, 80)));
    }
    claimed_ += static_cast<uint64_t>(end - begin);
    if (!arrays_.emplace(name, info).second) {
      fail(fmt::format("the header names '{}' twice", printable(name, 80)));
    }
    if (info.type != ArrayType::kOther) places_[name] = data + begin;
  }

  // Arrays that share bytes would let a small file expand to any amount of data.
  void refuse_overlaps() const {
    std::vector<std::pair<int64_t, std::string>> order;
    for (const auto& [name, begin] : places_) {
      if (arrays_.at(name).bytes > 0) order.emplace_back(begin, name);
    }
    std::sort(order.begin(), order.end());
    for (size_t i = 1; i < order.size(); ++i) {
      const std::string& before = order[i - 1].second;
      if (order[i].first - order[i - 1].first >= arrays_.at(before).bytes) continue;
      fail(fmt::format("the arrays '{}' and '{}' share bytes of the file", printable(before, 80),
                       printable(order[i].second, 80)));
    }
  }

  InputFile file_;
  std::map<std::string, ArrayInfo> arrays_;
  std::map<std::string, int64_t> places_;  // where to read next
  uint64_t claimed_ = 0;                   // bytes that the header says are of arrays
};

}  // namespace

std::unique_ptr<ArrayReader> open_safetensors(const std::string& path) {
  return std::make_unique<SafetensorsReader>(path);
}

}  // namespace assay
