#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "assay/log/record.h"

namespace assay {

inline constexpr int64_t kAllValues = -1;
inline constexpr int64_t kDefaultHeadValues = 10;

// The contents of each record of a LogWriter.
struct LogOptions {
  std::string team;                          // omitted if empty
  int64_t head_values = kDefaultHeadValues;  // how many leading values, or kAllValues
  bool summary = true;
  bool sketch = false;  // includes the summary, whose count of non-finite elements it needs
  bool times = false;   // when each record was logged: no two runs then write the same bytes
};

// A record that is being logged, before it is text.
struct RawRecord {
  std::string_view checkpoint;
  int64_t token_idx = 0;
  std::string_view dtype;
  std::span<const int64_t> shape;
  std::span<const float> values;   // as many as the shape has
  std::string_view ts;             // a JSON string, with its quotes; empty: none
  const Sketch* sketch = nullptr;  // of the values; null: not computed yet
  std::string_view sequence = {};  // of several in the log; empty: "0", which is omitted
};

// How many of the record's values its line has.
size_t printed_values(const RawRecord& record, const LogOptions& options);

// Appends the record's line, with its newline: the same bytes whenever and wherever it is called.
void append_log_line(std::string& out, const RawRecord& record, const LogOptions& options);

}  // namespace assay
