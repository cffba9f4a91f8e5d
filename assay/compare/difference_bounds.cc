#include "assay/compare/difference_bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "assay/compare/garbage.h"
#include "assay/compare/median.h"
#include "assay/compare/single_values.h"
#include "assay/compare/value_metrics.h"
#include "assay/log/sketch.h"

namespace assay {
namespace {

// Summaries of the same tensor may have been computed in other orders, or by 32-bit floats.
constexpr double kSummaryRounding = 1e-6;
constexpr double kRounded = 1e-2;  // no more is lost where values are rounded
constexpr double kUnseen = 1e-3;   // an error of logits that their padding must not hide

// `most`, the largest of what was seen, NaN once one was.
void raise(double& most, double value) {
  if (!std::isnan(most) && !(value <= most)) most = value;
}

double root_of(int64_t n) {
  return std::sqrt(static_cast<double>(n));
}

// Whether both state the same least and largest element: then none of these was rounded.
bool has_same_extremes(const ViewPair& pair) {
  if (!pair.ref.summary || !pair.got.summary) return false;
  const auto same = [](double a, double b) {
    return std::abs(a - b) <= kSummaryRounding * std::abs(a);
  };
  return same(pair.ref.summary->min, pair.got.summary->min) &&
         same(pair.ref.summary->max, pair.got.summary->max);
}

// A difference of sums in the reference's norm. Sums are no more exact than they are printed. Where
// padding or a value that no engine computes is most of them, a difference may be what a type of 16
// bits rounds it by, or an error of all other elements: nothing shows which.
double share(const ViewPair& pair, double difference, Metrics& metrics) {
  if (!(difference > kSummaryRounding * pair.sums)) return relative(difference, pair.sums);
  if (pair.norm < pair.sums && difference <= kRounded * pair.sums && !has_same_extremes(pair)) {
    metrics.padded = true;
    raise(metrics.unclear_rel_l2, relative(difference, pair.norm));
    return relative(difference, pair.sums);
  }
  return relative(difference, pair.norm);
}

// A bound made of sums, which below their rounding says nothing.
void raise_by_sums(const ViewPair& pair, double difference, Metrics& metrics) {
  const double bound = share(pair, difference, metrics);
  if (!(bound <= kSummaryRounding)) raise(metrics.rel_l2, bound);
}

// The largest magnitude of an element; nothing where the extremes are not known.
std::optional<double> largest_magnitude(const RecordView& view) {
  if (!view.summary) return std::nullopt;
  const double magnitude = std::max(std::abs(view.summary->min), std::abs(view.summary->max));
  if (std::isnan(view.summary->min) || std::isnan(view.summary->max)) return std::nullopt;
  return magnitude;
}

double norm_of(const std::vector<TopValue>& top) {
  double squares = 0;
  for (const TopValue& element : top) {
    const auto value = static_cast<double>(element.value);
    if (std::isfinite(value)) squares += value * value;
  }
  return std::sqrt(squares);
}

// The largest magnitude that a record states in any way; 0 where it states none.
double largest_known(const RecordView& view) {
  double largest = 0;
  const auto see = [&](double value) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  };
  for (const float value : view.values) see(static_cast<double>(value));
  for (const TopValue& top : view.top) see(static_cast<double>(top.value));
  if (!view.summary) return largest;
  see(view.summary->min);
  see(view.summary->max);
  return largest;
}

void hold_sketches(const ViewPair& pair, Metrics& metrics) {
  if (!pair.ref.sketch || !pair.got.sketch) return;
  raise(metrics.rel_l2, share(pair, sketch_distance(*pair.ref.sketch, *pair.got.sketch), metrics));
  metrics.identical = metrics.identical && *pair.ref.sketch == *pair.got.sketch;
  metrics.facts.sketch = true;
}

// The values of both differ by more than their sketches tell of the whole tensors: values or
// sketch of one of the two are not those of the tensor. Below 1 % values may have been rounded.
void hold_values_to_sketches(const ViewPair& pair, Metrics& metrics) {
  if (!pair.ref.sketch || !pair.got.sketch || pair.padded) return;
  const double head = norm_of_finite(pair.ref.values.first(pair.common));
  const double told = sketch_distance(*pair.ref.sketch, *pair.got.sketch) / kMinNormRatio +
                      10 * kSummaryRounding * pair.sums;
  if (!(pair.head_difference <= told) && !(pair.head_difference <= kRounded * head)) {
    raise(metrics.rel_l2, relative(pair.head_difference, head));
  }
}

void hold_norms(const ViewPair& pair, Metrics& metrics) {
  const std::optional<double> a = pair.ref.norm();
  const std::optional<double> b = pair.got.norm();
  if (!a || !b) return;
  if ((*a == 0) != (*b == 0)) {
    raise(metrics.rel_l2, *a == 0 ? std::numeric_limits<double>::infinity() : 1);
    metrics.facts.summary = true;
  }
  metrics.facts.zeros = *a == 0 && *b == 0;
  metrics.all_zero = metrics.all_zero && metrics.facts.zeros;  // a norm of one alone proves nothing
  if (pair.ref.l2 && pair.got.l2) {
    raise_by_sums(pair, std::abs(*a - *b), metrics);
    metrics.facts.summary = true;
  } else if (!(*b >= kMinNormRatio * *a && *b <= kMaxNormRatio * *a) &&
             !(*a >= kMinNormRatio * *b && *a <= kMaxNormRatio * *b)) {
    // One of the two is an estimate: that it is near proves nothing.
    raise(metrics.rel_l2, relative(std::abs(*a - *b), *a));
  }
}

// Whether one of the largest elements of either is also listed by the other.
bool lists_element_of_both(const ViewPair& pair) {
  const auto lists_one_of = [](const RecordView& mine, const RecordView& other) {
    const KnownValues known(other.values, other.top);
    return std::any_of(mine.top.begin(), mine.top.end(),
                       [&](const TopValue& top) { return known.at(top.index).has_value(); });
  };
  return lists_one_of(pair.ref, pair.got) || lists_one_of(pair.got, pair.ref);
}

void hold_extremes_and_means(const ViewPair& pair, Metrics& metrics) {
  if (!pair.ref.summary || !pair.got.summary) return;
  const Summary& a = *pair.ref.summary;
  const Summary& b = *pair.got.summary;
  // Equal probabilities of tokens of which the other says nothing prove nothing.
  const bool apart = metrics.in_nats && !pair.ref.top.empty() && !lists_element_of_both(pair);
  double least = 0;  // that ||d|| can be; NaN, where one of the two lacks a number, is not above it
  for (const double known : {std::abs(a.max - b.max), std::abs(a.min - b.min),
                             std::abs(a.mean - b.mean) * root_of(metrics.n)}) {
    if (known > least) least = known;
    metrics.facts.summary = metrics.facts.summary || (!std::isnan(known) && !apart);
  }
  raise_by_sums(pair, least, metrics);
  const bool same_top = std::equal(a.top.begin(), a.top.end(), b.top.begin(), b.top.end(),
                                   [](const TopValue& x, const TopValue& y) {
                                     return x.index == y.index && x.value == y.value;
                                   });
  metrics.identical = metrics.identical && same_top && a.argmax == b.argmax && least == 0;
}

// Whether both sides state sums over all elements, which a wrong element would show in.
bool states_sums(const ViewPair& pair) {
  const auto has_mean = [](const RecordView& view) {
    return view.summary && !std::isnan(view.summary->mean);
  };
  return (pair.ref.sketch && pair.got.sketch) || (pair.ref.l2 && pair.got.l2) ||
         (has_mean(pair.ref) && has_mean(pair.got));
}

// Of the elements beyond the values of both, those that one lists among its largest and the other
// knows, too, as the reference has them. Where there are none, as many of the reference's largest
// as the shorter list has.
std::vector<TopValue> listed_by_both(const ViewPair& pair) {
  const KnownValues ref(pair.ref.values, pair.ref.top);
  const KnownValues got(pair.got.values, pair.got.top);
  std::map<int64_t, float> both;
  for (const RecordView* view : {&pair.ref, &pair.got}) {
    for (const TopValue& top : view->top) {
      if (top.index < static_cast<int64_t>(pair.common)) continue;
      const std::optional<float> value = ref.at(top.index);
      if (value && got.at(top.index)) both.emplace(top.index, *value);
    }
  }
  std::vector<TopValue> listed;
  for (const auto& [index, value] : both) listed.push_back({index, value});
  if (!listed.empty()) return listed;
  listed = pair.ref.top.empty() ? pair.got.top : pair.ref.top;
  if (!pair.got.top.empty()) listed.resize(std::min(listed.size(), pair.got.top.size()));
  return listed;
}

// The norm that as many elements as both list have in the tensor; of log-probabilities at least
// one nat each. Where nothing but the largest elements is known, their error is not to be taken
// against the norm of all, nor that of one against a longer list.
double norm_of_listed(const ViewPair& pair, const Metrics& metrics) {
  const std::vector<TopValue> listed = listed_by_both(pair);
  const auto count = static_cast<double>(pair.common + listed.size());
  const double part = std::min(1.0, count / static_cast<double>(std::max<int64_t>(metrics.n, 1)));
  double norm = std::max(norm_of(listed), pair.norm * std::sqrt(part));
  if (!metrics.is_logits) norm = std::max(norm, largest_known(pair.ref));  // the least is padding's
  if (metrics.in_nats) norm = std::max(norm, std::sqrt(count));
  return norm;
}

// The norm that the error of a list of the most probable tokens is relative to. Logits may be of
// any size, as a constant added to all changes no probability: what is off by more than rounding
// makes of logits is relative to the log-probabilities themselves.
double norm_of_list(double error, const ViewPair& pair, const Metrics& metrics) {
  constexpr double kMostNats = 0.25;  // root mean square; a probability is off by 28 %
  const double norm = norm_of_listed(pair, metrics);
  const double count =
      std::max(1.0, static_cast<double>(pair.common + listed_by_both(pair).size()));
  if (!metrics.listed_nats || error <= kMostNats * std::sqrt(count)) return norm;
  return std::min(norm, std::max(1.0, *metrics.listed_nats) * std::sqrt(count));
}

// Whether the element is one of those that swamp the sums, and off by no more than its rounding.
bool is_rounded_padding(const ViewPair& pair, int64_t index, double difference) {
  if (!(pair.norm < pair.sums)) return false;
  for (const RecordView* view : {&pair.ref, &pair.got}) {
    const std::optional<float> value = value_at(view->values, view->top, index);
    if (!value || std::isinf(*value)) continue;
    const double magnitude = std::abs(static_cast<double>(*value));
    return magnitude > pair.norm && difference <= kRounded * magnitude;
  }
  return false;
}

void hold_single_values(const ViewPair& pair, Metrics& metrics) {
  const auto known = [](const RecordView& view) {
    return SingleValues{view.values, view.top, view.summary ? &*view.summary : nullptr,
                        view.most_unlisted};
  };
  for (const auto& [mine, other] : {std::pair(&pair.ref, &pair.got), {&pair.got, &pair.ref}}) {
    const KnownValues there(other->values, other->top);
    int64_t listed = 0;
    for (const TopValue& top : mine->top) {
      const bool is_shared = top.index >= static_cast<int64_t>(pair.common) && there.at(top.index);
      listed += is_shared ? 1 : 0;
      metrics.facts.top = metrics.facts.top || (is_shared && top.value != 0);
    }
    metrics.listed = std::max(metrics.listed, listed);
  }
  const std::map<int64_t, double> differences =
      min_differences(known(pair.ref), known(pair.got), pair.common);
  if (differences.empty()) return;
  double squares = pair.head_difference * pair.head_difference;
  for (const auto& [index, difference] : differences) {
    if (is_rounded_padding(pair, index, difference)) {
      metrics.padded = true;
      continue;
    }
    squares += difference * difference;
    raise(metrics.observed_error, difference);
  }
  metrics.identical = false;
  const bool by_sums = states_sums(pair) && !pair.padded;
  const double error = std::sqrt(squares);
  const double norm = by_sums ? pair.norm : norm_of_list(error, pair, metrics);
  raise(metrics.rel_l2, relative(error, norm));
}

// The most and the least that a norm can be; nothing where neither it nor a sketch is known.
std::optional<double> most_norm(const RecordView& view) {
  if (view.l2 || !view.sketch) return view.l2;
  return sketch_norm(*view.sketch) / kMinNormRatio;
}

std::optional<double> least_norm(const RecordView& view) {
  if (view.l2 || !view.sketch) return view.l2;
  return sketch_norm(*view.sketch) / kMaxNormRatio;
}

// By what `mine` exceeds what the norm or the extremes of `other` allow.
double excess_of(const RecordView& mine, const RecordView& other, const Metrics& metrics) {
  double least = 0;
  const auto see = [&](double excess, double of) {
    if (excess > std::max(least, kSummaryRounding * of)) least = excess;
  };
  // Of how many logits a mean is made is not known where padding is not counted.
  const bool counted = mine.nonfinite || !metrics.is_logits;
  const double root = counted ? root_of(metrics.n - mine.nonfinite.value_or(0)) : 0;
  if (const std::optional<double> most = most_norm(other)) {
    see(norm_of_finite(mine.values) - *most, *most);
    if (mine.summary) see(least_norm(*mine.summary, root * root) - *most, *most);
  }
  const std::optional<double> norm = least_norm(mine);
  const std::optional<double> largest = largest_magnitude(other);
  if (norm && largest) see(*norm - root_of(metrics.n) * *largest, *norm);
  if (mine.summary && other.summary) {
    const double mean = root * mine.summary->mean;
    see(mean - root * other.summary->max, std::abs(mean));
    see(root * other.summary->min - mean, std::abs(mean));
  }
  return least;
}

void hold_inequalities(const ViewPair& pair, Metrics& metrics) {
  const double excess =
      std::max(excess_of(pair.ref, pair.got, metrics), excess_of(pair.got, pair.ref, metrics));
  if (excess > 0) raise_by_sums(pair, excess, metrics);
}

constexpr void (*kRules[])(const ViewPair&, Metrics&) = {
    hold_sketches,           hold_values_to_sketches, hold_norms,
    hold_extremes_and_means, hold_single_values,      hold_inequalities,
};

// The norm that logits without padding may have: their largest element's in each place. Nothing
// where that is not known well enough to tell padding from logits.
std::optional<double> most_of_logits(const RecordView& ref, const RecordView& got, size_t common,
                                     double norm, int64_t n) {
  constexpr double kMost = 10;
  constexpr double kMaxOfHead = 1e4;  // times what a head shows, which may be of small ones
  double largest = 0;
  const auto see = [&](double value) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  };
  bool largest_listed = false;
  for (const RecordView* view : {&ref, &got}) {
    for (const TopValue& top : view->top) see(static_cast<double>(top.value));
    const bool has_max = view->summary && !std::isnan(view->summary->max);
    if (has_max) see(view->summary->max);
    largest_listed = largest_listed || has_max || !view->top.empty();
  }
  for (const float value : ref.values.first(common)) see(static_cast<double>(value));
  const double most = largest * root_of(n);
  if (largest == 0 || norm <= (largest_listed ? kMost : kMaxOfHead) * most) return std::nullopt;
  return most;
}

