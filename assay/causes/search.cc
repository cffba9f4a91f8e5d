#include "assay/causes/search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "assay/causes/fitted_mistakes.h"
#include "assay/compare/median.h"

namespace assay::causes {
namespace {

// Ends a try that would take more than the search may.
struct WorkLimitReached {};

// A mistake in a product before an unknown bias: how many values of its parameter are tried, and
// how many tokens it takes to tell the bias from it.
constexpr size_t kMaxBeforeBias = 16;
constexpr size_t kMinForBias = 4;

// A whole number was not fitted: somebody meant it.
bool is_whole(double value) {
  return std::abs(value - std::round(value)) <= 1e-4 * std::max(1.0, std::abs(value));
}

// Another factor on a branch than none, twice and so on is rather called a scale or a sign.
bool is_plain_factor(const BoundMistake& mistake, double parameter) {
  return mistake.name == "residual" && mistake.refine &&
         (!is_whole(parameter) || std::round(parameter) < 0 || std::round(parameter) == 1);
}

std::vector<int64_t> positions(const TensorStore& store, Op target, const Search::Where& where) {
  auto all = positions_to_try(store, target.name(), where.first_token);
  if (where.tail) std::erase_if(all, [&](int64_t one) { return one < where.tail->from; });
  return all;
}

}  // namespace

Search::Search(const Network& network, TensorStore& store, Op target, Where where,
               Progress progress, double max_multiplications)
    : network_(network),
      store_(store),
      progress_(std::move(progress)),
      max_multiplications_(max_multiplications),
      evidence_(store, target.name(), positions(store, target, where)),
      chain_(network, store, target, positions(store, target, where)) {
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
    if (chain_.complete()) stopped_ = fmt::format("0 of {}", to_try().size());
    try_on_reference();
  }
  if (!is_inherited()) try_fitted();
}

bool Search::can_recompute() const {
  return chain_.complete() && chain_.base_multiplications() <= max_multiplications_;
}

bool Search::is_inherited() const {
  constexpr double kOwn = 0.1;
  return chain_.complete() && context_.base_ratio < kOwn;
}

Judgement Search::judgement() const {
  if (is_inherited()) return {};
  Judgement judgement = judge(candidates_, context_);
  if (!judgement.cause && judgement.hint.empty()) judgement.hint = hint();
  return judgement;
}

std::string Search::hint() const {
  const std::string name = context_.target.name();
  if (evidence_.tokens().empty()) {
    return fmt::format("the logs have no values of {} in common; log them with --values all", name);
  }
  if (!chain_.size_mismatch().empty()) {
    return fmt::format("no scale, sign or shift of {} explains the difference; {}", name,
                       chain_.size_mismatch());
  }
  if (!chain_.complete()) return missing_input_hint();
  if (!stopped_.empty()) {
    return fmt::format(
        "none of the mistakes tried explains {}; {} were tried, because what lies between the "
        "logged checkpoints is large: log with --checkpoints ops",
        name, stopped_);
  }
  if (chain_.ops().size() > 1) {
    return fmt::format(
        "no known mistake in what lies between the logged checkpoints explains {}; "
        "a log with --checkpoints ops would tell where it starts",
        name);
  }
  return fmt::format("no known mistake explains {}, whose logged inputs are right", name);
}

// What would let the checkpoint be computed: values before a model, which alone would not do.
std::string Search::missing_input_hint() const {
  const std::string name = context_.target.name();
  if (!chain_.lacks_weights()) {
    return fmt::format(
        "no scale, sign or shift of {} explains the difference; to try its computation under known "
        "mistakes, all values of {} are needed: log with --checkpoints ops --values all",
        name, chain_.missing());
  }
  const std::string looked =
      fmt::format("no scale, sign, shift, order or rounding of {} explains the difference", name);
  const std::string input = chain_.missing_input();
  if (input.empty()) {
    return fmt::format(
        "{}; give --model to look further: it has the weights that {} is computed with", looked,
        name);
  }
  return fmt::format(
      "{}; to look further, log all values of what it is computed from, such as {}, with "
      "--checkpoints ops --values all, and then give --model, which has its weights",
      looked, input);
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
  right_ = evidence_.features(chain_.base(), chain_.positions());
  context_.base_ratio = evidence_.fit(right_).ratio();
  if (is_inherited()) return;
  const std::vector<Try> tries = to_try();
  for (const Try& one : tries) {
    if (progress_) progress_(&one - tries.data(), std::ssize(tries));
    try {
      try_in_chain(one.mistake, {one.op.checkpoint}, one.op);
      const Kinds family = in_chain(family_of(one.op.checkpoint, one.mistake));
      if (family.size() > 1 && family.front() == one.op.checkpoint) {
        try_in_chain(one.mistake, family, one.op);
      }
    } catch (const WorkLimitReached&) {
      stopped_ = fmt::format("{} of {}", &one - tries.data(), tries.size());
      break;
    }
  }
  if (progress_) progress_(std::ssize(tries), std::ssize(tries));
}

