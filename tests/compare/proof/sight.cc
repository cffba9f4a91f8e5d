#include "tests/compare/proof/sight.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

namespace assay::proof {
namespace {

constexpr double kWrong = 0.1;         // rel_l2
constexpr double kWrongExtreme = 0.5;  // of an extreme, where the norm is not known
constexpr double kWrongNorm = 3;       // as a factor, where one comes from a sketch
constexpr double kWrongChoice = 0.5;   // regret, of the logits' root mean square

// One side of a record: the facts that its line lets a reader have.
class Side {
 public:
  Side(const Network& network, const Tensor& tensor, const RecordForm& form)
      : tensor_(tensor), form_(form), active_(active_elements(network, tensor)) {
    const auto n = static_cast<int64_t>(tensor.values.size());
    head_ = form.head == RecordForm::kAll ? n : std::min(form.head, n);
    covered_ = std::min(static_cast<int64_t>(tensor.garbage.size()), head_);
    for (const float value : tensor.values) {
      if (!std::isfinite(value)) {
        ++nonfinite_;
        continue;
      }
      const double x = value;
      least_ = any_ ? std::min(least_, x) : x;
      most_ = any_ ? std::max(most_, x) : x;
      any_ = true;
      sum_ += x;
      squares_ += x * x;
    }
  }

  int64_t n() const { return static_cast<int64_t>(tensor_.values.size()); }
  int64_t head() const { return head_; }
  int64_t covered() const { return covered_; }
  int64_t active() const { return active_; }
  double at(int64_t i) const { return tensor_.values[static_cast<size_t>(i)]; }
  bool all() const { return head_ == n() && covered_ == 0; }
  bool sketchable() const { return all() || form_.sketch; }
  bool knows(unsigned key) const { return all() || (form_.summary & key) != 0; }
  int64_t nonfinite() const { return nonfinite_; }
  double least() const { return least_; }
  double most() const { return most_; }
  double mean() const { return sum_ / std::max<double>(1, static_cast<double>(n() - nonfinite_)); }
  double l2() const { return std::sqrt(squares_); }
  int64_t argmax() const { return proof::argmax(tensor_.values); }

  // Whether the value of an element can be read from the line.
  bool tells(int64_t i) const {
    if (i >= covered_ && i < head_) return true;
    if ((form_.summary & kTop) == 0) return false;
    int64_t larger = 0;
    for (int64_t j = 0; j < n(); ++j) larger += at(j) > at(i) || (at(j) == at(i) && j < i) ? 1 : 0;
    return larger < kSummaryTop;
  }

 private:
  const Tensor& tensor_;
  const RecordForm& form_;
  int64_t active_ = 0;
  int64_t head_ = 0;
  int64_t covered_ = 0;
  int64_t nonfinite_ = 0;
  bool any_ = false;
  double least_ = 0;
  double most_ = 0;
  double sum_ = 0;
  double squares_ = 0;
};

// ||a - b||^2 of elements from `from` to `to`, and ||a||^2; NaN where only one is a number.
struct Distance {
  double difference = 0;
  double norm = 0;

  Distance(const Side& a, const Side& b, int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      const double x = a.at(i);
      const double y = b.at(i);
      if (std::isinf(x) && x == y) continue;
      norm += x * x;
      difference += (x - y) * (x - y);
    }
  }
};

void see_heads(const Side& ref, const Side& got, Sight& sight) {
  const int64_t from = std::max(ref.covered(), got.covered());
  const int64_t to = std::min({ref.head(), got.head(), ref.active(), got.active()});
  if (from >= to) return;
  const Distance distance(ref, got, from, to);
  sight.common = sight.common || distance.norm > 0;
  sight.head_error = std::sqrt(distance.difference / distance.norm);
  // A head of small values may be held to the norm that one of its length has in this tensor.
  const Distance tensor(ref, ref, 0, ref.active());
  const double usual =
      tensor.norm * static_cast<double>(to - from) / static_cast<double>(ref.active());
  const double scale = std::max(distance.norm, usual);
  if (!(distance.difference <= kWrong * kWrong * scale)) sight.wrong = true;
}

void see_wholes(const Side& ref, const Side& got, Sight& sight) {
  if (!ref.sketchable() || !got.sketchable()) return;
  sight.common = true;
  const bool sketches = !ref.all() || !got.all();
  const int64_t n = sketches ? ref.n() : std::min(ref.active(), got.active());
  double difference = 0;
  double norm = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double x = ref.at(i);
    const double y = got.at(i);
    if (sketches) {  // which leave out what is not finite
      const double a = std::isfinite(x) ? x : 0;
      const double b = std::isfinite(y) ? y : 0;
      norm += a * a;
      difference += (a - b) * (a - b);
    } else if (!std::isinf(x) || x != y) {
      norm += x * x;
      difference += (x - y) * (x - y);
    }
  }
  if (!(difference <= kWrong * kWrong * norm)) sight.wrong = sight.whole = true;
}

