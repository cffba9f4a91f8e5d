#include "assay/causes/find_causes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "assay/causes/chain.h"
#include "assay/causes/error_sources.h"
#include "assay/causes/evidence.h"
#include "assay/causes/fitted_mistakes.h"
#include "assay/causes/mistakes.h"
#include "assay/causes/network.h"
#include "base/error.h"

namespace assay {
namespace causes {
namespace {

constexpr double kMostMultiplications = 4e10;  // of all tries together

constexpr double kLeft = 0.02;        // share of the difference that an accepted mistake may leave
constexpr double kLeftInNoise = 0.1;  // the same where that is what the logs differ by elsewhere
constexpr double kLeftOfOneToken = 1e-4;
constexpr double kLevel = 1e-7;  // what float leaves of a difference that is explained
constexpr double kHeldTokens = 0.8;
constexpr double kChance = 1e-12;

// A mistake and how well it fits.
struct Candidate {
  std::string name;
  Op op;
  std::string text;
  int64_t parameters = 0;
  bool generic = false;  // might befall any op
  std::string where;     // where it is made, if that is not the checkpoint itself
  Fit fit;
  double score() const { return fit.ratio(); }
};

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

class Search {
 public:
  Search(const Network& network, TensorStore& store, Op target, int64_t first_token)
      : network_(network),
        store_(store),
        target_(target),
        positions_(positions_to_try(store, target.name(), first_token)),
        evidence_(store, target.name(), positions_),
        chain_(network, store, target, positions_) {}

  void run() {
    if (evidence_.tokens().empty()) return;
    measure_noise();
    if (chain_.complete()) try_recomputed();
    try_fitted();
    // What says nothing of most tokens (a shift between logs of few positions) is no candidate.
    std::erase_if(candidates_, [](const Candidate& candidate) {
      return candidate.fit.tokens == 0 || candidate.fit.unpredicted > candidate.fit.tokens;
    });
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.score() < b.score(); });
  }

  // Where nothing is named: what more would let mistakes be tried that could not be.
  std::string hint() const {
    const std::string name = target_.name();
    if (evidence_.tokens().empty()) {
      return fmt::format("the logs have no values of {} in common; log them with --values all",
                         name);
    }
    if (!chain_.complete()) {
      const bool needs_model = chain_.missing().find("--model") != std::string::npos;
      return needs_model
                 ? fmt::format(
                       "no scale, sign or shift of {} explains the difference; with --model "
                       "its computation can be tried under known mistakes",
                       name)
                 : fmt::format(
                       "no scale, sign or shift of {} explains the difference; to try its "
                       "computation under known mistakes, all values of {} are needed: log "
                       "with --checkpoints ops --values all",
                       name, chain_.missing());
    }
    if (stopped_) {
      return fmt::format(
          "none of the mistakes tried explains {}; not all were tried, because what "
          "lies between the logged checkpoints is large: log with --checkpoints ops",
          name);
    }
    if (chain_.ops().size() > 1) {
      return fmt::format(
          "no known mistake in what lies between the logged checkpoints explains {}; "
          "a log with --checkpoints ops would tell where it starts",
          name);
    }
    return fmt::format("no known mistake explains {}, whose logged inputs are right", name);
  }

