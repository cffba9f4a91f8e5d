#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "assay/causes/fitted_mistakes.h"
#include "assay/causes/search.h"

// Mistakes in a checkpoint that cannot be recomputed, tried on what the reference has of it.
namespace assay::causes {
namespace {

// A mistake in a product before an unknown bias: how many values of its parameter are tried, and
// how many tokens it takes to tell the bias from it.
constexpr size_t kMaxBeforeBias = 16;
constexpr size_t kMinForBias = 4;

}  // namespace

// What is changed of an op's result can be tried on the reference's too, where nothing tells how
// to compute it: its inputs are right, or another checkpoint would have diverged before it.
void Search::try_on_reference() {
  if (!evidence_.has_all_values()) return;
  predicted_at_.clear();
  for (const Evidence::Token& token : evidence_.tokens()) predicted_at_.push_back(token.token_idx);
  const std::string name = context_.target.name();
  const auto right = store_.reference(name, predicted_at_);
  if (!right) return;
  for (const BoundMistake& mistake : mistakes_of(network_, context_.target)) {
    if (!mistake.change) continue;
    const auto changed = [&](double parameter) { return mistake.change(*right, parameter); };
    const Trial trial{evidence_, predicted_at_, one_by_one(changed)};
    if (auto found = candidate(mistake, trial, 0, name)) candidates_.push_back(*found);
    if (network_.kind_of(context_.target) == OpKind::kLinear &&
        mistake.grid.size() <= kMaxBeforeBias) {
      try_before_bias(mistake, *right);
    }
  }
  try_sibling();
}

// The same where a bias that is not known is added after it: that shows as one vector at every
// token. What that vector leaves by itself must be the mistake's.
void Search::try_before_bias(const BoundMistake& mistake, const Matrix& right) {
  BoundMistake before = mistake;
  before.text = [text = mistake.text](double parameter) {
    return text(parameter) + " before the bias";
  };
  before.refine = false;
  const auto biased = [&](Matrix changed) {
    for (int64_t i = 0; i < changed.columns; ++i) {
      double sum = 0;
      for (int64_t t = 0; t < changed.rows; ++t) {
        sum += evidence_.tokens()[static_cast<size_t>(t)].got[static_cast<size_t>(i)] -
               static_cast<double>(changed.row(t)[i]);
      }
      const auto mean = static_cast<float>(sum / static_cast<double>(changed.rows));
      for (int64_t t = 0; t < changed.rows; ++t) changed.row(t)[i] += mean;
    }
    return changed;
  };
  const bool cut = std::any_of(
      evidence_.tokens().begin(), evidence_.tokens().end(),
      [&](const Evidence::Token& token) { return std::ssize(token.got) != right.columns; });
  if (cut || !has_distinct_rows(right_, kMinForBias)) return;
  constexpr double kOfBias = 0.1;
  const double most = kOfBias * evidence_.fit(biased(right), predicted_at_).residual;
  const Trial trial{evidence_, predicted_at_, one_by_one([&](double parameter) {
                      return biased(mistake.change(right, parameter));
                    })};
  auto found = candidate(before, trial, 1, context_.target.name());
  if (!found || !(found->fit.residual <= most)) return;
  found->parameters = right.columns;
  candidates_.push_back(*found);
}

// The gate's values at up, and those of up at the gate.
void Search::try_sibling() {
  const Op target = context_.target;
  const std::optional<Op> other = other_of_gate_and_up(target);
  const auto values = other ? store_.reference(other->name(), predicted_at_) : nullptr;
  if (!values) return;
  const bool is_gate = target.checkpoint == Checkpoint::kFfnGate;
  for (const char* name : {"gate_up_swapped", is_gate ? "gate_as_up" : "up_as_gate"}) {
    if (is_refuted_by_other(name, store_, target, predicted_at_)) continue;
    BoundMistake mistake;
    mistake.name = name;
    mistake.text = [&](double) { return fmt::format("holds {}", other->name()); };
    const Trial trial{evidence_, predicted_at_, one_by_one([&](double) { return *values; })};
    candidates_.push_back(*candidate(mistake, trial, 0, target.name()));
  }
}

}  // namespace assay::causes
