#include <algorithm>
#include <utility>

#include "assay/causes/search.h"

// Mistakes of a long prompt are tried at its first tokens before they are tried at all.
namespace assay::causes {

// At the first positions that are right, where they are few of those that have to be computed.
void Search::make_early() {
  constexpr int64_t kFew = 2;      // times as many are worth it
  constexpr int64_t kEnough = 16;  // positions before one show most mistakes at it
  const int64_t last = chain_.positions().back();
  if (context_.tail || last < kReach) return;
  std::vector<int64_t> at;
  for (const Evidence::Token& token : evidence_.tokens()) {
    if (!token.differs && kFew * token.token_idx <= last) at.push_back(token.token_idx);
    if (!at.empty() && at.back() >= kEnough) break;
  }
  const std::string name = context_.target.name();
  if (at.empty()) return;
  auto early = std::make_unique<Screen>(
      Screen{Evidence(store_, name, at), Chain(network_, store_, context_.target, at, true)});
  if (!early->chain.complete()) return;
  const double work = early->chain.base_multiplications();
  if (!(kFew * work <= chain_.base_multiplications())) return;
  early->evidence.complete(early->chain.base(), early->chain.positions());
  multiplications_ += work;
  const Fit all = evidence_.fit(right_);
  constexpr double kFarTooMuch = 0.1;  // ten times what a mistake that is named may leave
  most_left_ = kFarTooMuch * std::min(all.difference, all.norm);
  early_ = std::move(early);
}

// What is left of a mistake and its grid by the early positions; nothing where they refute it.
std::optional<BoundMistake> Search::unrefuted(const Try& one, const Kinds& kinds, double most,
                                              Outcome& outcome) const {
  const BoundMistake& mistake = one.mistake;
  const bool reads_ahead =
      mistake.reads_ahead || mistake.name == kTokenShift || mistake.reads_all_positions;
  if (!early_ || reads_ahead) return mistake;
  const Trial trial{early_->evidence, early_->chain.positions(),
                    predictor(one, kinds, early_->chain, most, outcome)};
  return left_of_grid(trial, mistake, most_left_);
}

}  // namespace assay::causes
