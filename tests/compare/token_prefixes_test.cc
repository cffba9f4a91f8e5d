// Lists of tokens that others begin with.
#include "assay/compare/token_prefixes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace assay {
namespace {

using Tokens = std::vector<int64_t>;

// Each tried with each.
std::optional<size_t> first_by_trying(const std::vector<Tokens>& lists, const Tokens& tokens,
                                      size_t min_size, const std::vector<bool>& taken) {
  for (size_t i = 0; i < lists.size(); ++i) {
    const size_t common = std::min(lists[i].size(), tokens.size());
    if (taken[i] || common < min_size) continue;
    if (std::equal(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(common),
                   lists[i].begin())) {
      return i;
    }
  }
  return std::nullopt;
}

// Breaks if another list were found than by trying all of them, while lists are taken one by one.
TEST(TokenPrefixes, FindWhatTryingAllFinds) {
  std::mt19937 random(7);
  int n_found = 0;
  for (int round = 0; round < 300; ++round) {
    const auto list = [&](size_t most) {
      Tokens tokens(1 + random() % most);
      for (int64_t& token : tokens) token = random() % 2;
      return tokens;
    };
    std::vector<Tokens> lists;
    for (size_t i = random() % 40; i > 0; --i) lists.push_back(list(8));
    std::vector<TokenPrefixes::Entry> entries;
    for (size_t i = 0; i < lists.size(); ++i) entries.push_back({lists[i], i});
    std::ranges::shuffle(entries, random);
    TokenPrefixes prefixes(std::move(entries));
    std::vector<bool> taken(lists.size(), false);
    for (int query = 0; query < 60; ++query) {
      const Tokens tokens = list(10);
      const size_t min_size = 1 + random() % 3;
      const auto found = prefixes.first(tokens, min_size, taken);
      ASSERT_EQ(found, first_by_trying(lists, tokens, min_size, taken)) << round;
      if (!found) continue;
      taken[*found] = true;
      ++n_found;
    }
  }
  EXPECT_GT(n_found, 1000);
}

}  // namespace
}  // namespace assay
