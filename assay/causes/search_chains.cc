#include <algorithm>
#include <memory>
#include <numeric>
#include <set>

#include "assay/causes/search.h"

// What is computed besides the search's own chain, for mistakes that read more positions.
namespace assay::causes {

// Where each result is moved to another token, that of the token beside one of the evidence is
// needed too: it may be none of it.
void Search::make_neighbours() {
  const auto has_holes = [](const Evidence::Token& token) { return !token.holes.empty(); };
  // What is not finite may spread to all that reads it.
  if (std::ranges::any_of(evidence_.tokens(), has_holes)) return;
  std::set<int64_t> at;
  for (const Evidence::Token& token : evidence_.tokens()) {
    const int64_t last = evidence_.tokens().back().token_idx;
    for (int64_t by = -1; by <= 1; ++by) {
      const int64_t beside = token.token_idx + by;
      if (beside >= 0 && beside <= last) at.insert(beside);
    }
  }
  if (at.size() == evidence_.tokens().size()) return;
  auto chain = std::make_unique<Chain>(network_, store_, context_.target,
                                       std::vector<int64_t>(at.begin(), at.end()));
  if (!chain->complete()) return;
  const double work = chain->base_multiplications();
  if (!(multiplications_ + work <= max_multiplications_)) return;
  chain->base();
  multiplications_ += work;
  neighbours_ = std::move(chain);
}

// All positions, for the mistakes that read them: of the prompt those, too, that the evidence does
// not reach, where the logs have them.
void Search::make_whole(const std::vector<Try>& tries) {
  const auto reads_all = [](const Try& one) { return one.mistake.reads_all_positions; };
  if (std::ranges::none_of(tries, reads_all)) return;
  const int64_t end = evidence_.tokens().back().token_idx + 1;
  const auto chain_to = [&](int64_t last) {
    std::vector<int64_t> all(static_cast<size_t>(last));
    std::iota(all.begin(), all.end(), int64_t{0});
    return std::make_unique<Chain>(network_, store_, context_.target, std::move(all));
  };
  auto chain = chain_to(std::max(end, network_.n_prompt));
  if (!chain->complete()) chain = chain_to(end);
  if (!chain->complete()) return;
  const double work = chain->base_multiplications();
  if (!(multiplications_ + work <= max_multiplications_)) {
    for (const Try& one : tries) {
      if (reads_all(one)) leave_out({&one, 1});
    }
    return;
  }
  chain->base();
  multiplications_ += work;
  whole_ = std::move(chain);
}

const Chain& Search::chain_for(const BoundMistake& mistake) const {
  if (whole_ && mistake.reads_all_positions) return *whole_;
  return neighbours_ && mistake.name == kTokenShift ? *neighbours_ : chain_;
}

}  // namespace assay::causes