  // The best one, if it is good enough.
  std::optional<Cause> verdict(int64_t first_token) const {
    if (candidates_.empty() || is_inherited()) return std::nullopt;
    const Candidate* best = &candidates_.front();
    // Of those that are level, one that belongs to its op, with the fewest free numbers.
    for (const Candidate& other : candidates_) {
      const double most = std::max({10 * candidates_.front().score(), floor_ratio(), kLevel});
      const bool simpler = std::make_pair(other.generic, other.parameters) <
                           std::make_pair(best->generic, best->parameters);
      if (other.score() <= most && simpler) best = &other;
    }
    if (!accepted(*best)) return std::nullopt;
    double next = 1;
    for (const Candidate& other : candidates_) {
      if (other.name != best->name) next = std::min(next, other.score());
    }
    Cause cause;
    cause.name = best->name;
    cause.checkpoint = parse_checkpoint_name(target_.name());
    cause.token_idx = first_token;
    cause.explained = best->fit.explained();
    cause.confidence = confidence(*best, next);
    const std::string where = best->where.empty() ? target_.name() : best->where;
    cause.sentence =
        fmt::format("{} {}: this explains {} of the difference over {} token{} (confidence {:.2f})",
                    where, best->text, percent(cause.explained), best->fit.tokens,
                    best->fit.tokens == 1 ? "" : "s", cause.confidence);
    return cause;
  }

  // Whether the checkpoint is what it should be by its logged inputs: then the error is theirs.
  bool is_inherited() const {
    constexpr double kOwn = 0.1;
    return chain_.complete() && base_ratio_ < kOwn;
  }

 private:
  // What the two logs differ by in what the checkpoint is computed from, and before it.
  void measure_noise() {
    const ComputeOrder here = compute_order(parse_checkpoint_name(target_.name()), 0);
    std::vector<double> before;
    std::vector<double> at;
    for (const RecordResult& result : store_.comparison().results) {
      const double rel_l2 = result.metrics.rel_l2;
      const CheckpointName& name =
          store_.comparison().checkpoints[static_cast<size_t>(result.checkpoint)];
      if (!std::isfinite(rel_l2) || !name.known) continue;
      if (name.name == target_.name()) at.push_back(rel_l2);
      if (result.pass && compute_order(name, 0) < here) before.push_back(rel_l2);
    }
    if (before.empty() || at.empty()) return;
    constexpr double kMost = 0.1;  // of the difference that is to be explained
    noise_ = std::max(noise_, std::min(median(before), kMost * median(at)));
  }

  // The ratio that a perfect explanation still leaves, from the noise.
  double floor_ratio() const {
    if (candidates_.empty()) return 0;
    const Fit& fit = candidates_.front().fit;
    const double smallest = std::max(std::min(fit.difference, fit.norm), 1e-300);
    return 9 * noise_ * noise_ * fit.scale / smallest;
  }

  void try_recomputed() {
    right_ = evidence_.features(chain_.base(), chain_.positions());
    base_ratio_ = evidence_.fit(right_).ratio();
    double work = 0;
    for (const bool generic : {false, true}) {
      for (size_t i = 0; i < chain_.ops().size(); ++i) {
        const Op op = chain_.ops()[i];
        // An op of several layers in the chain is mistaken in all of them, and tried once.
        const bool repeated =
            std::any_of(chain_.ops().begin(), chain_.ops().begin() + static_cast<std::ptrdiff_t>(i),
                        [&](Op before) {
                          return before.checkpoint == op.checkpoint && chain_.may_be_wrong(before);
                        });
        if (repeated || !chain_.may_be_wrong(op)) continue;
        for (const Mistake& mistake : mistakes_of(network_, op.checkpoint)) {
          if (mistake.generic != generic) continue;
          if (work > kMostMultiplications) {
            stopped_ = true;
            return;
          }
          work += try_one(mistake, {op.checkpoint}, op) * (chain_.multiplications() + 1);
          const std::vector<Checkpoint> family = in_chain(family_of(op.checkpoint, mistake));
          if (family.size() > 1 && family.front() == op.checkpoint) {
            work += try_one(mistake, family, op) * (chain_.multiplications() + 1);
          }
        }
      }
    }
  }

  // Those that the chain holds, in its order.
  std::vector<Checkpoint> in_chain(const std::vector<Checkpoint>& kinds) const {
    std::vector<Checkpoint> held;
    for (const Op op : chain_.ops()) {
      const bool asked = std::find(kinds.begin(), kinds.end(), op.checkpoint) != kinds.end();
      const bool had = std::find(held.begin(), held.end(), op.checkpoint) != held.end();
      if (asked && !had) held.push_back(op.checkpoint);
    }
    return held;
  }

