#include <gtest/gtest.h>

#include <vector>

#include "kernels/cpu/functions.h"
#include "tests/kernels/support.h"

namespace assay {
namespace {

using kernel_testing::kExactSets;
using kernel_testing::Random;
using kernel_testing::relative_l2;
using kernel_testing::same_bits;
using kernel_testing::TestKernels;

class ElementwiseTest : public kernel_testing::EachInstructionSet {};
INSTANTIATE_TEST_SUITE_P(Sets, ElementwiseTest, testing::ValuesIn(kExactSets),
                         kernel_testing::instruction_set_name);

constexpr int64_t kCounts[] = {1, 15, 16, 17, 1000, 40001};

// Applies `op` with the kernels under test, the reference and the portable path.
template <class Op>
void expect_close_and_portable(InstructionSet set, int64_t count, double tolerance, Op op) {
  const TestKernels kernels(set, 2);
  const TestKernels portable(InstructionSet::kPortable);
  const auto reference = make_reference_kernels();
  std::vector<float> got(static_cast<size_t>(count), NAN);
  std::vector<float> want = got;
  std::vector<float> same = got;
  op(*kernels.operator->(), got.data());
  op(*reference, want.data());
  op(*portable.operator->(), same.data());
  EXPECT_TRUE(same_bits(got, same)) << count;
  const double error = relative_l2(want, got);
  EXPECT_TRUE(error <= tolerance) << count << " elements: " << error;
}

constexpr ActivationKind kKinds[] = {
    ActivationKind::kSilu,    ActivationKind::kGeluTanh,    ActivationKind::kGelu,
    ActivationKind::kRelu,    ActivationKind::kReluSquared, ActivationKind::kClampedSwiglu,
    ActivationKind::kXielu,   ActivationKind::kSigmoid,     ActivationKind::kTanh,
    ActivationKind::kSoftCap, ActivationKind::kClip};
constexpr Xielu kXielu = {.alpha_p = 0.7F, .alpha_n = 1.3F, .beta = 0.45F, .eps = -0.01F};

TEST_P(ElementwiseTest, Activations) {
  for (const ActivationKind kind : kKinds) {
    for (const int64_t n : kCounts) {
      SCOPED_TRACE(static_cast<int>(kind));
      for (const float size : {0.1F, 6.0F, 20.0F}) {
        const std::vector<float> x = Random(1).floats(n, size);
        const std::vector<float> up = Random(2).floats(n, 9.0F);
        for (const float* factor : {static_cast<const float*>(nullptr), up.data()}) {
          expect_close_and_portable(GetParam(), n, 3e-7, [&](Kernels& kernels, float* out) {
            kernels.run(ActivateCall{kind, x.data(), factor, n, out, {}, 3.0F, kXielu});
          });
        }
      }
    }
  }
}

// Breaks if digits were lost near 0, where e^x - 1 - x is the difference of nearly equal numbers,
// or at a border of the two branches, of eps and of the polynomial.
TEST_P(ElementwiseTest, XieluKeepsTheDigitsOfEachElement) {
  std::vector<float> x = {0.0F, -0.0F};
  for (int i = -3000; i <= 3000; ++i) x.push_back(0.01F * static_cast<float>(i));
  for (float small = 0.5F; small > 1e-30F; small *= 0.37F) {
    for (const float sign : {-1.0F, 1.0F}) x.push_back(sign * small);
  }
  const TestKernels kernels(GetParam());
  const auto reference = make_reference_kernels();
  for (const Xielu& numbers :
       {kXielu, Xielu{0.8F, 0.8F, 0.5F, -1e-6F}, Xielu{0.3F, 0.6F, 0.5F, 0.0F}}) {
    const auto n = static_cast<int64_t>(x.size());
    std::vector<float> got(x.size());
    std::vector<float> want(x.size());
    const auto run = [&](Kernels& on, std::vector<float>& out) {
      on.run(
          ActivateCall{ActivationKind::kXielu, x.data(), nullptr, n, out.data(), {}, 0, numbers});
    };
    run(*kernels.operator->(), got);
    run(*reference, want);
    for (size_t i = 0; i < x.size(); ++i) {
      // Where the branch below 0 crosses 0 its two terms cancel.
      const float terms = std::abs(numbers.beta * x[i]) + std::abs(want[i]);
      EXPECT_TRUE(std::abs(got[i] - want[i]) <= 4e-7F * terms) << x[i] << ": " << got[i];
    }
  }
}

TEST_P(ElementwiseTest, Add) {
  for (const int64_t n : kCounts) {
    const std::vector<float> a = Random(1).floats(n);
    const std::vector<float> b = Random(2).floats(n);
    expect_close_and_portable(GetParam(), n, 0.0, [&](Kernels& kernels, float* out) {
      kernels.run(AddCall{a.data(), b.data(), n, out});
    });
    expect_close_and_portable(GetParam(), n, 0.0, [&](Kernels& kernels, float* out) {
      kernels.run(AddCall{a.data(), b.data(), n, out, {}, 0.3F});
    });
    expect_close_and_portable(GetParam(), n, 0.0, [&](Kernels& kernels, float* out) {
      kernels.run(AddCall{nullptr, b.data(), n, out, {}, 0.3F});
    });
  }
}

// The engine works in place; an input read after its output was written would be wrong.
TEST_P(ElementwiseTest, OutMayBeAnInput) {
  const TestKernels kernels(GetParam());
  const std::vector<float> a = Random(1).floats(37);
  const std::vector<float> b = Random(2).floats(37);
  std::vector<float> want(37);
  kernels->run(ActivateCall{ActivationKind::kSilu, a.data(), b.data(), 37, want.data()});
  std::vector<float> in_place = a;
  kernels->run(ActivateCall{ActivationKind::kSilu, in_place.data(), b.data(), 37, in_place.data()});
  EXPECT_TRUE(same_bits(in_place, want));
  in_place = b;
  kernels->run(ActivateCall{ActivationKind::kSilu, a.data(), in_place.data(), 37, in_place.data()});
  EXPECT_TRUE(same_bits(in_place, want));
}

TEST_P(ElementwiseTest, LimitsOfActivations) {
  const TestKernels kernels(GetParam());
  const std::vector<float> x = {-1e30F, -200.0F, 0.0F, 200.0F, 1e30F, INFINITY, NAN};
  const auto n = static_cast<int64_t>(x.size());
  for (const ActivationKind kind : kKinds) {
    std::vector<float> out(x.size());
    kernels->run(ActivateCall{kind, x.data(), nullptr, n, out.data(), {}, 3.0F, kXielu});
    EXPECT_TRUE(std::isnan(out[6]));
    if (kind == ActivationKind::kSoftCap || kind == ActivationKind::kClip) {
      for (size_t i = 0; i < 6; ++i) EXPECT_FLOAT_EQ(out[i], i < 2 ? -3.0F : i == 2 ? 0.0F : 3.0F);
      continue;
    }
    if (kind == ActivationKind::kTanh) {
      for (size_t i = 0; i < 6; ++i) EXPECT_FLOAT_EQ(out[i], i < 2 ? -1.0F : i == 2 ? 0.0F : 1.0F);
      continue;
    }
    if (kind == ActivationKind::kXielu) {
      EXPECT_FLOAT_EQ(out[0], (kXielu.beta - kXielu.alpha_n) * -1e30F);
      EXPECT_FLOAT_EQ(out[2], kXielu.alpha_n * std::expm1(kXielu.eps));
      EXPECT_FLOAT_EQ(out[3], 200.0F * (kXielu.alpha_p * 200.0F + kXielu.beta));
      continue;
    }
    if (kind == ActivationKind::kSigmoid) {
      const std::vector<float> want = {0.0F, 0.0F, 0.5F, 1.0F, 1.0F, 1.0F};
      for (size_t i = 0; i < 6; ++i) EXPECT_FLOAT_EQ(out[i], want[i]) << x[i];
      continue;
    }
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(out[i], 0.0F) << x[i];
    for (size_t i = 3; i < 6; ++i) {
      const float square = x[i] * x[i];
      EXPECT_EQ(out[i], kind == ActivationKind::kReluSquared     ? square
                        : kind == ActivationKind::kClampedSwiglu ? out[3]
                                                                 : x[i]);
    }
  }
}

TEST_P(ElementwiseTest, StoreKvRoundsToNearest) {
  const TestKernels kernels(GetParam());
  for (const int64_t n : kCounts) {
    std::vector<float> x = Random(1).floats(n, 3.0F);
    x[0] = 1e-7F;  // a subnormal half
    std::vector<uint16_t> halves(x.size());
    kernels->run(StoreKvCall{x.data(), KvType::kF16, n, halves.data()});
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(halves[i], f16_from_float(x[i]));
    std::vector<float> floats(x.size());
    kernels->run(StoreKvCall{x.data(), KvType::kF32, n, floats.data()});
    EXPECT_TRUE(same_bits(floats, x));
  }
}

// Softmax and the activations stand on exp. Its table is not part of kernels.h.
void exp_of(InstructionSet set, const std::vector<float>& x, std::vector<float>& out) {
  out.resize(x.size());
  const auto n = static_cast<int64_t>(x.size());
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) return avx512::functions().exp(x.data(), n, out.data());
  if (set == InstructionSet::kAvx2) return avx2::functions().exp(x.data(), n, out.data());
#endif
  portable::functions().exp(x.data(), n, out.data());
}

TEST_P(ElementwiseTest, ExpIsWithinOneUlp) {
  std::vector<float> x;
  x.resize(264700);
  for (size_t i = 0; i < x.size(); ++i) x[i] = -104.5F + 0.000731F * static_cast<float>(i);
  std::vector<float> got;
  std::vector<float> portable;
  exp_of(GetParam(), x, got);
  exp_of(InstructionSet::kPortable, x, portable);
  EXPECT_TRUE(same_bits(got, portable));
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = std::exp(static_cast<double>(x[i]));
    if (want >= 0x1.fffffep127) continue;
    const auto nearest = static_cast<float>(want);
    const double ulp = std::nextafter(nearest, INFINITY) - static_cast<double>(nearest);
    ASSERT_TRUE(std::fabs(got[i] - want) <= ulp) << got[i] << " is not exp(" << x[i] << ")";
  }
}

TEST_P(ElementwiseTest, ExpAtItsLimits) {
  std::vector<float> got;
  exp_of(GetParam(), {-INFINITY, -1e30F, -104.0F, 0.0F, 88.73F, 1e30F, INFINITY, NAN}, got);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(got[i], 0.0F) << i;
  EXPECT_EQ(got[3], 1.0F);
  for (size_t i = 4; i < 7; ++i) EXPECT_EQ(got[i], INFINITY) << i;
  EXPECT_TRUE(std::isnan(got[7]));
}

}  // namespace
}  // namespace assay
