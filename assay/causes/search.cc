#include "assay/causes/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <iterator>
#include <mutex>
#include <set>
#include <utility>

#include "assay/causes/fitted_mistakes.h"
#include "assay/compare/median.h"
#include "base/interrupt.h"
#include "base/thread_pool.h"

namespace assay::causes {
namespace {

// Ends a try that would take more than the search may.
struct WorkLimitReached {};

// A whole number was not fitted: somebody meant it.
bool is_whole(double value) {
  return std::abs(value - std::round(value)) <= 1e-4 * std::max(1.0, std::abs(value));
}

// Another factor on a branch than none, twice and so on is rather called a scale or a sign.
bool is_plain_factor(const BoundMistake& mistake, double parameter) {
  return mistake.name == "residual" && mistake.refine &&
         (!is_whole(parameter) || std::round(parameter) < 0 || std::round(parameter) == 1);
}

// Positions that a mistake is tried at before it is tried at all.
constexpr size_t kScreened = 3;

constexpr double kMostBytes = 2e9;  // of what all threads compute

// Values of a parameter that are tried at once, so that weights are read once for all of them.
size_t runs_at_once(const Chain& chain) {
  constexpr double kMostRuns = 16;
  constexpr double kMostBytesOfAThread = kMostBytes / 8;
  return static_cast<size_t>(
      std::clamp(kMostBytesOfAThread / std::max(chain.bytes(), 1.0), 1.0, kMostRuns));
}

// Without those beyond the last known token, where only the tokens tell what is computed; as long
// as one that has diverged is left.
void leave_out_unknown(const Network& network, TensorStore& store, Op target, int64_t first_token,
                       std::vector<int64_t>& all) {
  const int64_t n_known = std::ssize(store.known_tokens());
  if (all.empty() || all.back() < n_known || first_token >= n_known) return;
  if (Chain(network, store, target, all, true).complete()) return;
  std::vector<int64_t> known = all;
  std::erase_if(known, [&](int64_t one) { return one >= n_known; });
  if (Chain(network, store, target, known, true).complete()) all = std::move(known);
}

std::vector<int64_t> positions(const Network& network, TensorStore& store, Op target,
                               const Search::Where& where) {
  auto all = positions_to_try(store, target.name(), where.first_token);
  if (where.tail) std::erase_if(all, [&](int64_t one) { return one < where.tail->from; });
  leave_out_unknown(network, store, target, where.first_token, all);
  if (all.empty() || all.back() < where.first_token + kReach) return all;
  std::vector<int64_t> near = all;
  std::erase_if(near, [&](int64_t one) { return one >= where.first_token + kReach; });
  return Chain(network, store, target, near, true).spans_layers() ? near : all;
}

}  // namespace

Search::Search(const Network& network, TensorStore& store, Op target, Where where,
               Progress progress, double max_multiplications)
    : network_(network.at(target)),
      store_(store),
      progress_(std::move(progress)),
      max_multiplications_(max_multiplications),
      judged_has_more_(where.judged_has_more),
      evidence_(store, target.name(), positions(network, store, target, where)),
      chain_(network, store, target, positions(network, store, target, where)),
      runs_at_once_(runs_at_once(chain_)) {
  context_.target = target;
  context_.first_token = where.first_token;
  context_.tail = where.tail;
  context_.n_prompt = std::ssize(store.tokens());
}

void Search::run() {
  if (evidence_.tokens().empty()) return;
  for (const Evidence::Token& token : evidence_.tokens()) right_.push_back(token.ref);
  context_.reference = evidence_.fit(right_);
  measure_noise();
  if (can_recompute()) {
    try_recomputed();
  } else {
    if (chain_.complete()) {
      const std::vector<Try> tries = to_try();
      stopped_ = fmt::format("0 of {}", tries.size());
      leave_out(tries);
    }
    try_on_reference();
  }
  if (!is_inherited()) try_fitted();
}

bool Search::can_recompute() const {
  return chain_.complete() && chain_.base_multiplications() <= max_multiplications_;
}

// Whether mistakes in single layers need no trial: one in every layer leaves next to nothing, and
// is not a factor, which another one in a single layer may amount to.
bool Search::is_settled() const {
  constexpr double kSettled = 0.9999;
  const Judgement judgement = judge(candidates_, context_);
  return judgement.cause && judgement.cause->explained > kSettled &&
         !is_factor(judgement.cause->name);
}

// At the first positions that differ, where that is less work.
void Search::make_screen() {
  std::vector<int64_t> at;
  for (const Evidence::Token& token : evidence_.tokens()) {
    if (token.differs && at.size() < kScreened) at.push_back(token.token_idx);
  }
  const std::string name = context_.target.name();
  auto screen = std::make_unique<Screen>(
      Screen{Evidence(store_, name, at), Chain(network_, store_, context_.target, at, true)});
  if (at.empty() || !screen->chain.complete()) return;
  const double work = screen->chain.base_multiplications();
  if (!(work < chain_.base_multiplications())) return;
  screen->evidence.complete(screen->chain.base(), screen->chain.positions());
  multiplications_ += work;
  screen_ = std::move(screen);
}

// As the work is bounded.
void Search::leave_out(std::span<const Try> tries) {
  for (const Try& one : tries) {
    const std::string& name = one.mistake.name;
    if (std::ranges::find(not_tried_, name) == not_tried_.end()) not_tried_.push_back(name);
  }
}

// Not a mistake that lets a position read those after it, which a screen has not got.
bool Search::is_screened(const Try& one) const {
  const bool reads_ahead = one.mistake.name == kTokenShift || one.mistake.reads_ahead ||
                           one.mistake.reads_all_positions ||
                           (one.op.checkpoint == Checkpoint::kAttn && one.mistake.grid.empty());
  return screen_ && !reads_ahead;
}

bool Search::is_inherited() const {
  constexpr double kOwn = 0.1;
  return chain_.complete() && context_.base_ratio < kOwn;
}

Judgement Search::judgement() const {
  if (is_inherited()) return {};
  Judgement judgement = judge(candidates_, context_);
  if (judgement.cause && judgement.cause->name == "bias_missing" && !may_have_bias()) {
    judgement.hint = judgement.cause->sentence + "; the model has no bias there";
    judgement.cause.reset();
  }
  if (!judgement.cause && judgement.hint.empty()) judgement.hint = hint();
  return judgement;
}

// Whether the model, if it is known, has a bias in what was recomputed.
bool Search::may_have_bias() const {
  if (network_.model == nullptr || network_.has_bias(context_.target)) return true;
  return std::ranges::any_of(chain_.ops(), [&](Op op) { return network_.has_bias(op); });
}

// What the two logs differ by in what the checkpoint is computed from, and before it.
void Search::measure_noise() {
  const std::string target = context_.target.name();
  const ComputeOrder here = compute_order(parse_checkpoint_name(target), 0);
  std::vector<double> before;
  std::vector<double> at;
  for (const RecordResult& result : store_.comparison().results) {
    const double rel_l2 = result.metrics.rel_l2;
    const CheckpointName& name =
        store_.comparison().checkpoints[static_cast<size_t>(result.checkpoint)];
    if (!std::isfinite(rel_l2) || !name.known) continue;
    if (name.name == target) at.push_back(rel_l2);
    if (!result.failed() && compute_order(name, 0) < here) before.push_back(rel_l2);
  }
  if (before.empty() || at.empty()) return;
  constexpr double kMost = 0.1;  // of the difference that is to be explained
  context_.noise = std::min(upper_median(before), kMost * upper_median(at));
}

void Search::try_recomputed() {
  predicted_at_ = chain_.positions();
  evidence_.complete(chain_.base(), predicted_at_);
  multiplications_ += chain_.base_multiplications();
  right_ = evidence_.features(chain_.base(), chain_.positions());
  context_.base_ratio = evidence_.fit(right_).ratio();
  if (is_inherited()) return;
  make_screen();
  make_early();
  make_neighbours();
  const std::vector<Try> tries = to_try();
  make_whole(tries);
  int64_t done = 0;
  const auto count = [&] {
    if (progress_) progress_(done, std::ssize(tries));
    ++done;
  };
  for (auto first = tries.begin(); first != tries.end();) {
    if (first != tries.begin() && is_settled()) break;
    const size_t n_layers = first->layers.size();
    const auto last = std::find_if(first, tries.end(),
                                   [&](const Try& one) { return one.layers.size() != n_layers; });
    std::vector<Outcome> outcomes = try_at_once({first, last}, count);
    for (Outcome& outcome : outcomes) {
      if (take(outcome)) continue;
      const auto stop = first + (&outcome - outcomes.data());
      stopped_ = fmt::format("{} of {}", stop - tries.begin(), tries.size());
      leave_out({stop, tries.end()});
      return;
    }
    first = last;
  }
  if (progress_) progress_(std::ssize(tries), std::ssize(tries));
}

// Shared out to all processors. A try that has a part of the work limit left is not cut short by
// what those after it took, so that the outcome is that of one thread.
std::vector<Search::Outcome> Search::try_at_once(std::span<const Try> group,
                                                 const std::function<void()>& count) const {
  std::vector<Outcome> outcomes(group.size());
  ThreadPool pool(0);
  const double fitting =
      kMostBytes / std::max(chain_.bytes() * static_cast<double>(runs_at_once_), 1.0);
  const auto n_threads =
      static_cast<int64_t>(std::clamp(fitting, 1.0, static_cast<double>(pool.n_threads())));
  std::atomic<double> spent = multiplications_;
  std::atomic<size_t> next = 0;
  std::mutex counting;
  pool.parallel_for(n_threads, 1, [&](int64_t, int64_t) {
    for (;;) {
      const double before = spent;  // by tries that began before the one that comes next
      const size_t i = next++;
      if (i >= group.size()) return;
      {
        const std::lock_guard lock(counting);
        check_interrupted();
        count();
      }
      outcomes[i] = outcome_of(group[i], max_multiplications_ - before);
      spent += outcomes[i].work;
    }
  });
  return outcomes;
}

// A swap of gate and up is one of both where both may be wrong.
bool Search::is_tried_alone(const Try& one) const {
  if (one.mistake.together) return false;
  const std::string& name = one.mistake.name;
  if (name == "layer_order" || name == "fused_order" || name == "router_weights" || name == "ssm") {
    // One of a matrix, of a layer or of its experts is one of all that the chain has of it.
    return std::ranges::all_of(
        families_of(one.op.checkpoint, one.mistake),
        [&](const Kinds& kinds) { return in_chain(kinds, one.mistake).size() < 2; });
  }
  const std::optional<Op> other = other_of_gate_and_up(one.op);
  if (!other) return true;
  if (places({other->checkpoint}).contains(*other)) return name != "gate_up_swapped";
  return !is_refuted_by_other(name, store_, one.op, predicted_at_);
}

Search::Outcome Search::outcome_of(const Try& one, double most) const {
  Outcome outcome;
  try {
    if (is_tried_alone(one)) try_in_chain(one, {one.op.checkpoint}, most, outcome);
    std::set<Kinds> tried;
    for (const Kinds& kinds : families_of(one.op.checkpoint, one.mistake)) {
      const Kinds family = in_chain(kinds, one.mistake);
      if (family.size() < 2 || family.front() != one.op.checkpoint) continue;
      if (tried.insert(family).second) try_in_chain(one, family, most, outcome);
    }
  } catch (const WorkLimitReached&) {
    outcome.is_over_limit = true;
  }
  return outcome;
}

// Adds what a try found; false, and nothing is added, where it takes more than the search may.
bool Search::take(Outcome& outcome) {
  if (outcome.is_over_limit || multiplications_ + outcome.work > max_multiplications_) {
    multiplications_ = max_multiplications_;
    return false;
  }
  multiplications_ += outcome.work;
  std::ranges::move(outcome.candidates, std::back_inserter(candidates_));
  return true;
}

// The ops of these kinds that may be wrong, of these layers of the chain or all.
std::set<Op> Search::places(const Kinds& kinds, const std::set<int>& layers) const {
  std::set<Op> found;
  for (const Op op : chain_.ops()) {
    const bool asked = std::find(kinds.begin(), kinds.end(), op.checkpoint) != kinds.end();
    if (asked && chain_.is_suspect(op) && (layers.empty() || layers.contains(op.layer))) {
      found.insert(op);
    }
  }
  return found;
}

// Those that the chain holds and that can have the mistake, in its order.
Search::Kinds Search::in_chain(const Kinds& kinds, const BoundMistake& mistake) const {
  Kinds held;
  for (const Op op : chain_.ops()) {
    const bool asked = std::find(kinds.begin(), kinds.end(), op.checkpoint) != kinds.end();
    const bool had = std::find(held.begin(), held.end(), op.checkpoint) != held.end();
    if (asked && !had && mistake.possible(op)) held.push_back(op.checkpoint);
  }
  return held;
}

Search::Predict Search::predictor(const Try& one, const Kinds& kinds, const Chain& chain,
                                  double most, Outcome& outcome) const {
  return [this, &one, &chain, most, &outcome,
          at = places(kinds, one.layers)](std::span<const double> parameters) {
    std::vector<Matrix> all;
    while (!parameters.empty()) {
      if (outcome.work > most) throw WorkLimitReached();
      const auto now = parameters.first(std::min(parameters.size(), runs_at_once_));
      std::vector<bool> made(now.size());
      std::vector<Matrix> predicted = chain.run(
          at,
          [&](Op op, const Inputs& inputs, size_t i) -> Matrix {
            Matrix wrong = one.mistake.compute(op, inputs, now[i]);
            made[i] = made[i] || !wrong.empty();
            return wrong.empty() ? network_.compute(op, inputs) : wrong;
          },
          now.size(), context_.tail ? context_.tail->from : 0, outcome.work);
      for (size_t i = 0; i < now.size(); ++i) {
        all.push_back(made[i] ? std::move(predicted[i]) : Matrix());
      }
      parameters = parameters.subspan(now.size());
    }
    return all;
  };
}

void Search::try_in_chain(const Try& one, const Kinds& kinds, double most, Outcome& outcome) const {
  const int rank = !one.mistake.generic ? 0 : one.op == context_.target ? 1 : 2;
  const Predict screened =
      is_screened(one) ? predictor(one, kinds, screen_->chain, most, outcome) : Predict();
  const std::optional<BoundMistake> left = unrefuted(one, kinds, most, outcome);
  if (!left) return;
  const Chain& chain = chain_for(one.mistake);
  const Trial trial{evidence_, chain.positions(), predictor(one, kinds, chain, most, outcome)};
  auto found = candidate(*left, trial, rank, place_of(kinds, one), screened);
  if (!found) return;
  found->in_some_layers = !one.layers.empty();
  tell_as_layer(kinds, one, *found);
  outcome.candidates.push_back(std::move(*found));
}

// Nothing where it is rather another mistake or none.
std::optional<Candidate> Search::candidate(const BoundMistake& mistake, const Trial& trial,
                                           int rank, const std::string& where,
                                           const Predict& screened) const {
  // Over few dozen positions a long grid need not be tried value by value.
  const bool in_steps =
      chain_.spans_layers() || (screened && screen_->chain.positions().back() < kReach);
  Tuned tuned;
  if (screened) {
    const Trial screen{screen_->evidence, screen_->chain.positions(), screened};
    tuned = refine(screen, mistake, best_of_grid(screen, mistake, in_steps));
    if (!(tuned.fit.ratio() <= kNear)) return std::nullopt;
    tuned = mistake.refine ? polish(trial, mistake, tuned)
                           : best_of(trial, like_in_grid(screen, mistake, tuned));
  } else {
    tuned = refine(trial, mistake, best_of_grid(trial, mistake, in_steps));
  }
  // A branch that all but vanishes is one that is not added.
  if (mistake.name == "residual" && tuned.parameter != 0 &&
      is_like_zero(trial, tuned, floor_ratio(context_))) {
    tuned = {0, trial.fit(0)};
  }
  const double floor = floor_ratio(context_);
  if (mistake.name == "scale" &&
      (is_nearly_one(tuned.parameter) || is_like_zero(trial, tuned, floor) ||
       is_like_infinity(trial, tuned, floor))) {
    return std::nullopt;
  }
  const bool fitted = mistake.refine && !is_whole(tuned.parameter);
  const bool plain_factor = is_plain_factor(mistake, tuned.parameter);
  return Candidate{.name = mistake.name,
                   .where = where,
                   .text = mistake.text(tuned.parameter),
                   .parameters = fitted ? 1 : 0,
                   .rank = plain_factor ? 3 : rank,
                   .fit = tuned.fit,
                   .parameter = tuned.parameter};
}

void Search::try_fitted() {
  const OpKind kind = network_.kind_of(context_.target);
  const bool is_choice = kind == OpKind::kSelect || kind == OpKind::kIndex;  // ids are no numbers
  if (evidence_.is_of_log_probabilities() || is_choice) return;
  std::vector<Fitted> all = fit_linear(evidence_, right_);
  const auto add = [&](std::vector<Fitted> more) {
    std::ranges::move(more, std::back_inserter(all));
  };
  add(fit_orders(evidence_, right_, network_.head_dim));
  const Linear* linear = network_.linear(context_.target);
  if (can_recompute() && kind == OpKind::kLinear && linear != nullptr) {
    add(fit_blocks(evidence_, right_, linear->weight, *chain_.inputs(context_.target).rows[0],
                   chain_.positions()));
  }
  if (can_recompute() && kind == OpKind::kEmbedding && network_.model != nullptr) {
    add(fit_tokens(network_, evidence_, right_, store_.tokens()));
  }
  for (const Fitted& fitted : all) {
    candidates_.push_back({fitted.name, context_.target.name(), fitted.text, fitted.parameters, 0,
                           evidence_.fit(fitted.features)});
    if (fitted.numbers > 0) candidates_.back().fit.features = fitted.numbers;
  }
}

Tried try_mistakes(const Network& network, TensorStore& store, Op target, int64_t first_token,
                   const Search::Progress& progress, double max_multiplications) {
  Search whole(network, store, target, {first_token, std::nullopt}, progress, max_multiplications);
  whole.run();
  Tried tried{whole.judgement(), whole.is_inherited(), whole.multiplications(), whole.not_tried()};
  const auto tail = failing_tail(store, target.name());
  if (tried.is_inherited || tried.judgement.fits || !tail) return tried;
  Search over(network, store, target, {first_token, tail}, progress,
              max_multiplications - tried.multiplications);
  over.run();
  tried.multiplications += over.multiplications();
  Judgement found = over.judgement();
  if (found.fits) tried.judgement = std::move(found);
  for (const std::string& name : over.not_tried()) {
    if (std::ranges::find(tried.not_tried, name) == tried.not_tried.end()) {
      tried.not_tried.push_back(name);
    }
  }
  return tried;
}

}  // namespace assay::causes
