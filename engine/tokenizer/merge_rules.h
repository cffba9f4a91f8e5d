#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/tokenizer/merge.h"
#include "engine/tokenizer/token_index.h"
#include "engine/tokenizer/vocabulary.h"

namespace assay {

// The merges of a vocabulary, of which the first in the list goes first.
class MergeRules {
 public:
  // Texts that occur only on the way to a token get numbers in `symbols`.
  MergeRules(const std::vector<std::string>& merges, TokenIndex& symbols);

  // What two neighbours become.
  Merge find(int32_t left, int32_t right) const;

 private:
  struct Rule {
    int32_t left;
    int32_t right;
    int32_t merged;
  };

  void add(std::string_view merge, TokenIndex& symbols);
  // The place of the rule for two neighbours, -1 if they do not merge.
  int32_t place_of(int32_t left, int32_t right) const;

  std::vector<Rule> rules_;
  HashSlots slots_;
};

}  // namespace assay
