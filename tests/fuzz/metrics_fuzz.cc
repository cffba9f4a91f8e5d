// Any two rows of floats: the metrics of a comparison against the same from their definitions, one
// element at a time in long double.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "assay/compare/metrics.h"

namespace {

std::vector<float> floats(const uint8_t* data, size_t count) {
  std::vector<float> values(count);
  if (count > 0) std::memcpy(values.data(), data, count * sizeof(float));
  return values;
}

void require(bool condition) {
  if (!condition) std::abort();
}

// Whether a is b to within rounding; `scale` is the largest that was added up to give it.
bool near(double a, long double b, long double scale) {
  return std::abs(static_cast<long double>(a) - b) <= 1e-11L * scale + 1e-300L;
}

bool near(double a, long double b) {
  return near(a, b, std::abs(b));
}

assay::Record record(std::vector<float> values) {
  assay::Record made;
  made.checkpoint = "logits";
  made.n = static_cast<int64_t>(values.size());
  made.values = std::move(values);
  return made;
}

// The metrics by their definitions, of the pairs that hold no NaN and no infinity.
struct Naive {
  int64_t nonfinite = 0;  // pairs with a NaN or unequal infinities
  bool infinite = false;  // there are equal infinities
  long double difference = 0;
  long double difference_2 = 0;
  long double a_2 = 0;
  long double b_2 = 0;
  long double a_b = 0;
  long double largest = 0;
  int64_t max_ulp = 0;
  int64_t sign_flips = 0;

  Naive(const std::vector<float>& ref, const std::vector<float>& got) {
    for (size_t i = 0; i < ref.size(); ++i) add(ref[i], got[i]);
  }

 private:
  // How many floats lie between 0 and x.
  static int64_t steps(float x) {
    int32_t bits = 0;
    std::memcpy(&bits, &x, sizeof bits);
    const int64_t magnitude = bits & 0x7FFFFFFF;
    return bits < 0 ? -magnitude : magnitude;
  }

  void add(float a, float b) {
    if (std::isnan(a) || std::isnan(b) || ((std::isinf(a) || std::isinf(b)) && a != b)) {
      ++nonfinite;
    } else if (std::isinf(a)) {
      infinite = true;
    } else {
      const long double x = a;
      const long double y = b;
      const long double d = std::abs(x - y);
      difference += d;
      difference_2 += d * d;
      a_2 += x * x;
      b_2 += y * y;
      a_b += x * y;
      largest = std::max(largest, d);
      max_ulp = std::max(max_ulp, std::abs(steps(a) - steps(b)));
      sign_flips += (a > 0 && b < 0) || (a < 0 && b > 0) ? 1 : 0;
    }
  }
};

void check_distances(const Naive& naive, const assay::Metrics& metrics, size_t count) {
  const auto n = static_cast<long double>(count);
  require(near(metrics.max_abs, naive.largest));
  require(near(metrics.mean_abs, naive.difference / n));
  require(near(metrics.rms, std::sqrt(naive.difference_2 / n)));
  require(metrics.max_ulp == naive.max_ulp);
  require(metrics.sign_flips == naive.sign_flips);
  require(metrics.identical == (naive.max_ulp == 0));
  if (naive.a_2 > 0) {
    require(near(metrics.rel_l2, std::sqrt(naive.difference_2 / naive.a_2)));
    require(near(metrics.nmse, naive.difference_2 / naive.a_2));
  } else {
    require(naive.difference_2 > 0 ? std::isinf(metrics.rel_l2) : metrics.rel_l2 == 0);
  }
  if (naive.a_2 > 0 && naive.b_2 > 0) {
    require(near(metrics.cosine, naive.a_b / std::sqrt(naive.a_2) / std::sqrt(naive.b_2), 1));
  }
}

// The indices of the largest, the lower of equal ones first, by sorting all.
std::vector<size_t> order_of(const std::vector<float>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t i, size_t j) { return values[i] > values[j]; });
  return order;
}

void check_choice(const std::vector<float>& ref, const std::vector<float>& got,
                  const assay::Metrics& metrics) {
  const std::vector<size_t> ref_order = order_of(ref);
  const std::vector<size_t> got_order = order_of(got);
  const size_t ref_first = ref_order[0];
  const size_t got_first = got_order[0];
  require(metrics.argmax_ref == static_cast<int64_t>(ref_first));
  require(metrics.argmax_got == static_cast<int64_t>(got_first));
  require(metrics.regret == static_cast<double>(ref[ref_first]) - ref[got_first]);
  const size_t top = std::min(ref.size(), size_t{5});
  size_t shared = 0;
  for (size_t i = 0; i < top; ++i) {
    const auto* const end = got_order.data() + top;
    shared += std::find(got_order.data(), end, ref_order[i]) != end ? 1 : 0;
  }
  require(near(metrics.topk_overlap.value(), static_cast<long double>(shared) / top));
}

// The logarithms of the softmax, and the sum of its weights before they are divided.
std::vector<long double> log_softmax(const std::vector<float>& values) {
  const long double largest = *std::max_element(values.begin(), values.end());
  long double sum = 0;
  for (const float x : values) sum += std::exp(x - largest);
  std::vector<long double> logs;
  for (const float x : values) logs.push_back(x - largest - std::log(sum));
  return logs;
}

void check_kl(const std::vector<float>& ref, const std::vector<float>& got, double kl) {
  const std::vector<long double> p = log_softmax(ref);
  const std::vector<long double> q = log_softmax(got);
  long double sum = 0;
  long double scale = 1;
  for (size_t i = 0; i < ref.size(); ++i) {
    const long double weight = std::exp(p[i]);
    sum += weight * (p[i] - q[i]);
    scale = std::max({scale, std::abs(static_cast<long double>(ref[i])),
                      std::abs(static_cast<long double>(got[i]))});
  }
  require(kl >= 0 && near(kl, std::max(sum, 0.0L), scale));
}

}  // namespace

// Two rows of one length, one after the other.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const size_t count = size / sizeof(float) / 2;
  if (count == 0) return 0;
  const assay::Record ref = record(floats(data, count));
  const assay::Record got = record(floats(data + count * sizeof(float), count));
  const assay::Metrics metrics = assay::compare_records(ref, got, true);
  const Naive naive(ref.values, got.values);

  require(metrics.nonfinite == naive.nonfinite);
  if (naive.nonfinite > 0) {
    // Not a number on either side passes no test.
    require(!(metrics.rel_l2 <= 1e30) && !(metrics.max_abs <= 1e30) && !(metrics.kl <= 1e30));
    return 0;
  }
  check_distances(naive, metrics, count);
  if (naive.infinite) return 0;
  check_choice(ref.values, got.values, metrics);
  check_kl(ref.values, got.values, metrics.kl.value());
  return 0;
}