  using Kinds = std::vector<Checkpoint>;

  Fit fit_of(const Mistake& mistake, const Kinds& kinds, double parameter) const {
    bool made = false;
    const Matrix predicted = chain_.run(kinds, [&](Op at, const Inputs& inputs) -> Matrix {
      Matrix wrong = mistake.compute(at, inputs, parameter);
      made = made || !wrong.empty();
      return wrong.empty() ? network_.compute(at, inputs) : wrong;
    });
    Fit fit = evidence_.fit(predicted, chain_.positions());
    if (!made) fit.residual = std::numeric_limits<double>::infinity();
    return fit;
  }

  // Returns how many times the chain was run.
  int try_one(const Mistake& mistake, const Kinds& kinds, Op op) {
    if (mistake.grid.empty()) {
      add(mistake, kinds, op, 0, fit_of(mistake, kinds, 0), 0);
      return 1;
    }
    int runs = 0;
    size_t best = 0;
    Fit least;
    for (size_t i = 0; i < mistake.grid.size(); ++i, ++runs) {
      const Fit fit = fit_of(mistake, kinds, mistake.grid[i]);
      if (i == 0 || fit.ratio() < least.ratio()) {
        least = fit;
        best = i;
      }
    }
    double parameter = mistake.grid[best];
    if (mistake.refine && least.ratio() < 1) {
      runs += refine(mistake, kinds, best, parameter, least);
    }
    add(mistake, kinds, op, parameter, least, mistake.refine ? 1 : 0);
    return runs;
  }

  // Golden-section search between the neighbours of the best value of the grid, in the logarithm
  // where all are above 0.
  int refine(const Mistake& mistake, const Kinds& kinds, size_t best, double& parameter,
             Fit& least) const {
    constexpr int kSteps = 40;
    const std::vector<double>& grid = mistake.grid;
    double low = grid[best > 0 ? best - 1 : 0];
    double high = grid[std::min(best + 1, grid.size() - 1)];
    const bool logarithmic = low > 0;
    const auto value = [&](double x) { return logarithmic ? std::exp(x) : x; };
    if (logarithmic) {
      low = std::log(low);
      high = std::log(high);
    }
    const double section = (std::sqrt(5.0) - 1) / 2;
    double a = high - section * (high - low);
    double b = low + section * (high - low);
    Fit fit_a = fit_of(mistake, kinds, value(a));
    Fit fit_b = fit_of(mistake, kinds, value(b));
    for (int step = 0; step < kSteps; ++step) {
      if (fit_a.ratio() < fit_b.ratio()) {
        high = b;
        b = a;
        fit_b = fit_a;
        a = high - section * (high - low);
        fit_a = fit_of(mistake, kinds, value(a));
      } else {
        low = a;
        a = b;
        fit_a = fit_b;
        b = low + section * (high - low);
        fit_b = fit_of(mistake, kinds, value(b));
      }
    }
    const Fit& found = fit_a.ratio() < fit_b.ratio() ? fit_a : fit_b;
    // A value of the grid is a likelier mistake than one beside it.
    if (found.ratio() < 0.5 * least.ratio()) {
      parameter = value(fit_a.ratio() < fit_b.ratio() ? a : b);
      least = found;
    }
    return kSteps + 2;
  }

  void add(const Mistake& mistake, const Kinds& kinds, Op op, double parameter, const Fit& fit,
           int64_t parameters) {
    const auto made = std::count_if(chain_.ops().begin(), chain_.ops().end(), [&](Op other) {
      return chain_.may_be_wrong(other) &&
             std::find(kinds.begin(), kinds.end(), other.checkpoint) != kinds.end();
    });
    std::string where;
    if (made > 1 || !(op == target_)) {
      std::vector<std::string> names;
      for (const Checkpoint kind : kinds) {
        const std::string name = Op{kind, op.layer}.name();
        const bool repeated = made > std::ssize(kinds);
        names.push_back(repeated && op.layer >= 0 ? parse_checkpoint_name(name).op : name);
      }
      where = fmt::format("{}{}", made > std::ssize(kinds) ? "every layer's " : "",
                          fmt::join(names, " and "));
    }
    candidates_.push_back({mistake.name, op, mistake.text(parameter), parameters,
                           mistake.generic && !(op == target_), std::move(where), fit});
  }

