#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/half.h"
#include "kernels/reference/reference.h"
#include "tests/kernels/support.h"

namespace assay {
namespace {

using kernel_testing::kExactSets;
using kernel_testing::Random;
using kernel_testing::relative_l2;
using kernel_testing::same_bits;
using kernel_testing::TestKernels;

class AttentionTest : public kernel_testing::EachInstructionSet {};
INSTANTIATE_TEST_SUITE_P(Sets, AttentionTest, testing::ValuesIn(kExactSets),
                         kernel_testing::instruction_set_name);

// Queries of all positions, and the keys and values of the same.
struct Case {
  int64_t n_heads;
  int64_t n_kv_heads;
  int64_t head_dim;
  int64_t window;
  int64_t n_positions;
  KvType type;
  float soft_cap = 0.0F;
  bool sinks = false;
  int64_t own_value_dim = 0;
  float temperature = 0.0F;
  int64_t temperature_span = 0;
  int64_t temperature_offset = 0;
  bool chunked = false;
  AlibiSlopes alibi = {};
};

const Case kCases[] = {
    {1, 1, 1, 0, 1, KvType::kF32},
    {3, 1, 5, 0, 7, KvType::kF32},
    {4, 2, 17, 0, 21, KvType::kF16},
    {9, 3, 64, 0, 40, KvType::kF32},
    {8, 2, 80, 6, 33, KvType::kF16},
    {2, 2, 96, 1, 9, KvType::kF32},
    {2, 1, 33, 20, 70, KvType::kF32},
    {1, 1, 16, 0, 600, KvType::kF32},
    {4, 2, 32, 0, 30, KvType::kF32, 2.0F},
    {6, 2, 32, 5, 30, KvType::kF16, 0.0F, true},
    {2, 2, 16, 0, 300, KvType::kF32, 1.5F, true},
    {4, 4, 48, 0, 40, KvType::kF32, 0.0F, false, 24},
    {4, 2, 24, 6, 300, KvType::kF16, 0.0F, true, 67},
    {4, 2, 24, 0, 40, KvType::kF32, 0.0F, false, 0, 0.75F, 7},
    {3, 1, 20, 9, 300, KvType::kF16, 1.5F, true, 0, 0.5F, 100},
    {4, 2, 24, 7, 40, KvType::kF32, 0.0F, false, 0, 0.75F, 6, 1, true},
    {2, 1, 33, 20, 290, KvType::kF16, 0.0F, false, 0, 0.0F, 0, 0, true},
    {6, 2, 16, 0, 40, KvType::kF32, 0.0F, false, 0, 0.0F, 0, 0, false, AlibiSlopes::of(8, 6)},
    {4, 4, 20, 11, 300, KvType::kF16, 2.0F, true, 0, 0.0F, 0, 0, true, AlibiSlopes::of(8, 4)},
};

struct Inputs {
  explicit Inputs(const Case& c)
      : shape{c.n_heads,          c.n_kv_heads,         c.head_dim,      0.3F,
              c.window,           c.soft_cap,           c.own_value_dim, c.temperature,
              c.temperature_span, c.temperature_offset, c.chunked,       c.alibi},
        type(c.type),
        n_positions(c.n_positions),
        q(Random(1).floats(c.n_positions * c.n_heads * c.head_dim, 3.0F)),
        k(store(Random(2).floats(c.n_positions * c.n_kv_heads * c.head_dim, 2.0F))),
        v(store(Random(3).floats(c.n_positions * c.n_kv_heads * shape.value_dim()))) {
    if (c.sinks) sinks = Random(4).floats(c.n_heads, 2.0F);
  }

  // Exactly as many bytes as there are elements: the sanitizers notice a read beyond them.
  std::vector<uint8_t> store(const std::vector<float>& x) const {
    std::vector<uint8_t> bytes(x.size() * kv_element_bytes(type));
    make_reference_kernels()->run(
        StoreKvCall{x.data(), type, static_cast<int64_t>(x.size()), bytes.data()});
    return bytes;
  }

