#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/kernels/support.h"

namespace assay {
namespace {

using kernel_testing::kExactSets;
using kernel_testing::Random;
using kernel_testing::same_bits;
using kernel_testing::TestKernels;

constexpr StreamStep kSteps[] = {StreamStep::kFirst,   StreamStep::kJoin,   StreamStep::kPredict,
                                 StreamStep::kCorrect, StreamStep::kSpread, StreamStep::kMerge};

class StreamsTest : public kernel_testing::EachInstructionSet {};
INSTANTIATE_TEST_SUITE_P(Sets, StreamsTest, testing::ValuesIn(kExactSets),
                         kernel_testing::instruction_set_name);

// What a call reads of `n_tokens` tokens.
struct Streams {
  int64_t n_tokens;
  int64_t n;
  int64_t width;
  std::vector<float> x = Random(1).floats(n_tokens * n * width);
  std::vector<float> y = Random(2).floats(n_tokens * n * width, 3.0F);
  std::vector<float> coefs = Random(3).floats(n_tokens * n * n);
  std::vector<float> weight = Random(4).floats(width);

  std::vector<float> run(Kernels& kernels, StreamStep step) const {
    StreamsCall call{step, x.data(), y.data(), coefs.data(), weight.data(), n_tokens, n, width};
    std::vector<float> out(static_cast<size_t>(n_tokens * call.n_out() * width), NAN);
    call.out = out.data();
    kernels.run(call);
    return out;
  }
};

// Two streams of two elements, two tokens: breaks if a stream, a token or a coefficient were
// another's.
TEST_P(StreamsTest, StepsByHand) {
  Streams streams{2, 2, 2};
  streams.x = {1, 2, 3, 4, 10, 20, 30, 40};
  streams.y = {5, 6, 50, 60};
  streams.coefs = {1, 2, 3, 4, 0, 0, 0, 1};
  streams.weight = {2, 3};
  const auto expect = [&](Kernels& kernels) {
    const auto run = [&](StreamStep step) { return streams.run(kernels, step); };
    EXPECT_EQ(run(StreamStep::kFirst), (std::vector<float>{2, 6, 20, 60}));
    EXPECT_EQ(run(StreamStep::kPredict),
              (std::vector<float>{1 + 1 + 6, 2 + 2 + 8, 3 + 3 + 12, 4 + 6 + 16, 10, 20, 60, 80}));
    EXPECT_EQ(run(StreamStep::kSpread), (std::vector<float>{1, 2, 8, 10, 10, 20, 80, 100}));
    EXPECT_EQ(run(StreamStep::kCorrect),
              (std::vector<float>{1 + 4 * 2, 2 + 4 * 2, 3 + 4 * 3, 4 + 4 * 3, 10 + 40 * 4,
                                  20 + 40 * 4, 30 + 40 * 5, 40 + 40 * 5}));
    Streams joined{1, 2, 2};
    joined.x = {7, 1};  // whose mean square is 25
    joined.y = {3, 4};  // and 12.5
    const std::vector<float> rows = joined.run(kernels, StreamStep::kJoin);
    EXPECT_EQ(rows[0], 7.0F);
    EXPECT_EQ(rows[1], 1.0F);
    EXPECT_FLOAT_EQ(rows[2], 3.0F * std::sqrt(2.0F));
    EXPECT_FLOAT_EQ(rows[3], 4.0F * std::sqrt(2.0F));
    joined.x = {7, 1, 100, 100};
    const std::vector<float> merged = joined.run(kernels, StreamStep::kMerge);
    EXPECT_FLOAT_EQ(merged[0], (7.0F + 3.0F * std::sqrt(2.0F)) / 2.0F);
    EXPECT_FLOAT_EQ(merged[1], (1.0F + 4.0F * std::sqrt(2.0F)) / 2.0F);
  };
  expect(*TestKernels(GetParam()).operator->());
  expect(*make_reference_kernels());
}

// Breaks if a stream of zeros were divided by 0.
TEST_P(StreamsTest, AStreamOfZerosStaysOne) {
  Streams streams{1, 2, 3};
  std::ranges::fill(streams.y, 0.0F);
  const TestKernels kernels(GetParam());
  const std::vector<float> joined = streams.run(*kernels.operator->(), StreamStep::kJoin);
  for (size_t i = 3; i < 6; ++i) EXPECT_EQ(joined[i], 0.0F);
}

// Breaks if a NaN of one token or stream were lost.
TEST_P(StreamsTest, NanStaysNan) {
  const TestKernels kernels(GetParam());
  for (const StreamStep step : kSteps) {
    Streams streams{2, 3, 5};
    streams.x[0] = NAN;
    const std::vector<float> out = streams.run(*kernels.operator->(), step);
    EXPECT_TRUE(std::isnan(out[0])) << static_cast<int>(step);
    EXPECT_FALSE(std::isnan(out.back())) << static_cast<int>(step);
  }
}

TEST_P(StreamsTest, AgreesWithTheNaiveForm) {
  const auto reference = make_reference_kernels();
  for (const int64_t width : {1, 15, 64, 513, 1300}) {
    for (const int64_t n : {2, 4, 7}) {
      for (const int64_t n_tokens : {1, 9}) {
        const Streams streams{n_tokens, n, width};
        for (const StreamStep step : kSteps) {
          const std::vector<float> want = streams.run(*reference, step);
          std::vector<float> first;
          for (const int n_threads : {1, 3}) {
            const TestKernels kernels(GetParam(), n_threads);
            const std::vector<float> got = streams.run(*kernels.operator->(), step);
            if (first.empty()) first = got;
            EXPECT_TRUE(same_bits(got, first));
            for (size_t i = 0; i < want.size(); ++i) {
              ASSERT_NEAR(got[i], want[i], 2e-7 * (1.0 + std::abs(want[i])))
                  << static_cast<int>(step) << " " << width;
            }
          }
        }
      }
    }
  }
}

std::vector<float> cut(Kernels& kernels, const std::vector<float>& x, float factor,
                       int64_t n_tokens) {
  std::vector<float> out(x.size(), NAN);
  const auto width = static_cast<int64_t>(x.size()) / n_tokens;
  kernels.run(CutoffCall{x.data(), factor, n_tokens, width, out.data()});
  return out;
}

// The mean is 4, and the deviation, of all five, 2. Breaks if it were that of a sample, or if what
// passes kept its value.
TEST_P(StreamsTest, CutoffByHand) {
  const std::vector<float> x = {2, 2, 4, 6, 6, 100, 100, 100, 100, 100};
  const double deviation = std::sqrt(16.0 / 5.0);
  const auto expect = [&](Kernels& kernels) {
    const std::vector<float> half = cut(kernels, x, 0.5F, 2);
    const auto above = static_cast<float>(2.0 - 0.5 * deviation);
    EXPECT_EQ(half, (std::vector<float>{0, 0, 0, above, above, 0, 0, 0, 0, 0}));
    const std::vector<float> below = cut(kernels, x, -0.5F, 2);
    EXPECT_FLOAT_EQ(below[2], static_cast<float>(0.5 * deviation));
    EXPECT_EQ(below[0], 0.0F);
  };
  expect(*TestKernels(GetParam()).operator->());
  expect(*make_reference_kernels());
}

TEST_P(StreamsTest, CutoffAgreesWithTheNaiveForm) {
  const auto reference = make_reference_kernels();
  for (const int64_t width : {1, 15, 16, 64, 513, 1300}) {
    const std::vector<float> x = Random(5).floats(3 * width);
    const std::vector<float> want = cut(*reference, x, 0.8F, 3);
    std::vector<float> portable;
    {
      const TestKernels kernels(InstructionSet::kPortable);
      portable = cut(*kernels.operator->(), x, 0.8F, 3);
    }
    const TestKernels kernels(GetParam(), 3);
    const std::vector<float> got = cut(*kernels.operator->(), x, 0.8F, 3);
    EXPECT_TRUE(same_bits(got, portable));
    for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-7) << width;
    std::vector<float> spoilt = x;
    spoilt[0] = NAN;
    const std::vector<float> nan = cut(*kernels.operator->(), spoilt, 0.8F, 3);
    EXPECT_TRUE(std::isnan(nan[0]));
    EXPECT_FALSE(std::isnan(nan.back()));
  }
}

}  // namespace
}  // namespace assay
