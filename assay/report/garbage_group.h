#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace assay {

// "7, 9-20" of sorted numbers.
std::string ranges_text(const std::vector<int64_t>& numbers);

// Garbage of one kind, added by token.
struct GarbageGroup {
  int64_t values = 0;
  std::vector<int64_t> tokens;

  void add(int64_t token);
  // "26 values at tokens 7, 9-20"
  std::string text() const;
};

}  // namespace assay
