#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace assay {

// What of a log's lines no Record or LogHeader holds: keys that are not known, keys whose values
// are of a type that is skipped, and values that are too small for 32-bit floats.
class SkippedKeys {
 public:
  // Once for each line that has the key; "model.quant" is a key within one.
  void add(const std::string& key);

  // Once for each line with a value that is not 0 and whose nearest 32-bit float is.
  void add_vanished() { ++vanished_lines_; }
  int64_t vanished_lines() const { return vanished_lines_; }

  // The keys: "note in 3 lines, model.quant in 1 line"; empty where there were none.
  std::string text() const;

 private:
  std::map<std::string, int64_t> lines_;  // by key, of the first kMost of these
  int64_t others_ = 0;                    // lines with further keys
  int64_t vanished_lines_ = 0;
};

}  // namespace assay
