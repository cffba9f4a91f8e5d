#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace assay::proof {

// SplitMix64's mixing of two numbers into one.
inline uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = a + 0x9E3779B97F4A7C15U * (b + 1);
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31U);
}

// What is drawn of a case: its choices come from the bytes of a fuzzer as long as there are any,
// else from a seed. The same on every machine.
class Chance {
 public:
  explicit Chance(uint64_t seed) : state_(mix(seed, 0)) {}
  explicit Chance(std::span<const uint8_t> bytes) : bytes_(bytes), state_(bytes.size()) {
    for (const uint8_t byte : bytes) state_ = mix(state_, byte);
  }

  uint64_t next() { return state_ = mix(state_, 1); }

  // 0 to n - 1.
  int below(int n) {
    if (bytes_.empty()) return static_cast<int>((next() >> 11U) % static_cast<uint64_t>(n));
    const int byte = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return byte % n;
  }
  int between(int least, int most) { return least + below(most - least + 1); }
  bool one_in(int n) { return below(n) == 0; }

  // At least 0, below 1.
  double uniform() { return static_cast<double>(next() >> 11U) * 0x1p-53; }
  double uniform(double least, double most) { return least + (most - least) * uniform(); }

  template <typename T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(below(static_cast<int>(from.size())))];
  }

  // About normal, of variance 1 and within 3.5: the sum of four uniform numbers.
  double normal() {
    uint64_t bits = next();
    int64_t sum = 0;
    for (int i = 0; i < 4; ++i, bits >>= 16U) sum += static_cast<int64_t>(bits & 0xFFFFU);
    constexpr double kDeviation = 37837.2;  // of the sum: 65536 / sqrt(12) * sqrt(4)
    return (static_cast<double>(sum) - 2.0 * 65535) / kDeviation;
  }

 private:
  std::span<const uint8_t> bytes_;
  uint64_t state_;
};

}  // namespace assay::proof
