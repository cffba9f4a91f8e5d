#include <gtest/gtest.h>

#include <vector>

#include "tests/kernels/support.h"

namespace assay {
namespace {

using kernel_testing::kExactSets;
using kernel_testing::Random;
using kernel_testing::relative_l2;
using kernel_testing::same_bits;
using kernel_testing::TestKernels;

class NormsTest : public kernel_testing::EachInstructionSet {};
INSTANTIATE_TEST_SUITE_P(Sets, NormsTest, testing::ValuesIn(kExactSets),
                         kernel_testing::instruction_set_name);

enum class Norm { kRms, kLayer, kLayerWithoutBias };

std::vector<float> normalize(Kernels& kernels, Norm norm, const std::vector<float>& x,
                             int64_t width, int64_t first, int64_t n_tokens) {
  const std::vector<float> weight = Random(7).floats(width);
  const std::vector<float> bias = Random(8).floats(width);
  std::vector<float> out(static_cast<size_t>(n_tokens * width), NAN);
  const float* tokens = x.data() + first * width;
  if (norm == Norm::kRms) {
    kernels.run(NormCall{NormKind::kRms, tokens, weight.data(), nullptr, 1e-5F, n_tokens, width,
                         out.data()});
  } else {
    kernels.run(NormCall{NormKind::kLayer, tokens, weight.data(),
                         norm == Norm::kLayer ? bias.data() : nullptr, 1e-5F, n_tokens, width,
                         out.data()});
  }
  return out;
}

TEST_P(NormsTest, AreTheReferenceAndThePortablePath) {
  const TestKernels kernels(GetParam(), 2);
  const TestKernels portable(InstructionSet::kPortable);
  const auto reference = make_reference_kernels();
  for (const Norm norm : {Norm::kRms, Norm::kLayer, Norm::kLayerWithoutBias}) {
    for (const int64_t width : {1, 5, 16, 31, 576, 1000, 8193}) {
      if (width == 1 && norm != Norm::kRms) continue;  // x - mean is zero: nothing to compare
      const int64_t n_tokens = 5;
      std::vector<float> x = Random(1).floats(n_tokens * width);
      for (float& v : x) v += 0.5F;
      const auto got = normalize(*kernels.operator->(), norm, x, width, 0, n_tokens);
      const auto want = normalize(*reference, norm, x, width, 0, n_tokens);
      const double error = relative_l2(want, got);
      EXPECT_TRUE(error <= 1e-9) << "width " << width << ": " << error;
      EXPECT_TRUE(same_bits(got, normalize(*portable.operator->(), norm, x, width, 0, n_tokens)))
          << width;
    }
  }
}

TEST_P(NormsTest, HaveTheSameBitsForAllThreadsAndBatches) {
  const int64_t width = 1000;
  const int64_t n_tokens = 20;
  const std::vector<float> x = Random(1).floats(n_tokens * width);
  const TestKernels one(GetParam());
  for (const Norm norm : {Norm::kRms, Norm::kLayer}) {
    const auto expected = normalize(*one.operator->(), norm, x, width, 0, n_tokens);
    for (const int n_threads : {2, 4}) {
      const TestKernels many(GetParam(), n_threads);
      EXPECT_TRUE(same_bits(normalize(*many.operator->(), norm, x, width, 0, n_tokens), expected));
    }
    std::vector<float> one_by_one;
    for (int64_t t = 0; t < n_tokens; ++t) {
      const auto token = normalize(*one.operator->(), norm, x, width, t, 1);
      one_by_one.insert(one_by_one.end(), token.begin(), token.end());
    }
    EXPECT_TRUE(same_bits(one_by_one, expected));
  }
}

// Breaks if a row began where the part of the one before ends.
TEST_P(NormsTest, MayBeOfTheFirstPartOfEachRow) {
  const TestKernels kernels(GetParam(), 2);
  const std::vector<float> x = Random(1).floats(int64_t{40} * 48);
  std::vector<float> part;
  for (auto row = x.begin(); row != x.end(); row += 48) part.insert(part.end(), row, row + 33);
  const std::vector<float> weight = Random(2).floats(33);
  for (const NormKind kind : {NormKind::kRms, NormKind::kLayer}) {
    std::vector<float> got(part.size(), NAN);
    std::vector<float> want(part.size(), NAN);
    NormCall call{kind, part.data(), weight.data(), nullptr, 1e-5F, 40, 33, want.data()};
    kernels->run(call);
    call.x = x.data();
    call.x_width = 48;
    call.out = got.data();
    kernels->run(call);
    EXPECT_TRUE(same_bits(got, want));
    make_reference_kernels()->run(call);
    EXPECT_TRUE(relative_l2(want, got) <= 1e-9);
  }
}

// Breaks if the heads' weights were shared, or counted from the call's first row of a thread.
TEST_P(NormsTest, HeadsMayHaveWeightsOfTheirOwn) {
  const int64_t width = 33;
  const int64_t n_rows = 900;  // enough for several threads
  const int64_t n_weights = 3;
  const std::vector<float> x = Random(1).floats(n_rows * width);
  const std::vector<float> weights = Random(7).floats(n_weights * width);
  const TestKernels kernels(GetParam(), 3);
  const auto reference = make_reference_kernels();
  for (const NormKind kind : {NormKind::kRms, NormKind::kLayer}) {
    std::vector<float> got(x.size());
    std::vector<float> want(x.size());
    std::vector<float> row(x.size());
    const NormCall call{kind,   x.data(), weights.data(), nullptr, 1e-5F,
                        n_rows, width,    got.data(),     {},      n_weights};
    kernels->run(call);
    for (int64_t r = 0; r < n_rows; ++r) {
      NormCall one = call;
      one.x += r * width;
      one.weight += r % n_weights * width;
      one.n_tokens = one.n_weights = 1;
      one.out = row.data() + r * width;
      kernels->run(one);
    }
    EXPECT_TRUE(same_bits(got, row));
    NormCall all = call;
    all.out = want.data();
    reference->run(all);
    EXPECT_TRUE(relative_l2(want, got) <= 1e-9);
  }
}

TEST_P(NormsTest, WorkInPlaceAndKeepNan) {
  const TestKernels kernels(GetParam());
  std::vector<float> x = Random(1).floats(int64_t{2} * 40);
  const std::vector<float> weight(40, 1.0F);
  const auto rms = [&](const std::vector<float>& in, std::vector<float>& out) {
    kernels->run(
        NormCall{NormKind::kRms, in.data(), weight.data(), nullptr, 1e-5F, 2, 40, out.data()});
  };
  std::vector<float> want(x.size());
  rms(x, want);
  std::vector<float> in_place = x;
  rms(in_place, in_place);
  EXPECT_TRUE(same_bits(in_place, want));
  x[3] = NAN;
  rms(x, want);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(std::isnan(want[i]), i < 40) << i;
}

}  // namespace
}  // namespace assay
