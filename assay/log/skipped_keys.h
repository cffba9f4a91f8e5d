#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace assay {

// Keys of a log's lines whose values no Record or LogHeader holds: those that are not known, and
// those whose values are of a type that is skipped.
class SkippedKeys {
 public:
  // Once for each line that has the key; "model.quant" is a key within one.
  void add(const std::string& key);

  // "note in 3 lines, model.quant in 1 line"; empty where there were none.
  std::string text() const;

 private:
  std::map<std::string, int64_t> lines_;  // by key, of the first kMost of these
  int64_t others_ = 0;                    // lines with further keys
};

}  // namespace assay
