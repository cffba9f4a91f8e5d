#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "assay/log/line_parser.h"
#include "assay/log/line_reader.h"
#include "assay/log/record.h"
#include "base/error.h"

namespace assay {

// Where a record is in its file.
struct RecordPlace {
  int64_t offset = 0;
  int64_t bytes = 0;
  int64_t line = 0;  // 1-based
};

enum class Depth {
  kFull,
  kKeys,  // `values` and `sketch` of each record stay empty; a RecordLoader reads them
};

// Reads a log from its first record to its last, in memory bounded by its longest line.
//
// The header, blank lines, a byte order mark and CRLF are allowed; a last line that was cut off is
// left out with a warning. Everything else that is no record is an Error "FILE:LINE: what; hint".
class LogReader {
 public:
  // Throws Error if `path` cannot be read. `skipped`, if given, is told what of the lines the
  // records and the header do not hold.
  explicit LogReader(const std::string& path, Depth depth = Depth::kFull,
                     SkippedKeys* skipped = nullptr);

  // The next record, valid until the next call; nullptr at the end. Throws Error.
  Record* next();

  // Of the record that next() gave last.
  const RecordPlace& place() const { return place_; }

  // Known once next() has been called.
  const std::optional<LogHeader>& header() const { return header_; }
  // What was left out; complete once next() has returned nullptr.
  const std::vector<std::string>& warnings() const { return warnings_; }
  std::shared_ptr<const InputFile> file() const { return file_; }

 private:
  LineKind parse(const Line& line);
  bool is_cut(std::string_view text);

  Depth depth_;
  std::shared_ptr<const InputFile> file_;
  LineReader lines_;
  LineParser parser_;
  RecordPlace place_;
  std::optional<LogHeader> header_;
  std::vector<std::string> warnings_;
  bool any_line_ = false;
};

// The header of a log, if it has one. Throws Error if the log cannot be read up to its first
// record.
std::optional<LogHeader> read_log_header(const std::string& path);

// What to throw when a log has turned out to hold no records.
Error no_records_error(const LogReader& log);

// Reads single records again, at places that a LogReader gave. One thread at a time.
class RecordLoader {
 public:
  explicit RecordLoader(std::shared_ptr<const InputFile> file) : file_(std::move(file)) {}

  // The record at `place`, valid until the next call. Throws Error.
  Record& load(const RecordPlace& place);

  // Row `row` of `rows` equal ones of the record at `place`: one token of a whole sequence. Valid
  // until the next call of it. What tells of all rows together (summary, sketch) is left out.
  // Rows of one record are read from the file once. Throws Error.
  Record& load_row(const RecordPlace& place, int64_t row, int64_t rows);

 private:
  std::shared_ptr<const InputFile> file_;
  LineBuffer buffer_;
  LineParser parser_;
  Record sequence_;  // what load_row() read last
  int64_t sequence_offset_ = -1;
  Record row_;
};

}  // namespace assay
