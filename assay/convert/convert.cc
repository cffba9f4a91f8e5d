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
#include "assay/log/line_reader.h"
#include "assay/log/log_reader.h"
#include "assay/log/record_text.h"
#include "base/count_of.h"
#include "base/error.h"

namespace assay {
namespace {

constexpr const char* kRecords = "assay.records";
constexpr const char* kCounts = "assay.counts";
constexpr int64_t kPiece = int64_t{1} << 20;
constexpr int64_t kMaxValues = kMaxLineBytes / 2;  // per readable line: a digit and a comma each
constexpr const char* kConvertHint = "give a file that assay convert wrote";

// The limit for lines of `assay.records`, which have no values: an archive may be compressed to a
// thousandth, and one line is in memory at a time.
constexpr int64_t kMaxRecordLine = int64_t{16} << 20;

// Whether a checkpoint's name is reserved, or looks like a name with a number of values appended.
bool needs_count(std::string_view checkpoint) {
  if (checkpoint == kRecords || checkpoint == kCounts || checkpoint == "__metadata__") return true;
  const size_t mark = checkpoint.find_last_not_of("0123456789");
  return mark != std::string_view::npos && mark + 1 < checkpoint.size() && checkpoint[mark] == '#';
}

// The array that holds the records of a checkpoint with a given number of values.
class ArrayNames {
 public:
  std::string name(const std::string& checkpoint, int64_t count) {
    const int64_t first = first_.try_emplace(checkpoint, count).first->second;
    return count == first && !needs_count(checkpoint) ? checkpoint
                                                      : fmt::format("{}#{}", checkpoint, count);
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

// The lines of an array of text, through a buffer that holds the longest of them.
class TextLines {
 public:
  TextLines(ArrayReader& reader, std::string name, int64_t bytes, const std::string& path)
      : reader_(reader), name_(std::move(name)), left_(bytes), path_(path) {}

  // The next line, valid until the next call, followed by kLinePadding readable bytes;
  // false at the end. Throws Error if the array is truncated or a line longer than kMaxRecordLine.
  bool next(std::string_view& line) {
    for (int64_t searched = begin_;;) {
      const void* end =
          std::memchr(buffer_.data() + searched, '\n', static_cast<size_t>(end_ - searched));
      const bool last = end == nullptr && left_ == 0;
      if (end != nullptr || last) {
        if (last && begin_ == end_) return false;
        const int64_t at = last ? end_ : static_cast<const char*>(end) - buffer_.data();
        line = {buffer_.data() + begin_, static_cast<size_t>(at - begin_)};
        begin_ = std::min(at + 1, end_);
        return true;
      }
      searched = end_ - begin_;
      fill();
    }
  }

 private:
  void fill() {
    if (end_ - begin_ > kMaxRecordLine) {
      throw Error(fmt::format("'{}': a line is longer than {} MiB", name_, kMaxRecordLine >> 20),
                  path_, kConvertHint);
    }
    buffer_.erase(0, static_cast<size_t>(begin_));
    end_ -= begin_;
    begin_ = 0;
    const int64_t part = std::min(kPiece, left_);
    buffer_.resize(static_cast<size_t>(end_ + part) + kLinePadding);
    reader_.read(name_, buffer_.data() + end_, static_cast<size_t>(part));
    end_ += part;
    left_ -= part;
  }

  ArrayReader& reader_;
  std::string name_;
  int64_t left_;  // bytes that have not been read
  const std::string& path_;
  std::string buffer_ = std::string(kLinePadding, 0);
  int64_t begin_ = 0;  // of the data not yet returned
  int64_t end_ = 0;    // of the data read
};

class LogBuilder {
 public:
  LogBuilder(const std::string& path, const std::function<void(std::string_view)>& sink)
      : path_(path), sink_(sink), reader_(open_arrays(path)) {}

  void build() {
    TextLines lines(*reader_, kRecords, bytes_of(kRecords, ArrayType::kUint8), path_);
    int64_t counts_left = bytes_of(kCounts, ArrayType::kInt64);
    std::string_view line;
    while (lines.next(line)) {
      if (add_line(line)) continue;
      int64_t count = -1;
      if (counts_left > 0) reader_->read(kCounts, reinterpret_cast<char*>(&count), sizeof(count));
      counts_left -= int64_t{sizeof(count)};
      add_values(count);
    }
    if (counts_left != 0) fail("it has more counts than records");
    for (const auto& [name, array] : reader_->arrays()) {
      const bool of_records = array.type == ArrayType::kFloat32 && array.shape.size() == 2;
      if (!of_records || rows_[name] == array.shape[0]) continue;
      fail(fmt::format("the array '{}' has {} rows, the records use {}", printable(name, 80),
                       array.shape[0], rows_[name]));
    }
    flush();
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw Error(what, path_, kConvertHint); }

  int64_t bytes_of(const std::string& name, ArrayType type) const {
    const auto array = reader_->arrays().find(name);
    if (array == reader_->arrays().end() || array->second.type != type) {
      fail(fmt::format("the array '{}' is missing: this is not a log", name));
    }
    return array->second.bytes;
  }

  // True for a header, false for a record, whose values are then read next.
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
    if (count > kMaxValues) {
      fail(fmt::format("'{}': a record of {} values makes a line that is too long",
                       printable(name, 80), count));
    }
    // In pieces: a false shape must not allocate more memory than there is data.
    for (int64_t done = 0; done < count; done = std::ssize(record.values)) {
      const int64_t part = std::min(kPiece, count - done);
      record.values.resize(static_cast<size_t>(done + part));
      reader_->read(name, reinterpret_cast<char*>(record.values.data() + done),
                    static_cast<size_t>(part) * sizeof(float));
    }
    if (!has_shape_of_values(record)) {
      fail(fmt::format("'{}': a record's shape is neither that of its {} values nor of all {}",
                       printable(name, 80), count, record.n));
    }
    append_record_line(text_, record);
    if (std::ssize(text_) >= kPiece) flush();
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

std::vector<std::string> log_to_arrays(const std::string& log, const std::string& arrays) {
  SkippedKeys skipped;
  LogReader reader(log, Depth::kFull, &skipped);
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
    const size_t before = records.size();
    append_record_line(records, *record);
    if (std::ssize(records) - static_cast<int64_t>(before) > kMaxRecordLine) {
      throw Error(fmt::format("a record of '{}' is longer than {} MiB without its values",
                              printable(record->checkpoint, 80), kMaxRecordLine >> 20),
                  log);
    }
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
  std::vector<std::string> warnings = reader.warnings();
  if (const std::string keys = skipped.text(); !keys.empty()) {
    warnings.push_back(fmt::format("{}: left out keys that are unknown or of a wrong type: {}",
                                   printable(log), keys));
  }
  if (skipped.vanished_lines() > 0) {
    warnings.push_back(
        fmt::format("{}: nonzero values below 1.4e-45, the least of 32-bit floats, became 0 in "
                    "{}",
                    printable(log), count_of(skipped.vanished_lines(), "line")));
  }
  return warnings;
}

void arrays_to_log(const std::string& arrays, const std::function<void(std::string_view)>& sink) {
  LogBuilder(arrays, sink).build();
}

}  // namespace assay