  void try_fitted() {
    if (right_.empty()) {
      for (const Evidence::Token& token : evidence_.tokens()) right_.push_back(token.ref);
    }
    std::vector<Fitted> all = fit_linear(evidence_, right_);
    for (Fitted& fitted : fit_orders(evidence_, right_, network_.head_dim)) {
      all.push_back(std::move(fitted));
    }
    const Linear* linear = chain_.complete() ? network_.linear(target_) : nullptr;
    if (linear != nullptr) {
      for (Fitted& fitted : fit_blocks(evidence_, right_, linear->weight,
                                       *chain_.inputs(target_).rows[0], chain_.positions())) {
        all.push_back(std::move(fitted));
      }
    }
    for (const Fitted& fitted : all) {
      candidates_.push_back({fitted.name, target_, fitted.text, fitted.parameters, false,
                             std::string(), evidence_.fit(fitted.features)});
      if (fitted.numbers > 0) candidates_.back().fit.features = fitted.numbers;
    }
  }

  bool accepted(const Candidate& candidate) const {
    const Fit& fit = candidate.fit;
    const double ratio = candidate.score();
    if (!(ratio <= kLeftInNoise)) return false;
    // Another eps looks much like a factor; a factor leaves next to nothing.
    constexpr double kLeftOfFactor = 1e-3;
    if (candidate.name == "scale" && is_norm(target_.checkpoint) && !(ratio <= kLeftOfFactor)) {
      return false;
    }
    if (ratio > kLeft && ratio > floor_ratio()) return false;
    if (ratio > kLeft * base_ratio_) return false;
    const int known = fit.tokens;
    if (fit.held < kHeldTokens * known) return false;
    if (known < 2 && !(ratio <= kLeftOfOneToken)) return false;
    const double freedom = static_cast<double>(fit.features - candidate.parameters);
    // That a direction of `freedom` dimensions leaves so little is no chance.
    return freedom / 2 * std::log(ratio) < std::log(kChance);
  }

  double confidence(const Candidate& best, double next) const {
    const double held = static_cast<double>(best.fit.held) / best.fit.tokens;
    const double worse = std::max(next, best.score());
    const double margin = worse > 0 ? 1 - std::sqrt(best.score() / worse) : 0;
    const double kept = 1 - std::sqrt(std::max(best.score() - floor_ratio(), 0.0));
    const double tokens = 1 - 0.3 / best.fit.tokens;
    return std::clamp(held * kept * tokens * (0.5 + 0.5 * margin), 0.0, 1.0);
  }

  static std::string percent(double share) {
    const double value = 100 * share;
    return value > 99.995 ? "over 99.99 %" : fmt::format("{:.2f} %", value);
  }