// The mistakes of each op of the chain, those of its own kind before those that any op may have.
std::vector<Search::Try> Search::to_try() const {
  std::vector<Try> tries;
  for (const bool generic : {false, true}) {
    std::set<Checkpoint> seen;
    for (const Op op : chain_.ops()) {
      // An op of several layers in the chain is mistaken in all of them, and tried once.
      if (!chain_.is_suspect(op) || !seen.insert(op.checkpoint).second) continue;
      for (BoundMistake& mistake : mistakes_of(network_, op)) {
        if (mistake.generic == generic) tries.push_back({std::move(mistake), op});
      }
    }
  }
  return tries;
}

// Those that the chain holds, in its order.
Search::Kinds Search::in_chain(const Kinds& kinds) const {
  Kinds held;
  for (const Op op : chain_.ops()) {
    const bool asked = std::find(kinds.begin(), kinds.end(), op.checkpoint) != kinds.end();
    const bool had = std::find(held.begin(), held.end(), op.checkpoint) != held.end();
    if (asked && !had) held.push_back(op.checkpoint);
  }
  return held;
}

Fit Search::fit_of(const Matrix& predicted) const {
  if (!predicted.empty()) return evidence_.fit(predicted, predicted_at_);
  Fit none = context_.reference;
  none.residual = std::numeric_limits<double>::infinity();
  return none;
}

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
    try_one(
        mistake, [&](double parameter) { return mistake.change(*right, parameter); }, 0, name);
    if (kind_of(context_.target.checkpoint) == OpKind::kLinear &&
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
  const double most = kOfBias * fit_of(biased(right)).residual;
  try_one(
      before, [&](double parameter) { return biased(mistake.change(right, parameter)); }, 1,
      context_.target.name());
  candidates_.back().parameters = right.columns;
  if (!(candidates_.back().fit.residual <= most)) candidates_.pop_back();
}

// The gate's values at up, and those of up at the gate.
void Search::try_sibling() {
  const Checkpoint kind = context_.target.checkpoint;
  const bool is_gate = kind == Checkpoint::kFfnGate;
  if (!is_gate && kind != Checkpoint::kFfnUp) return;
  const Op other{is_gate ? Checkpoint::kFfnUp : Checkpoint::kFfnGate, context_.target.layer};
  const auto values = store_.reference(other.name(), predicted_at_);
  if (!values) return;
  BoundMistake swapped;
  swapped.name = "gate_up_swapped";
  swapped.text = [&](double) { return fmt::format("holds {}", other.name()); };
  try_one(
      swapped, [&](double) { return *values; }, 0, context_.target.name());
}

void Search::try_in_chain(const BoundMistake& mistake, const Kinds& kinds, Op op) {
  const Predict predict = [&](double parameter) -> Matrix {
    if (chain_.multiplications() > max_multiplications_) throw WorkLimitReached();
    bool made = false;
    Matrix predicted = chain_.run(
        kinds,
        [&](Op at, const Inputs& inputs) -> Matrix {
          Matrix wrong = mistake.compute(at, inputs, parameter);
          made = made || !wrong.empty();
          return wrong.empty() ? network_.compute(at, inputs) : wrong;
        },
        context_.tail ? context_.tail->from : 0);
    return made ? predicted : Matrix();
  };
  const int rank = mistake.generic && !(op == context_.target) ? 1 : 0;
  try_one(mistake, predict, rank, place_of(kinds, op));
}

void Search::try_one(const BoundMistake& mistake, const Predict& predict, int rank,
                     const std::string& where) {
  double parameter = 0;
  Fit least;
  if (mistake.grid.empty()) {
    least = fit_of(predict(0));
  } else {
    size_t best = 0;
    for (size_t i = 0; i < mistake.grid.size(); ++i) {
      const Fit fit = fit_of(predict(mistake.grid[i]));
      if (i > 0 && !(fit.ratio() < least.ratio())) continue;
      least = fit;
      best = i;
    }
    parameter = mistake.grid[best];
    if (mistake.refine) refine(mistake, predict, best, parameter, least);
  }
  const bool fitted = mistake.refine && !is_whole(parameter);
  const bool plain_factor = is_plain_factor(mistake, parameter);
  candidates_.push_back({mistake.name, where, mistake.text(parameter), fitted ? 1 : 0,
                         plain_factor ? 2 : rank, least});
}

// Values between those of the grid. A value of the grid is a likelier mistake than one beside it.
void Search::refine(const BoundMistake& mistake, const Predict& predict, size_t best,
                    double& parameter, Fit& least) const {
  constexpr double kFarBetter = 0.5;
  const std::vector<double>& grid = mistake.grid;
  double found = grid[best];
  Fit fit = least;
  step(predict, grid.front() > 0, found, fit);
  constexpr double kSolved = 1e-3;
  constexpr double kNear = 0.5;  // what is left beside the right value of a grid is 0.1 at most
  if (!(fit.ratio() <= kSolved) && least.ratio() < kNear) {
    const double low = grid[best > 0 ? best - 1 : 0];
    const double high = grid[std::min(best + 1, grid.size() - 1)];
    narrow(predict, low, high, found, fit);
  }
  if (fit.ratio() < kFarBetter * least.ratio()) {
    parameter = found;
    least = fit;
  }
}