void see_summaries(const Side& ref, const Side& got, Sight& sight) {
  const auto both = [&](unsigned key) { return ref.knows(key) && got.knows(key); };
  const bool norms = both(kL2);
  const bool extremes = both(kMin) && both(kMax);
  sight.common = sight.common || norms || extremes;
  const double largest = std::max(std::abs(ref.least()), std::abs(ref.most()));
  const auto differs = [&](double a, double b, double scale) {
    if (norms && !(std::abs(a - b) * scale <= kWrong * ref.l2())) return true;
    return extremes && !(std::abs(a - b) <= kWrongExtreme * largest);
  };
  bool wrong = norms && !(std::abs(ref.l2() - got.l2()) <= kWrong * ref.l2());
  wrong = wrong || (both(kMin) && differs(ref.least(), got.least(), 1));
  wrong = wrong || (both(kMax) && differs(ref.most(), got.most(), 1));
  wrong = wrong ||
          (both(kMean) && differs(ref.mean(), got.mean(), std::sqrt(static_cast<double>(ref.n()))));
  wrong = wrong || (both(kNonfinite) && ref.nonfinite() != got.nonfinite());
  sight.wrong = sight.wrong || wrong;
}

// What a line states about single elements, or the norm, against what the other states by other
// means.
void see_crosswise(const Side& a, const Side& b, Sight& sight) {
  const double largest = std::max(std::abs(b.least()), std::abs(b.most()));
  double squares = 0;
  for (int64_t i = a.covered(); i < std::min(a.head(), a.active()); ++i) {
    const double value = a.at(i);
    squares += value * value;
    if (b.knows(kMax) && !(value <= b.most() + kWrongExtreme * largest)) sight.wrong = true;
    if (b.knows(kMin) && !(value >= b.least() - kWrongExtreme * largest)) sight.wrong = true;
  }
  if (b.knows(kL2) && !(std::sqrt(squares) <= (1 + kWrong) * b.l2())) sight.wrong = true;
  // The norm that a sketch gives is a rough one.
  if (a.sketchable() && b.knows(kL2) &&
      !(a.l2() <= kWrongNorm * b.l2() && b.l2() <= kWrongNorm * a.l2())) {
    sight.wrong = true;
  }
}

void see_choice(const Network& network, const Tensor& tensor, const Side& ref, const Side& got,
                Sight& sight) {
  if (tensor.checkpoint != "logits" || !ref.knows(kArgmax) || !got.knows(kArgmax)) return;
  const int64_t chosen = ref.argmax();
  const int64_t other = got.argmax();
  if (chosen < 0 || other < 0 || chosen == other || !ref.tells(chosen) || !ref.tells(other)) return;
  const double scale = rms(tensor.values, active_elements(network, tensor));
  if (!(ref.at(chosen) - ref.at(other) <= kWrongChoice * scale)) sight.wrong = true;
}

// Whether the two differ in nothing but rows of padding at the end of the longer.
bool is_padding_of(const Side& a, const Side& b) {
  const Side& longer = a.n() > b.n() ? a : b;
  const int64_t from = std::min(a.n(), b.n());
  if (longer.n() % 32 != 0 || longer.n() - from < 2) return false;
  for (int64_t i = from; i < longer.n(); ++i) {
    if (!(longer.at(i) <= -1e8)) return false;
  }
  return true;
}

}  // namespace

Sight compare_sight(const Network& network, const Tensor& ref, const RecordForm& ref_form,
                    const Tensor& got, const RecordForm& got_form) {
  const Side a(network, ref, ref_form);
  const Side b(network, got, got_form);
  Sight sight;
  if (a.n() != b.n() && !is_padding_of(a, b)) {
    sight.common = sight.wrong = sight.whole = true;
    return sight;
  }
  see_heads(a, b, sight);
  if (a.n() == b.n() || (a.all() && b.all())) see_wholes(a, b, sight);
  if (a.n() == b.n()) {
    see_summaries(a, b, sight);
    see_crosswise(a, b, sight);
    see_crosswise(b, a, sight);
  }
  see_choice(network, ref, a, b, sight);
  if (shows_nonfinite(network, got, got_form) && !shows_nonfinite(network, ref, ref_form)) {
    sight.wrong = true;
    sight.whole = sight.whole || (a.all() && b.all());
  }
  return sight;
}

bool shows_nonfinite(const Network& network, const Tensor& tensor, const RecordForm& form) {
  const auto n = static_cast<int64_t>(tensor.values.size());
  const int64_t head = form.head == RecordForm::kAll ? n : std::min(form.head, n);
  const int64_t active = active_elements(network, tensor);
  for (int64_t i = 0; i < n; ++i) {
    const float value = tensor.values[static_cast<size_t>(i)];
    if (std::isfinite(value)) continue;
    if (i >= active && value == -INFINITY) continue;
    if (i < head && i >= static_cast<int64_t>(tensor.garbage.size())) return true;
    // An infinity that is only counted may be one of the padding.
    const bool counted = (form.summary & kNonfinite) != 0;
    if (counted && (std::isnan(value) || tensor.checkpoint != "logits")) return true;
  }
  return false;
}

}  // namespace assay::proof
