// Any two rows of floats: the metrics of a comparison against the same from their definitions, one
// element at a time in long double.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "assay/compare/metrics.h"

namespace {

std::vector<float> floats(const uint8_t* data, size_t count) {
  std::vector<float> values(count);
  if (count > 0) std::memcpy(values.data(), data, count * sizeof(float));
  return values;
}

// Whether a is b to within rounding; equal infinities and two NaNs agree.
bool near(double a, long double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == static_cast<double>(b);
  return std::abs(a - b) <= 1e-9L * std::abs(b) + 1e-300L;
}

assay::Record record(std::vector<float> values) {
  assay::Record made;
  made.checkpoint = "layer_0_output";
  made.n = static_cast<int64_t>(values.size());
  made.values = std::move(values);
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const size_t count = size / sizeof(float) / 2;
  if (count == 0) return 0;
  const assay::Record ref = record(floats(data, count));
  const assay::Record got = record(floats(data + count * sizeof(float), count));
  const assay::Metrics metrics = assay::compare_records(ref, got, false);

  long double difference = 0;
  long double norm = 0;
  long double largest = 0;
  int64_t nonfinite = 0;
  bool infinite = false;
  for (size_t i = 0; i < count; ++i) {
    const float a = ref.values[i];
    const float b = got.values[i];
    if (std::isnan(a) || std::isnan(b) || ((std::isinf(a) || std::isinf(b)) && a != b)) {
      ++nonfinite;
    } else if (std::isinf(a)) {
      infinite = true;  // equal: no difference, and not part of a norm
    } else {
      const long double d = static_cast<long double>(a) - b;
      difference += d * d;
      norm += static_cast<long double>(a) * a;
      largest = std::max(largest, std::abs(d));
    }
  }
  if (metrics.nonfinite != nonfinite) std::abort();
  if (nonfinite > 0) {
    // Not a number on either side passes no test.
    if (metrics.rel_l2 <= 1e30 || metrics.max_abs <= 1e30) std::abort();
    return 0;
  }
  if (!near(metrics.max_abs, largest)) std::abort();
  if (infinite || norm == 0) return 0;
  if (!near(metrics.rel_l2, std::sqrt(difference / norm))) std::abort();
  return 0;
}