  std::vector<float> attend(Kernels& kernels, int64_t batch) const {
    const int64_t q_width = shape.n_heads * shape.head_dim;
    const int64_t width = shape.n_heads * shape.value_dim();
    std::vector<float> out(static_cast<size_t>(n_positions * width), NAN);
    for (int64_t first = 0; first < n_positions; first += batch) {
      kernels.run(AttentionCall{q.data() + first * q_width,
                                {type, k.data(), v.data()},
                                shape,
                                first,
                                std::min(batch, n_positions - first),
                                out.data() + first * width,
                                {},
                                sinks.empty() ? nullptr : sinks.data()});
    }
    return out;
  }

  AttentionShape shape;
  KvType type;
  int64_t n_positions;
  std::vector<float> q;
  std::vector<uint8_t> k;
  std::vector<uint8_t> v;
  std::vector<float> sinks;
};

// In exact math what is left of the reference is e^x in float, and one rounding.
TEST_P(AttentionTest, IsTheReferenceAndThePortablePath) {
  for (const Math math : {Math::kExact, Math::kFast}) {
    const TestKernels kernels(GetParam(), 2, math);
    const TestKernels portable(InstructionSet::kPortable, 1, math);
    for (const Case& c : kCases) {
      const Inputs inputs(c);
      const auto got = inputs.attend(*kernels.operator->(), c.n_positions);
      const auto want = inputs.attend(*make_reference_kernels(), c.n_positions);
      const double error = relative_l2(want, got);
      EXPECT_TRUE(error <= (math == Math::kExact ? 1e-7 : 6e-7))
          << "head_dim " << c.head_dim << ": " << error;
      EXPECT_TRUE(same_bits(got, inputs.attend(*portable.operator->(), c.n_positions)))
          << "head_dim " << c.head_dim;
    }
  }
}

// Results would depend on --threads, --batch, and on whether a token was prefilled or decoded.
TEST_P(AttentionTest, HasTheSameBitsForAllThreadsAndBatches) {
  for (const Case& c : kCases) {
    const Inputs inputs(c);
    const TestKernels one(GetParam());
    const auto expected = inputs.attend(*one.operator->(), c.n_positions);
    for (const int n_threads : {1, 2, 4}) {
      const TestKernels many(GetParam(), n_threads);
      for (const int64_t batch : {1, 3, 13, 1000}) {
        EXPECT_TRUE(same_bits(inputs.attend(*many.operator->(), batch), expected))
            << "head_dim " << c.head_dim << ", " << n_threads << " threads, batches of " << batch;
      }
    }
  }
}

// A key of the future, or one that slid out of the window, must not be read at all: what is there
// may be NaN, and 0 * NaN is NaN.
TEST_P(AttentionTest, SeesNoKeyBeyondItsOwn) {
  const TestKernels kernels(GetParam());
  Inputs inputs({2, 1, 32, 4, 12, KvType::kF32});
  const float nan = NAN;
  for (size_t d = 0; d < 32; ++d) {
    std::memcpy(inputs.k.data() + (size_t{5} * 32 + d) * sizeof(nan), &nan, sizeof(nan));
    std::memcpy(inputs.v.data() + (size_t{5} * 32 + d) * sizeof(nan), &nan, sizeof(nan));
  }
  const auto out = inputs.attend(*kernels.operator->(), 12);
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t position = i / 64;
    EXPECT_EQ(std::isnan(out[i]), position >= 5 && position < 9) << position;
  }
}

// Breaks if a sink were taken for a key, or added where it is the greatest score.
TEST_P(AttentionTest, ASinkTakesItsShareOfTheWeights) {
  const TestKernels kernels(GetParam());
  Inputs inputs({1, 1, 16, 0, 1, KvType::kF32});
  inputs.shape.scale = 0.0F;  // one key with a score of 0
  const auto without = inputs.attend(*kernels.operator->(), 1);
  for (const double sink : {-3.0, 0.0, 60.0}) {
    inputs.sinks = {static_cast<float>(sink)};
    const auto with = inputs.attend(*kernels.operator->(), 1);
    for (size_t i = 0; i < with.size(); ++i) {
      EXPECT_FLOAT_EQ(with[i], static_cast<float>(without[i] / (1.0 + std::exp(sink)))) << sink;
    }
  }
}

// Scores far apart: e^x must neither overflow nor lose the greatest.
TEST_P(AttentionTest, PicksTheGreatestOfHugeScores) {
  const TestKernels kernels(GetParam());
  Inputs inputs({1, 1, 16, 0, 3, KvType::kF32});
  inputs.shape.scale = 1000.0F;
  const auto got = inputs.attend(*kernels.operator->(), 3);
  EXPECT_TRUE(relative_l2(inputs.attend(*make_reference_kernels(), 3), got) <= 1e-6);
}

template <class Number>
Number stored(const std::vector<uint8_t>& cache, int64_t at) {
  Number number;
  std::memcpy(&number, cache.data() + static_cast<size_t>(at) * sizeof(number), sizeof(number));
  return number;
}

// Attention as its formula stands, one product after the other.
std::vector<float> attend_plainly(const Inputs& inputs,
                                  const reference::AttentionVariant& variant) {
  const AttentionShape& shape = inputs.shape;
  const auto value_at = [&](const std::vector<uint8_t>& cache, int64_t at) {
    if (inputs.type == KvType::kF32) return stored<float>(cache, at);
    return float_from_f16(stored<uint16_t>(cache, at));
  };
  std::vector<float> out;
  for (int64_t t = 0; t < inputs.n_positions; ++t) {
    for (int64_t h = 0; h < shape.n_heads; ++h) {
      const int64_t kv = h / (shape.n_heads / shape.n_kv_heads);
      const float* q = inputs.q.data() + (t * shape.n_heads + h) * shape.head_dim;
      const int64_t slid = std::max<int64_t>(0, t + 1 - shape.window);
      const int64_t first = shape.window == 0 ? 0
                            : shape.chunked   ? t / shape.window * shape.window
                                              : slid;
      std::vector<double> weights;
      for (int64_t key = first; key <= t; ++key) {
        const int64_t row = variant.k_row ? variant.k_row(key) : key;
        double score = 0.0;
        for (int64_t d = 0; d < shape.head_dim && row >= 0; ++d) {
          const int64_t at = (row * shape.n_kv_heads + kv) * shape.head_dim + d;
          score += static_cast<double>(q[d]) * value_at(inputs.k, at);
        }
        score *= shape.scale_at(t);
        if (shape.soft_cap > 0.0F) score = shape.soft_cap * std::tanh(score / shape.soft_cap);
        if (shape.alibi.n_first > 0) {
          score += shape.alibi.of_head(h) * static_cast<double>(key - t);
        }
        weights.push_back(score);
      }
      if (!inputs.sinks.empty()) weights.push_back(inputs.sinks[static_cast<size_t>(h)]);
      const double max = *std::ranges::max_element(weights);
      double sum = 0.0;
      for (double& weight : weights) sum += weight = std::exp(weight - max);
      for (int64_t d = 0; d < shape.value_dim(); ++d) {
        double value = 0.0;
        for (int64_t key = first; key <= t; ++key) {
          const int64_t row = variant.v_row ? variant.v_row(key) : key;
          if (row < 0) continue;
          value += weights[static_cast<size_t>(key - first)] *
                   value_at(inputs.v, (row * shape.n_kv_heads + kv) * shape.value_dim() + d);
        }
        out.push_back(static_cast<float>(value / sum));
      }
    }
  }
  return out;
}

// Breaks if the sums that the reference makes side by side were made in another order.
TEST(ReferenceAttention, HasTheBitsOfPlainLoops) {
  for (const Case& c : kCases) {
    const Inputs inputs(c);
    const std::vector<float> want = attend_plainly(inputs, {});
    for (const int64_t batch : {int64_t{1}, int64_t{5}, c.n_positions}) {
      EXPECT_TRUE(same_bits(inputs.attend(*make_reference_kernels(), batch), want))
          << "head_dim " << c.head_dim << ", batches of " << batch;
    }
  }
}

// Breaks if the scale grew with the position itself, by another logarithm, or in the first span.
TEST(AttentionShape, ScoresAreScaledByTheSpanOfTheirQuery) {
  const AttentionShape plain{.scale = 0.25F};
  EXPECT_EQ(plain.scale_at(1000), 0.25F);
  const AttentionShape shape{.scale = 0.25F, .temperature = 0.5F, .temperature_span = 10};
  EXPECT_EQ(shape.scale_at(0), 0.25F);
  EXPECT_EQ(shape.scale_at(9), 0.25F);
  EXPECT_EQ(shape.scale_at(10), static_cast<float>(0.25 * (1.0 + 0.5 * std::log(2.0))));
  EXPECT_EQ(shape.scale_at(39), static_cast<float>(0.25 * (1.0 + 0.5 * std::log(4.0))));
  EXPECT_EQ(shape.positions_of_scale(10), 10);
  EXPECT_EQ(shape.positions_of_scale(39), 1);
  const AttentionShape from_one{
      .scale = 0.25F, .temperature = 0.5F, .temperature_span = 10, .temperature_offset = 1};
  EXPECT_EQ(from_one.scale_at(8), 0.25F);
  EXPECT_EQ(from_one.scale_at(9), shape.scale_at(10));
  EXPECT_EQ(from_one.positions_of_scale(8), 1);
  EXPECT_EQ(from_one.positions_of_scale(9), 10);
}

// Breaks if a chunk began elsewhere, or a window slid where it is one of chunks.
TEST(AttentionShape, ChunksBeginAtMultiplesOfTheirLength) {
  const AttentionShape sliding{.window = 4};
  const AttentionShape chunked{.window = 4, .chunked = true};
  const int64_t slid[] = {0, 0, 0, 0, 1, 2, 3, 4, 5};
  const int64_t first[] = {0, 0, 0, 0, 4, 4, 4, 4, 8};
  for (int64_t position = 0; position < 9; ++position) {
    EXPECT_EQ(sliding.first_key(position), slid[position]);
    EXPECT_EQ(chunked.first_key(position), first[position]);
    EXPECT_EQ(AttentionShape{.chunked = true}.first_key(position), 0);
  }
}

// As Press, Smith & Lewis 2022 give them: of 8 heads 1/2 to 1/256, and of others every second one
// of the next power of 2 behind those of the last.
TEST(AlibiSlopes, AreThoseOfThePaper) {
  const AlibiSlopes eight = AlibiSlopes::of(8, 8);
  for (int64_t head = 0; head < 8; ++head) {
    EXPECT_DOUBLE_EQ(eight.of_head(head), std::exp2(-static_cast<double>(head + 1)));
  }
  const double of_six[] = {2, 4, 6, 8, 1, 3};
  const AlibiSlopes six = AlibiSlopes::of(8, 6);
  for (int64_t head = 0; head < 6; ++head) {
    EXPECT_DOUBLE_EQ(six.of_head(head), std::exp2(-of_six[head]));
  }
  EXPECT_DOUBLE_EQ(AlibiSlopes::of(4, 2).of_head(1), std::exp2(-4));
  EXPECT_EQ(AlibiSlopes().n_first, 0);
}

// Rows below 0 are zeros, and what no query sees is not read.
TEST(ReferenceAttention, ReadsTheRowsThatItIsTold) {
  const auto late = [](int64_t key) { return key - 2; };
  for (const Case& c : kCases) {
    const Inputs inputs(c);
    for (const bool k : {true, false}) {
      reference::AttentionVariant variant{.n_keys = c.n_positions};
      (k ? variant.k_row : variant.v_row) = late;
      const std::vector<float> want = attend_plainly(inputs, variant);
      std::vector<float> got(want.size(), NAN);
      reference::run(AttentionCall{inputs.q.data(),
                                   {inputs.type, inputs.k.data(), inputs.v.data()},
                                   inputs.shape,
                                   0,
                                   c.n_positions,
                                   got.data(),
                                   {},
                                   inputs.sinks.empty() ? nullptr : inputs.sinks.data()},
                     variant);
      EXPECT_TRUE(same_bits(got, want)) << "head_dim " << c.head_dim << k;
    }
  }
}

struct RopeCase {
  RopePairing pairing;
  int64_t head_dim;
  int64_t rotary_dim;
  int64_t first_turned = 0;
};

TEST_P(AttentionTest, RopeIsTheReferenceAndKeepsWhatIsNotTurned) {
  const TestKernels kernels(GetParam(), 2);
  const int64_t n_tokens = 40;
  const int64_t n_heads = 6;
  for (const RopeCase& c :
       {RopeCase{RopePairing::kAdjacent, 64, 64}, RopeCase{RopePairing::kHalves, 64, 64},
        RopeCase{RopePairing::kHalves, 80, 32}, RopeCase{RopePairing::kAdjacent, 10, 6},
        RopeCase{RopePairing::kHalves, 2, 2}, RopeCase{RopePairing::kAdjacent, 48, 16, 32},
        RopeCase{RopePairing::kHalves, 21, 6, 10}}) {
    std::vector<float> angles = Random(1).floats(n_tokens * c.rotary_dim);
    const std::vector<float> x = Random(2).floats(n_tokens * n_heads * c.head_dim);
    std::vector<float> got(x.size(), NAN);
    std::vector<float> want(x.size());
    const auto turn = [&](Kernels& by, const std::vector<float>& from, std::vector<float>& out) {
      by.run(RopeCall{from.data(),
                      angles.data(),
                      c.pairing,
                      n_tokens,
                      n_heads,
                      c.head_dim,
                      c.rotary_dim,
                      out.data(),
                      {},
                      c.first_turned});
    };
    turn(*kernels.operator->(), x, got);
    turn(*make_reference_kernels(), x, want);
    EXPECT_TRUE(relative_l2(want, got) <= 2e-7);
    for (size_t i = 0; i < x.size(); ++i) {
      const int64_t d = static_cast<int64_t>(i) % c.head_dim - c.first_turned;
      if (d < 0 || d >= c.rotary_dim) {
        EXPECT_EQ(got[i], x[i]) << i;
      }
    }
    std::vector<float> in_place = x;
    turn(*kernels.operator->(), in_place, in_place);
    EXPECT_TRUE(same_bits(in_place, got));
  }
}

// Breaks if a head had another's part, or what heads share came from another token.
TEST_P(AttentionTest, HeadsArePutTogetherFromTheirPartsAndASharedEnd) {
  const TestKernels kernels(GetParam(), 2);
  const int64_t n_tokens = 40;
  const int64_t n_heads = 7;
  const std::vector<float> own = Random(1).floats(n_tokens * n_heads * 56);
  const std::vector<float> shared = Random(2).floats(n_tokens * 48);
  for (const HeadParts parts :
       {HeadParts{56, 0, 32, 48, 32, 16}, HeadParts{56, 32, 24}, HeadParts{56, 0, 56}}) {
    const bool has_end = parts.shared_count > 0;
    std::vector<float> got(static_cast<size_t>(n_tokens * n_heads * parts.head_dim()), NAN);
    std::vector<float> want;
    for (int64_t head = 0; head < n_tokens * n_heads; ++head) {
      const auto first = own.begin() + head * parts.own_dim + parts.own_first;
      const auto end = shared.begin() + head / n_heads * parts.shared_dim + parts.shared_first;
      want.insert(want.end(), first, first + parts.own_count);
      want.insert(want.end(), end, end + parts.shared_count);
    }
    const HeadsCall call{own.data(), has_end ? shared.data() : nullptr, parts, n_tokens, n_heads,
                         got.data()};
    kernels->run(call);
    EXPECT_TRUE(same_bits(got, want));
    std::ranges::fill(got, NAN);
    make_reference_kernels()->run(call);
    EXPECT_TRUE(same_bits(got, want));
  }
}

}  // namespace
}  // namespace assay
