#include "assay/causes/judgement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

namespace assay::causes {

bool is_factor(const std::string& name) {
  return name == "sign" || name == "scale" || name == "residual";
}

namespace {

// Shares of the difference (of squares) that may be left. Of the catalogue's faults in the ops of
// the small models the true mistake leaves 1e-12 and less where it is far above float's noise, 3e-7
// where it rounds, and 1.7e-4 where it is an eps that barely shows; that llama.cpp rounds to Q8_K
// leaves 8e-4 (docs/position-0.md). The nearest of the others, where none is true, leaves 0.083.
// The bound stands 12 times above the one and 8 times below the other.
constexpr double kMaxResidual = 0.01;
// One token has one direction, which more mistakes come near to.
constexpr double kMaxResidualOfOneToken = 1e-4;
// Another eps looks much like a factor; a factor leaves next to nothing.
constexpr double kMaxResidualOfScale = 1e-3;
constexpr double kLevel = 1e-7;  // what float leaves of a difference that is explained
constexpr double kFloatNoise = 1e-7;
constexpr double kHeldTokens = 0.8;
constexpr double kMaxLeftOfFirst = 0.5;
constexpr double kChance = 1e-12;
// Where several tokens differ, mistakes of other kinds that fit as well are the same computation;
// with fewer they may coincide.
constexpr int kMinDecisiveTokens = 4;
// One token cannot show that a mistake begins there.
constexpr int kMinTailTokens = 2;
constexpr size_t kShown = 3;  // of indistinguishable mistakes

double noise_ratio(const JudgingContext& context, double noise) {
  const Fit& all = context.reference;
  const double smallest = std::max(std::min(all.difference, all.norm), 1e-300);
  return 9 * noise * noise * all.scale / smallest;
}

// Whether a factor of the whole tensor is one at most of its elements too. One large channel that
// alone is wrong gives nearly all of the squares. Of a true factor noise that leaves kMaxResidual
// has 6 % farther.
bool holds_at_most_elements(const Fit& fit) {
  constexpr int64_t kNearer = 3;
  return fit.nearer >= kNearer * fit.farther;
}

// What two mistakes may leave that are level by float alone. Not of two factors: where a branch is
// multiplied by so little that it is all but lost, these leave 1e-8 and 1e-13, and only one is
// true.
double level_ratio(const Candidate& best, const Candidate& other) {
  return is_factor(best.name) && is_factor(other.name) ? 0 : kLevel;
}

bool is_accepted(const Candidate& candidate, const JudgingContext& context) {
  const Fit& fit = candidate.fit;
  const double ratio = candidate.score();
  if (!(ratio <= kMaxResidual)) return false;
  if (candidate.name == "scale" && kind_of(context.target.checkpoint) == OpKind::kNorm &&
      !(ratio <= kMaxResidualOfScale)) {
    return false;
  }
  if (ratio > kMaxResidual * context.base_ratio) return false;
  if (is_factor(candidate.name) && !holds_at_most_elements(fit)) return false;
  const int known = fit.tokens;
  if (fit.held < kHeldTokens * known) return false;
  // A mistake that leaves what is wrong first as it is may be one, but not what is asked for.
  if (!(fit.first_left <= kMaxLeftOfFirst)) return false;
  if (known < 2 && !(ratio <= kMaxResidualOfOneToken)) return false;
  const double freedom = static_cast<double>(fit.features - candidate.parameters);
  // That a direction of `freedom` dimensions leaves so little is no chance. Of a few numbers a
  // fitted one may leave less than float does.
  const double left = std::max(ratio, kFloatNoise * kFloatNoise);
  return freedom / 2 * std::log(left) < std::log(kChance);
}

// Those that leave as little as `best` with no more free numbers, `best` first; one for each text
// and place.
std::vector<const Candidate*> equally_good(const std::vector<Candidate>& good,
                                           const Candidate& best, const JudgingContext& context) {
  constexpr double kTieFactor = 2;
  const double noise = noise_ratio(context, kFloatNoise);
  std::vector<const Candidate*> result = {&best};
  for (const Candidate& other : good) {
    const double most = std::max({kTieFactor * best.score(), noise, level_ratio(best, other)});
    if (other.score() > most || other.parameters > best.parameters) continue;
    const bool listed = std::any_of(result.begin(), result.end(), [&](const Candidate* one) {
      return one->where == other.where && one->text == other.text;
    });
    if (!listed) result.push_back(&other);
  }
  std::stable_sort(result.begin() + 1, result.end(), [&](const Candidate* a, const Candidate* b) {
    return std::make_tuple(a->rank, a->name != best.name) <
           std::make_tuple(b->rank, b->name != best.name);
  });
  return result;
}

// "A has the opposite sign, or B does ..."; those of one text together.
std::string in_words(const std::vector<const Candidate*>& equally_good) {
  std::vector<std::pair<std::string, std::string>> parts;  // text, places
  for (const Candidate* one : equally_good) {
    const auto same = std::find_if(parts.begin(), parts.end(),
                                   [&](const auto& part) { return part.first == one->text; });
    if (same == parts.end()) {
      parts.emplace_back(one->text, one->where);
    } else {
      same->second += " or " + one->where;
    }
  }
  std::string words;
  for (size_t i = 0; i < std::min(parts.size(), kShown); ++i) {
    words += (i > 0 ? ", or " : "") + parts[i].second + " " + parts[i].first;
  }
  return parts.size() > kShown ? words + ", or the like" : words;
}

std::string percent(double share) {
  const double value = 100 * share;
  return value > 99.995 ? "over 99.99 %" : fmt::format("{:.2f} %", value);
}

// Whether more is left than the true mistake leaves (see kMaxResidual), and far more than noise
// does: then this is a part of what is wrong, or near to it.
bool leaves_too_much(const Candidate& best, const JudgingContext& context) {
  constexpr double kMostOfTrue = 1e-3;
  constexpr double kFarAbove = 100;
  return best.score() > kMostOfTrue && best.score() > kFarAbove * floor_ratio(context);
}

double confidence(const Candidate& best, double next, const JudgingContext& context) {
  const double held = static_cast<double>(best.fit.held) / best.fit.tokens;
  const double worse = std::max(next, best.score());
  const double margin = worse > 0 ? 1 - std::sqrt(best.score() / worse) : 0;
  const double kept = 1 - std::sqrt(std::max(best.score() - floor_ratio(context), 0.0));
  const double tokens = 1 - 0.3 / best.fit.tokens;
  // That it begins at a token of its own is one more thing to be believed.
  constexpr double kOfATail = 0.8;
  const double all = context.tail ? kOfATail : 1;
  // The other half is that it is another mistake.
  const double true_one = leaves_too_much(best, context) ? 0.5 : 1;
  return std::clamp(true_one * all * held * kept * tokens * (0.5 + 0.5 * margin), 0.0, 1.0);
}

// What stands before and after the words where it is a tail that is explained.
std::string tail_prefix(const JudgingContext& context) {
  return context.tail ? fmt::format("from token {} on ", context.tail->from) : "";
}

std::string tail_suffix(const JudgingContext& context) {
  if (!context.tail) return {};
  const Tail& tail = *context.tail;
  const std::string right =
      tail.first_right == tail.last_right
          ? fmt::format("token {} is", tail.last_right)
          : fmt::format("tokens {} to {} are", tail.first_right, tail.last_right);
  // The prompt may be evaluated in several parts.
  const bool in_prompt = tail.from < context.n_prompt;
  return fmt::format("; {} right: look at {}", right,
                     in_prompt ? "what evaluates the later part of a prompt" : "the decode path");
}

// Of those that are level, one that belongs to its op, with the fewest free numbers.
const Candidate& simplest(const std::vector<Candidate>& good, const JudgingContext& context) {
  const Candidate* best = &good.front();
  const Candidate& nearest = *best;
  for (const Candidate& other : good) {
    const double most =
        std::max({10 * nearest.score(), floor_ratio(context), level_ratio(nearest, other)});
    const bool simpler =
        std::make_pair(other.rank, other.parameters) < std::make_pair(best->rank, best->parameters);
    if (other.score() <= most && simpler) best = &other;
  }
  return *best;
}

// With noise, for which no factor is accepted, a norm times one is near to a norm with another eps.
bool has_nearer_factor(const std::vector<Candidate>& candidates, const Candidate& eps,
                       const JudgingContext& context) {
  return std::ranges::any_of(candidates, [&](const Candidate& other) {
    return other.name == "scale" && other.where == eps.where && other.score() < eps.score() &&
           !is_accepted(other, context);
  });
}

// A sign or a factor on a branch and one where it is added are one arithmetic, and so are a factor
// of q or k and one of their product.
bool are_factors(const std::set<std::string>& names) {
  const auto is_of_scores = [](const std::string& name) {
    return name == "scale" || name == "attention_scale" || name == "rope_attention_factor";
  };
  return std::ranges::all_of(names, is_factor) || std::ranges::all_of(names, is_of_scores);
}

// Whether a mistake in some of the layers and another one in all of them, or in an op that there
// is once, leave as little: neither is likelier.
bool is_in_some_layers_or_all(const std::vector<const Candidate*>& same) {
  return std::ranges::any_of(same, [&](const Candidate* other) {
    return other->name != same.front()->name &&
           other->in_some_layers != same.front()->in_some_layers;
  });
}

}  // namespace

double floor_ratio(const JudgingContext& context) {
  return noise_ratio(context, std::max(context.noise, kFloatNoise));
}

Judgement judge(std::vector<Candidate> candidates, const JudgingContext& context) {
  double next = 1;  // of those that are another computation than the best
  // What says nothing of most tokens (a shift between logs of few positions) is no candidate.
  const int min_tokens = context.tail ? kMinTailTokens : 1;
  std::erase_if(candidates, [&](const Candidate& one) {
    return one.fit.tokens < min_tokens || one.fit.unpredicted > one.fit.tokens ||
           std::isnan(one.score());
  });
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.score() < b.score(); });
  std::vector<Candidate> good = candidates;
  std::erase_if(good, [&](const Candidate& one) { return !is_accepted(one, context); });
  if (good.empty()) return {};
  const Candidate& best = simplest(good, context);
  if (best.name == "eps" && has_nearer_factor(candidates, best, context)) return {};
  for (const Candidate& other : candidates) {
    // The opposite sign is a factor of -1, too.
    const bool is_same = other.name == best.name || (other.where == best.where &&
                                                     is_factor(other.name) && is_factor(best.name));
    if (!is_same) next = std::min(next, other.score());
  }
  const std::vector<const Candidate*> same = equally_good(good, best, context);
  std::set<std::string> names;
  for (const Candidate* one : same) names.insert(one->name);
  const std::string tokens =
      fmt::format("{} token{}", best.fit.tokens, best.fit.tokens == 1 ? "" : "s");
  Judgement judgement;
  judgement.fits = true;
  if (names.size() > 1 && best.fit.tokens < kMinDecisiveTokens && !are_factors(names)) {
    judgement.hint = fmt::format(
        "over {} these look the same ({}): {}; a log of more tokens would "
        "tell them apart",
        tokens, fmt::join(names, ", "), in_words(same));
    return judgement;
  }
  if (is_in_some_layers_or_all(same)) {
    judgement.hint = fmt::format(
        "these give the same ({}): {}; a log with --checkpoints ops would tell them apart",
        fmt::join(names, ", "), in_words(same));
    return judgement;
  }
  Cause& cause = judgement.cause.emplace();
  cause.name = best.name;
  cause.checkpoint = parse_checkpoint_name(context.target.name());
  cause.token_idx = context.first_token;
  cause.explained = best.fit.explained();
  cause.confidence = confidence(best, next, context);
  cause.sentence = fmt::format(
      "{}{}{}: this explains {} of the difference over {} (confidence {:.2f}){}{}",
      tail_prefix(context), in_words(same),
      same.size() > 1 ? ", which the logs do not tell apart" : "", percent(cause.explained), tokens,
      cause.confidence, tail_suffix(context),
      leaves_too_much(best, context)
          ? "; what it leaves is far more than noise: it is a part of what is wrong, or "
            "near to it"
          : "");
  return judgement;
}

}  // namespace assay::causes
