#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "assay/log/record.h"
#include "assay/log/skipped_keys.h"

namespace assay {

// What is wrong with a line, before it is known where the line is.
struct LineProblem {
  std::string what;
  std::string hint;
  bool syntax = false;  // not JSON, as opposed to JSON that is no record
};

enum class LineKind { kBlank, kHeader, kRecord };

// Reads lines of a log. Keeps its buffers from line to line; one thread at a time.
class LineParser {
 public:
  // `skipped`, if given, is told what of each line its record or header does not hold.
  explicit LineParser(SkippedKeys* skipped = nullptr);
  ~LineParser();
  LineParser(const LineParser&) = delete;
  LineParser& operator=(const LineParser&) = delete;

  // Reads the whole of `text`, one line without its end, with kLinePadding readable bytes after it.
  // Throws LineProblem unless the line is blank, a header or a record as docs/add-an-engine.md has
  // them: required keys there and of their types, no known key twice, sizes that agree. Unknown
  // keys are skipped. Values are held as the nearest 32-bit floats, and one beyond their range is a
  // problem.
  LineKind parse(std::string_view text);

  // The same without the numbers: `values` and `sketch` stay empty and unchecked. Ten times faster.
  LineKind skim(std::string_view text);

  // Of the last line of that kind; may be moved from.
  Record& record();
  LogHeader& header();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace assay
