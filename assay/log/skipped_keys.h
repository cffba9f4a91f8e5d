#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace assay {

// Parts of a log's lines that no Record or LogHeader holds: unknown keys, keys whose values have an
// ignored type, and values too small for 32-bit floats.
class SkippedKeys {
 public:
  // Once for each line that has the key; "model.quant" is a key within one.
  void add(const std::string& key);

  // Once for each line with a nonzero value whose nearest 32-bit float is 0.
  void add_vanished() { ++vanished_lines_; }
  int64_t vanished_lines() const { return vanished_lines_; }

  // The keys: "note in 3 lines, model.quant in 1 line"; empty if there were none.
  std::string text() const;

 private:
  std::map<std::string, int64_t> lines_;  // by key, of the first kMost of these
  int64_t others_ = 0;                    // lines with further keys
  int64_t vanished_lines_ = 0;
};

}  // namespace assay
