#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "assay/log/record.h"
#include "assay/log/skipped_keys.h"

namespace assay {

// An error in a line, before its place is known.
struct LineProblem {
  std::string what;
  std::string hint;
  bool syntax = false;  // not JSON, as opposed to JSON that is not a record
};

enum class LineKind { kBlank, kHeader, kRecord };

// Reads lines of a log. Keeps its buffers from line to line; one thread at a time.
class LineParser {
 public:
  // `skipped`, if given, collects what the record or header of each line does not hold.
  explicit LineParser(SkippedKeys* skipped = nullptr);
  ~LineParser();
  LineParser(const LineParser&) = delete;
  LineParser& operator=(const LineParser&) = delete;

  // Reads the whole of `text`, one line without its end, with kLinePadding readable bytes after it.
  // Throws LineProblem unless the line is blank, a header or a record as in docs/add-an-engine.md:
  // required keys with the right types, no known key twice, consistent sizes. Unknown keys are
  // skipped. Values are stored as the nearest 32-bit floats; one beyond their range is an error.
  LineKind parse(std::string_view text);

  // The same without the numbers: `values` and `sketch` stay empty and unchecked. Ten times faster.
  LineKind skim(std::string_view text);

  // From the last line of that kind; may be moved from.
  Record& record();
  LogHeader& header();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace assay
