#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace assay {

// "7, 9-20" of sorted numbers, such as the tokens of a group.
std::string ranges_text(const std::vector<int64_t>& numbers);

// What is of one kind, added in the order of the tokens: values that are garbage, or records that
// are suspicious.
struct GarbageGroup {
  int64_t values = 0;           // how many were added; of suspicions, records
  std::vector<int64_t> tokens;  // each once

  void add(int64_t token);
  // "26 values at tokens 7, 9-20"; for garbage only.
  std::string text() const;
};

}  // namespace assay
