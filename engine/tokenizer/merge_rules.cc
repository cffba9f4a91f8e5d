#include "engine/tokenizer/merge_rules.h"

#include <string>

namespace assay {
namespace {

uint64_t pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

MergeRules::MergeRules(const std::vector<std::string>& merges, TokenIndex& symbols)
    : slots_(merges.size()) {
  rules_.reserve(merges.size());
  for (const std::string& merge : merges) add(merge, symbols);
}

void MergeRules::add(std::string_view merge, TokenIndex& symbols) {
  const size_t space = merge.find(' ');
  const std::string_view left = merge.substr(0, space);
  const std::string_view right = merge.substr(space + 1);
  const int32_t merged = symbols.intern(std::string(left).append(right));
  const Rule rule = {symbols.intern(std::string(left)), symbols.intern(std::string(right)), merged};
  // Of a pair that is listed twice the first counts.
  if (place_of(rule.left, rule.right) >= 0) return;
  slots_.add(pair_key(rule.left, rule.right), static_cast<int32_t>(rules_.size()));
  rules_.push_back(rule);
}

int32_t MergeRules::place_of(int32_t left, int32_t right) const {
  return slots_.find(pair_key(left, right), [&](int32_t place) {
    const Rule& rule = rules_[static_cast<size_t>(place)];
    return rule.left == left && rule.right == right;
  });
}

Merge MergeRules::find(int32_t left, int32_t right) const {
  const int32_t place = place_of(left, right);
  if (place < 0) return {};
  return {-static_cast<double>(place), rules_[static_cast<size_t>(place)].merged};
}

}  // namespace assay
