#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "assay/compare/garbage.h"
#include "assay/report/json_object.h"

namespace assay {

// "7, 9-20" of sorted numbers.
std::string ranges_text(const std::vector<int64_t>& numbers);

// What was found of one kind, garbage or suspicions, added by token.
struct GarbageGroup {
  int64_t added = 0;
  std::vector<int64_t> tokens;

  void add(int64_t token);
  // "token 7", "tokens 7, 9-20".
  std::string tokens_text() const;
  // "26 values at tokens 7, 9-20", of so many values, listed or not.
  std::string text(int64_t values) const;
};

// The members of one garbage value.
void append_garbage(const std::string& checkpoint, int64_t token_idx, const Garbage& garbage,
                    JsonObject& object);

}  // namespace assay
