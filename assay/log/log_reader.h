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
  int32_t file = 0;  // in the list of a RecordLoader
};

enum class Depth {
  kFull,
  kKeys,  // `values` and `sketch` of each record stay empty; a RecordLoader reads them
};

// Reads a log from its first record to its last, in memory bounded by its longest line.
//
// The header, blank lines, a byte order mark and CRLF are allowed; a truncated last line is skipped
// with a warning. Anything else that is not a record is an Error "FILE:LINE: what; hint".
class LogReader {
 public:
  // Throws Error if `path` cannot be read. `skipped`, if given, collects what the records and the
  // header do not hold.
  explicit LogReader(const std::string& path, Depth depth = Depth::kFull,
                     SkippedKeys* skipped = nullptr);

  // The next record, valid until the next call; nullptr at the end. Throws Error.
  Record* next();

  // Of the last record from next().
  const RecordPlace& place() const { return place_; }

  // Known once next() has been called.
  const std::optional<LogHeader>& header() const { return header_; }
  // What was skipped; complete once next() has returned nullptr.
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

// The header of a log. Where `path` is a folder (run_files.h), that of the first file that has one,
// with the model that the files name together. Throws Error if they name several, or if a log
// cannot be read up to its first record.
std::optional<LogHeader> read_log_header(const std::string& path);

// The error for a log without records.
Error no_records_error(const LogReader& log);

// Reads single records again, at places from a LogReader. One thread at a time.
class RecordLoader {
 public:
  using Files = std::vector<std::shared_ptr<const InputFile>>;

  explicit RecordLoader(std::shared_ptr<const InputFile> file)
      : files_(std::make_shared<const Files>(1, std::move(file))) {}
  explicit RecordLoader(std::shared_ptr<const Files> files) : files_(std::move(files)) {}

  // The record at `place`, valid until the next call. Throws Error.
  Record& load(const RecordPlace& place);

  // Row `row` of `rows` equal ones of the record at `place`: one token of a whole sequence. Valid
  // until the next call of it. Members about all rows together (summary, sketch) are omitted. The
  // file is read once for all rows of a record. Throws Error.
  Record& load_row(const RecordPlace& place, int64_t row, int64_t rows);
  // The record that the last row is of.
  const Record& sequence() const { return sequence_; }

 private:
  std::shared_ptr<const Files> files_;
  LineBuffer buffer_;
  LineParser parser_;
  Record sequence_;  // the last record of load_row()
  int64_t sequence_offset_ = -1;
  int32_t sequence_file_ = 0;
  Record row_;
};

}  // namespace assay