  const Network& network_;
  TensorStore& store_;
  Op target_;
  std::vector<int64_t> positions_;
  Evidence evidence_;
  Chain chain_;
  std::vector<std::vector<double>> right_;
  std::vector<Candidate> candidates_;
  double base_ratio_ = 1;
  double noise_ = 1e-7;
  bool stopped_ = false;
};

// Elements of a checkpoint of this kind.
int64_t width_of(const ModelConfig& config, Checkpoint checkpoint) {
  switch (checkpoint) {
    case Checkpoint::kQ:
    case Checkpoint::kQRope:
    case Checkpoint::kAttn:
      return config.q_width();
    case Checkpoint::kK:
    case Checkpoint::kKRope:
    case Checkpoint::kV:
      return config.kv_width();
    case Checkpoint::kFfnGate:
    case Checkpoint::kFfnUp:
    case Checkpoint::kFfnAct:
      return config.feed_forward_length;
    case Checkpoint::kLogits:
      return config.n_vocab;
    default:
      return config.embedding_length;
  }
}

// Throws Error if the logs cannot be of this model: the kernels trust the sizes they are given.
void check_model(const Model& model, const Comparison& comparison) {
  const ModelConfig& config = model.config();
  const std::string& path = model.gguf().path();
  const std::string hint = "give the model that both engines ran with --model, or leave it out";
  for (const RecordResult& result : comparison.results) {
    const CheckpointName& name = comparison.checkpoints[static_cast<size_t>(result.checkpoint)];
    const std::optional<Op> op = find_op(name.name);
    if (!op) continue;
    if (op->layer >= config.n_layers) {
      throw Error(fmt::format("has {} layers, the logs have {}", config.n_layers, name.name), path,
                  hint);
    }
    const int64_t width = width_of(config, op->checkpoint);
    if (result.metrics.n != width) {
      throw Error(fmt::format("its {} has {} elements, in the logs it has {}", name.name, width,
                              result.metrics.n),
                  path, hint);
    }
    if (config.architecture->position == PositionKind::kLearned &&
        result.token_idx >= model.position_embedding.rows) {
      throw Error(fmt::format("has {} positions, the logs reach {}", model.position_embedding.rows,
                              result.token_idx),
                  path, hint);
    }
  }
}

}  // namespace
}  // namespace causes

void find_causes(const Model* model, Comparison& comparison) {
  if (comparison.pass || !comparison.first_divergence) return;
  const FirstDivergence& first = *comparison.first_divergence;
  const std::optional<causes::Op> target = causes::find_op(first.checkpoint.name);
  if (!target) {
    comparison.cause_hint = "the checkpoint's name is not one that Assay knows the computation of";
    return;
  }
  causes::TensorStore store(comparison);
  causes::Network network;
  for (const CheckpointName& name : comparison.checkpoints) {
    network.n_layers = std::max(network.n_layers, name.layer + 1);
  }
  if (model != nullptr) {
    causes::check_model(*model, comparison);
    int64_t positions = std::ssize(store.tokens());
    for (const RecordResult& result : comparison.results) {
      positions = std::max(positions, result.token_idx + 1);
    }
    network = causes::Network::of_model(*model, positions);
    network.n_prompt = std::ssize(store.tokens());
  }
  store.use_unjudged(false);
  find_error_sources(network, store, comparison);
  store.use_unjudged(true);
  causes::Op op = *target;
  std::set<causes::Op> tried;
  while (tried.insert(op).second) {
    causes::Search search(network, store, op, first.token_idx);
    search.run();
    if (search.is_inherited()) {
      const auto source = causes::worst_input(network, store, op);
      if (source) {
        op = *source;
        continue;
      }
      store.use_unjudged(false);
      causes::Search over(network, store, op, first.token_idx);
      over.run();
      if (const auto cause = over.verdict(first.token_idx)) {
        comparison.causes.push_back(*cause);
      } else if (over.is_inherited()) {
        comparison.cause_hint = fmt::format(
            "{} of the judged log is what the model gives for inputs that both logs agree in: it "
            "is "
            "the reference that computes something else; give the logs the other way round to see "
            "what",
            op.name());
      } else {
        comparison.cause_hint = fmt::format(
            "{} is what its inputs give, and the reference does not have these: log the reference "
            "with --checkpoints ops{}",
            op.name(), model == nullptr ? ", or give the model with --model" : "");
      }
      return;
    }
    if (const auto cause = search.verdict(first.token_idx)) {
      comparison.causes.push_back(*cause);
    } else {
      comparison.cause_hint = search.hint();
    }
  }
}

}  // namespace assay