// Where the result is smooth in the parameter: what a small change of it does, times as much as
// brings it nearest to the judged log; again from there.
void Search::step(const Predict& predict, bool positive, double& parameter, Fit& least) const {
  constexpr int kSteps = 8;
  constexpr double kRelativeStep = 1e-2;
  for (int i = 0; i < kSteps; ++i) {
    const double aside = parameter == 0 ? kRelativeStep : parameter * (1 + kRelativeStep);
    const auto here = evidence_.features(predict(parameter), predicted_at_);
    const auto there = evidence_.features(predict(aside), predicted_at_);
    double product = 0;
    double square = 0;
    for (size_t t = 0; t < here.size(); ++t) {
      const std::vector<double>& got = evidence_.tokens()[t].got;
      for (size_t k = 0; k < std::min(here[t].size(), there[t].size()); ++k) {
        const double slope = there[t][k] - here[t][k];
        product += slope * (got[k] - here[t][k]);
        square += slope * slope;
      }
    }
    if (!(square > 0)) break;
    const double next = parameter + product / square * (aside - parameter);
    if (positive && !(next > 0)) break;
    const Fit fit = fit_of(predict(next));
    constexpr double kBetter = 0.9;
    if (!(fit.ratio() < kBetter * least.ratio())) break;
    parameter = next;
    least = fit;
  }
}

// Golden-section search from `low` to `high`, in the logarithm where both are above 0.
void Search::narrow(const Predict& predict, double low, double high, double& parameter,
                    Fit& least) const {
  constexpr int kSteps = 40;
  const bool logarithmic = low > 0;
  const auto value = [&](double x) { return logarithmic ? std::exp(x) : x; };
  if (logarithmic) {
    low = std::log(low);
    high = std::log(high);
  }
  const double section = (std::sqrt(5.0) - 1) / 2;
  double a = high - section * (high - low);
  double b = low + section * (high - low);
  Fit fit_a = fit_of(predict(value(a)));
  Fit fit_b = fit_of(predict(value(b)));
  for (int step = 0; step < kSteps; ++step) {
    if (fit_a.ratio() < fit_b.ratio()) {
      high = b;
      b = a;
      fit_b = fit_a;
      a = high - section * (high - low);
      fit_a = fit_of(predict(value(a)));
    } else {
      low = a;
      a = b;
      fit_a = fit_b;
      b = low + section * (high - low);
      fit_b = fit_of(predict(value(b)));
    }
  }
  const bool is_a = fit_a.ratio() < fit_b.ratio();
  if ((is_a ? fit_a : fit_b).ratio() < least.ratio()) {
    parameter = value(is_a ? a : b);
    least = is_a ? fit_a : fit_b;
  }
}

// The checkpoints at which a mistake of these kinds is made.
std::string Search::place_of(const Kinds& kinds, Op op) const {
  const auto made = std::count_if(chain_.ops().begin(), chain_.ops().end(), [&](Op other) {
    return chain_.is_suspect(other) &&
           std::find(kinds.begin(), kinds.end(), other.checkpoint) != kinds.end();
  });
  const bool repeated = made > std::ssize(kinds);
  std::vector<std::string> names;
  for (const Checkpoint kind : kinds) {
    const std::string name = Op{kind, op.layer}.name();
    names.push_back(repeated && op.layer >= 0 ? parse_checkpoint_name(name).op : name);
  }
  std::string first = (repeated ? "every layer's " : "") + names.front();
  if (names.size() == 1) return first;
  names.erase(names.begin());
  return fmt::format("{}, like {},", first, fmt::join(names, " and "));
}

void Search::try_fitted() {
  std::vector<Fitted> all = fit_linear(evidence_, right_);
  for (Fitted& fitted : fit_orders(evidence_, right_, network_.head_dim)) {
    all.push_back(std::move(fitted));
  }
  const Linear* linear = can_recompute() ? network_.linear(context_.target) : nullptr;
  if (linear != nullptr) {
    for (Fitted& fitted : fit_blocks(evidence_, right_, linear->weight,
                                     *chain_.inputs(context_.target).rows[0], chain_.positions())) {
      all.push_back(std::move(fitted));
    }
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
  Tried tried{whole.judgement(), whole.is_inherited(), whole.multiplications()};
  const auto tail = failing_tail(store, target.name());
  if (tried.is_inherited || tried.judgement.fits || !tail) return tried;
  Search over(network, store, target, {first_token, tail}, progress,
              max_multiplications - tried.multiplications);
  over.run();
  tried.multiplications += over.multiplications();
  Judgement found = over.judgement();
  if (found.fits) tried.judgement = std::move(found);
  return tried;
}

}  // namespace assay::causes