// The norm of a tensor without its garbage, where the stated one is garbage's: what the values that
// are listed, or the largest but one, leave to all others. Nothing where it is not.
std::optional<double> norm_without_garbage(const RecordView& ref, double norm, int64_t n) {
  std::vector<float> usual;
  for (const float value : ref.values) {
    if (std::isfinite(value) && value != 0) usual.push_back(std::abs(value));
  }
  if (usual.empty() && ref.top.size() > 1) usual.push_back(std::abs(ref.top[1].value));
  if (norm < kNotComputed) return std::nullopt;
  if (usual.empty()) {
    // One element is nearly all of it, and nothing tells how large the others are.
    const bool is_one = largest_magnitude(ref).value_or(0) >= norm / 2;
    return is_one ? std::optional(0.0) : std::nullopt;
  }
  const double most = static_cast<double>(upper_median(usual)) * root_of(n);
  return norm >= kMagnitudeScale * most ? std::optional(most) : std::nullopt;
}

// The norm that the values, extremes or mean of a record stand for, where it tells nothing else:
// the other values are taken to be as large as those listed, but no element is left out.
double norm_by_values(const RecordView& view, int64_t n) {
  const auto count = static_cast<double>(std::max<size_t>(view.values.size(), 1));
  const double all = norm_of_finite(view.values) * std::sqrt(static_cast<double>(n) / count);
  const double by_summary = view.summary ? least_norm(*view.summary, static_cast<double>(n)) : 0;
  return std::max({all, largest_known(view), norm_of(view.top), by_summary});
}

}  // namespace

ViewPair pair_views(const RecordView& ref, const RecordView& got, size_t common,
                    double head_difference, double head_norm, const Metrics& metrics) {
  ViewPair pair{ref, got, common, head_difference, 0, 0};
  const std::optional<double> norm = ref.norm() ? ref.norm() : got.norm();
  pair.sums = norm.value_or(std::max(head_norm, norm_by_values(ref, metrics.n)));
  pair.norm = pair.sums;
  if (!norm) return pair;
  if (const auto rest = norm_without_garbage(ref, *norm, metrics.n)) {
    pair.norm = *rest;
    pair.padded = true;
    return pair;
  }
  if (!metrics.is_logits) return pair;
  const std::optional<double> most = most_of_logits(ref, got, common, *norm, metrics.n);
  if (!most) return pair;
  pair.norm = *most;
  pair.padded = kSummaryRounding * pair.sums > kUnseen * pair.norm;
  return pair;
}

void raise_to_bounds(const ViewPair& pair, Metrics& metrics) {
  for (const auto& rule : kRules) rule(pair, metrics);
}

}  // namespace assay
