#include "assay/convert/npy_header.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/input_file.h"

namespace assay {
namespace {

constexpr size_t kMaxHeader = 1 << 20;
constexpr size_t kMaxDims = 64;  // NumPy's own
constexpr const char* kNpyHint = "give an array that assay convert or numpy.save() wrote";

// What follows `'key':` in the dictionary, without blanks; empty if there is no such key.
std::string_view after(std::string_view header, const std::string& key) {
  const size_t at = header.find("'" + key + "':");
  if (at == std::string_view::npos) return {};
  const size_t from = header.find_first_not_of(' ', at + key.size() + 3);
  return from == std::string_view::npos ? std::string_view() : header.substr(from);
}

// Up to `end` of what begins with `begin`.
std::optional<std::string> between(std::string_view text, char begin, char end) {
  if (text.empty() || text.front() != begin) return std::nullopt;
  const size_t to = text.find(end, 1);
  if (to == std::string_view::npos) return std::nullopt;
  return std::string(text.substr(1, to - 1));
}

std::vector<int64_t> parse_shape(const std::string& text, const std::string& where,
                                 const std::string& name) {
  std::vector<int64_t> shape;
  for (const char* at = text.c_str(); *at != '\0';) {
    if (*at < '0' || *at > '9') {
      if (*at != ' ' && *at != ',') {
        throw Error(fmt::format("the shape of '{}' is no list of sizes", printable(name, 80)),
                    where, kNpyHint);
      }
      ++at;
      continue;
    }
    int64_t dim = 0;
    for (; *at >= '0' && *at <= '9'; ++at) {
      if (__builtin_mul_overflow(dim, 10, &dim) || __builtin_add_overflow(dim, *at - '0', &dim)) {
        throw Error(fmt::format("the shape of '{}' is too large", printable(name, 80)), where);
      }
    }
    if (shape.size() == kMaxDims) {
      throw Error(fmt::format("'{}' has more than {} dimensions", printable(name, 80), kMaxDims),
                  where, kNpyHint);
    }
    shape.push_back(dim);
  }
  return shape;
}

class NpyReader : public ArrayReader {
 public:
  explicit NpyReader(const std::string& path)
      : file_(path), name_(std::filesystem::path(path).stem().string()) {
    const auto header = read_npy_header([this](char* to, size_t count) {
      const size_t got = file_.read(to, count, place_);
      place_ += static_cast<int64_t>(got);
      return got == count;
    });
    if (!header) throw Error("is not an .npy file", path, kNpyHint);
    const ArrayInfo info = parse_npy_header(*header, path, name_);
    if (info.bytes > file_.size() - place_) {
      throw Error(fmt::format("the file is cut off: {} bytes of data, its header says {}",
                              file_.size() - place_, info.bytes),
                  path, "write it again");
    }
    if (info.bytes < file_.size() - place_ && info.type != ArrayType::kOther) {
      throw Error(fmt::format("the file goes on after its array: {} bytes of data, its header says "
                              "{}",
                              file_.size() - place_, info.bytes),
                  path, "write each array to a file of its own");
    }
    arrays_[name_] = info;
  }

  const std::map<std::string, ArrayInfo>& arrays() const override { return arrays_; }

  void read(const std::string& name, char* to, size_t count) override {
    if (name != name_ || arrays_.at(name_).type == ArrayType::kOther ||
        file_.read(to, count, place_) != count) {
      throw Error(fmt::format("the array '{}' is cut off", printable(name, 80)), file_.path());
    }
    place_ += static_cast<int64_t>(count);
  }

 private:
  InputFile file_;
  std::string name_;
  int64_t place_ = 0;  // where to read next
  std::map<std::string, ArrayInfo> arrays_;
};

}  // namespace

std::optional<std::string> read_npy_header(const NpyBytes& bytes) {
  unsigned char start[12];
  if (!bytes(reinterpret_cast<char*>(start), 10)) return std::nullopt;
  if (std::memcmp(start, "\x93NUMPY", 6) != 0 || start[6] < 1 || start[6] > 3) return std::nullopt;
  size_t length = start[8] | static_cast<size_t>(start[9]) << 8;
  if (start[6] > 1) {
    if (!bytes(reinterpret_cast<char*>(start) + 10, 2)) return std::nullopt;
    length |= static_cast<size_t>(start[10]) << 16 | static_cast<size_t>(start[11]) << 24;
  }
  if (length > kMaxHeader) return std::nullopt;
  std::string header(length, '\0');
  if (!bytes(header.data(), length)) return std::nullopt;
  return header;
}

ArrayInfo parse_npy_header(const std::string& header, const std::string& where,
                           const std::string& name) {
  const std::string_view type = after(header, "descr");
  const auto shape = between(after(header, "shape"), '(', ')');
  const std::string_view fortran = after(header, "fortran_order");
  const bool by_rows = fortran.starts_with("False");
  if (type.empty() || !shape || (!by_rows && !fortran.starts_with("True"))) {
    throw Error(fmt::format("'{}' has no NumPy header", printable(name, 80)), where, kNpyHint);
  }
  const std::string code = between(type, '\'', '\'').value_or("a structure");
  if (code.ends_with('O')) {
    throw Error(fmt::format("'{}' is an array of Python objects: a pickle, which is not read",
                            printable(name, 80)),
                where, "save it as numbers, with allow_pickle=False");
  }
  ArrayInfo info;
  info.shape = parse_shape(*shape, where, name);
  const int64_t elements = array_bytes(ArrayType::kUint8, info.shape, where, name);
  const bool turned = !by_rows && info.shape.size() > 1 && elements > 0;
  info.type = turned ? ArrayType::kOther : type_by_npy(code);
  if (info.type == ArrayType::kOther) info.type_name = code + (turned ? " by columns" : "");
  info.bytes = array_bytes(info.type, info.shape, where, name);
  return info;
}

std::unique_ptr<ArrayReader> open_npy(const std::string& path) {
  return std::make_unique<NpyReader>(path);
}

}  // namespace assay
