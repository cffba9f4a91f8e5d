#include "assay/convert/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "assay/convert/array_file.h"
#include "assay/log/line_parser.h"
#include "assay/log/log_reader.h"
#include "assay/log/record_text.h"
#include "base/error.h"

namespace assay {
namespace {

constexpr const char* kRecords = "assay.records";
constexpr const char* kCounts = "assay.counts";
constexpr size_t kPiece = size_t{1} << 20;
constexpr const char* kHint = "give a file that assay convert wrote";

// Which array holds the values of records of a checkpoint with that many of them.
class ArrayNames {
 public:
  std::string name(const std::string& checkpoint, int64_t count) {
    const int64_t first = first_.try_emplace(checkpoint, count).first->second;
    return count == first ? checkpoint : fmt::format("{}#{}", checkpoint, count);
  }

 private:
  std::map<std::string, int64_t> first_;  // number of values of a checkpoint's first record
};

// The values of one checkpoint's records, read from the log again.
struct Rows {
  int64_t count = 0;  // values of each
  std::vector<RecordPlace> places;
  size_t next = 0;
};

ArraySource source_of(std::shared_ptr<Rows> rows, std::shared_ptr<RecordLoader> loader) {
  return [rows = std::move(rows), loader = std::move(loader)](std::string& bytes) {
    const Record& record = loader->load(rows->places.at(rows->next++));
    bytes.assign(reinterpret_cast<const char*>(record.values.data()),
                 record.values.size() * sizeof(float));
  };
}

ArraySource source_of(std::string text) {
  return [text = std::move(text)](std::string& bytes) { bytes = text; };
}

// Bytes of an array, in pieces: a shape that is not true must not ask for more memory than there is
// data.
std::string read_bytes(ArrayReader& reader, const std::string& name, int64_t count) {
  std::string bytes;
  while (std::ssize(bytes) < count) {
    const size_t part = std::min(kPiece, static_cast<size_t>(count - std::ssize(bytes)));
    bytes.resize(bytes.size() + part);
    reader.read(name, bytes.data() + bytes.size() - part, part);
  }
  return bytes;
}

class LogBuilder {
 public:
  LogBuilder(const std::string& path, const std::function<void(std::string_view)>& sink)
      : path_(path), sink_(sink), reader_(open_arrays(path)) {}

  void build() {
    const std::string text = read_whole(kRecords, ArrayType::kUint8) + std::string(kLinePadding, 0);
    const std::string counts = read_whole(kCounts, ArrayType::kInt64);
    const size_t size = text.size() - kLinePadding;
    size_t record = 0;
    for (size_t at = 0, end = 0; at < size; at = end + 1) {
      end = std::min(text.find('\n', at), size);
      if (add_line({text.data() + at, end - at})) continue;
      int64_t count = -1;
      if ((record + 1) * sizeof(count) <= counts.size()) {
        std::memcpy(&count, counts.data() + record * sizeof(count), sizeof(count));
      }
      add_values(count);
      ++record;
    }
    if (record * sizeof(int64_t) != counts.size()) fail("it has more counts than records");
    flush();
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw Error(what, path_, kHint); }

  std::string read_whole(const std::string& name, ArrayType type) {
    const auto array = reader_->arrays().find(name);
    if (array == reader_->arrays().end() || array->second.type != type) {
      fail(fmt::format("the array '{}' is missing: this is not a log", name));
    }
    return read_bytes(*reader_, name, array->second.bytes);
  }

  // True for a header, false for a record, which then has its values to come.
  bool add_line(std::string_view line) {
    try {
      switch (parser_.parse(line)) {
        case LineKind::kBlank:
          return true;
        case LineKind::kHeader:
          text_ += header_line(parser_.header());
          return true;
        case LineKind::kRecord:
          return false;
      }
    } catch (const LineProblem& problem) {
      fail(fmt::format("'{}': {}", kRecords, problem.what));
    }
    return true;
  }

  void add_values(int64_t count) {
    Record& record = parser_.record();
    const std::string name = names_.name(record.checkpoint, count);
    const auto array = reader_->arrays().find(name);
    const bool fits = array != reader_->arrays().end() && count >= 0 && count <= record.n &&
                      array->second.type == ArrayType::kFloat32 &&
                      array->second.shape.size() == 2 && array->second.shape[1] == count &&
                      rows_[name]++ < array->second.shape[0];
    if (!fits) fail(fmt::format("the array '{}' does not fit the records", printable(name, 80)));
    const std::string bytes = read_bytes(*reader_, name, count * int64_t{sizeof(float)});
    record.values.resize(static_cast<size_t>(count));
    std::memcpy(record.values.data(), bytes.data(), bytes.size());
    append_record_line(text_, record);
    if (text_.size() >= kPiece) flush();
  }

  void flush() {
    sink_(text_);
    text_.clear();
  }

  const std::string& path_;
  const std::function<void(std::string_view)>& sink_;
  std::unique_ptr<ArrayReader> reader_;
  LineParser parser_;
  ArrayNames names_;
  std::map<std::string, int64_t> rows_;  // read so far
  std::string text_;
};

}  // namespace

void log_to_arrays(const std::string& log, const std::string& arrays) {
  LogReader reader(log);
  ArrayNames names;
  std::map<std::string, std::shared_ptr<Rows>> rows;
  std::vector<std::string> order;
  std::vector<int64_t> counts;
  std::string records;
  while (Record* record = reader.next()) {
    if (counts.empty() && reader.header()) records += header_line(*reader.header());
    const int64_t count = std::ssize(record->values);
    const std::string name = names.name(record->checkpoint, count);
    std::shared_ptr<Rows>& place = rows[name];
    if (place == nullptr) {
      place = std::make_shared<Rows>(Rows{count, {}, 0});
      order.push_back(name);
    }
    place->places.push_back(reader.place());
    counts.push_back(count);
    record->values.clear();
    append_record_line(records, *record);
  }
  if (counts.empty()) throw no_records_error(reader);
  const std::unique_ptr<ArrayWriter> writer = create_arrays(arrays);
  const auto loader = std::make_shared<RecordLoader>(reader.file());
  for (const std::string& name : order) {
    const std::shared_ptr<Rows>& place = rows[name];
    writer->add(name, ArrayType::kFloat32, {std::ssize(place->places), place->count},
                source_of(place, loader));
  }
  const auto* count_bytes = reinterpret_cast<const char*>(counts.data());
  writer->add(kCounts, ArrayType::kInt64, {std::ssize(counts)},
              source_of(std::string(count_bytes, counts.size() * sizeof(int64_t))));
  const int64_t size = std::ssize(records);
  writer->add(kRecords, ArrayType::kUint8, {size}, source_of(std::move(records)));
  writer->close();
}

void arrays_to_log(const std::string& arrays, const std::function<void(std::string_view)>& sink) {
  LogBuilder(arrays, sink).build();
}

}  // namespace assay
