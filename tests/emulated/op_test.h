#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "tests/emulated/device_arrays.h"

namespace assay::testing_support {

// What `op` leaves of `count` elements at the address it returns.
template <class Op>
auto result_of(Kernels& kernels, size_t count, const Op& op) {
  DeviceArrays arena(kernels);
  return arena.read(op(kernels, arena), count);
}

class OpTest : public testing::TestWithParam<Tested> {
 protected:
  void SetUp() override {
    const auto [backend, seed, math] = GetParam();
    const std::string reason = testing_support::reason_to_skip(backend);
    if (!reason.empty()) GTEST_SKIP() << reason;
    tested_ = testing_support::make_kernels(backend, pool_, seed, math);
    cpu_ = make_cpu_kernels(pool_, best_instruction_set(), math);
  }

  // Runs `op`(kernels, arena), which returns where its results are, on both backends. NaN has no
  // bits to expect: a GPU knows one NaN, and a processor keeps those that went in.
  template <class Op>
  void expect_the_bits_of_the_cpu(int64_t count, const Op& op) {
    const auto n = static_cast<size_t>(count);
    const auto expected = result_of(*cpu_, n, op);
    const auto got = result_of(*tested_, n, op);
    const auto same = [](const auto& a, const auto& b) {
      return std::memcmp(&a, &b, sizeof(a)) == 0 || (is_nan(a) && is_nan(b));
    };
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), got.begin(), got.end(), same));
  }

  static bool is_nan(float value) { return std::isnan(value); }
  static bool is_nan(uint16_t half) { return (half & 0x7FFFU) > 0x7C00U; }

  ThreadPool pool_{1};
  std::unique_ptr<Kernels> cpu_;
  std::unique_ptr<Kernels> tested_;
};
inline std::vector<float> nothing(int64_t count) {
  return std::vector<float>(static_cast<size_t>(count), -1.0F);
}

}  // namespace assay::testing_support
