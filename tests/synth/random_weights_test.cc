#include "assay/synth/random_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/half.h"

namespace assay {
namespace {

std::vector<float> drawn(uint64_t seed, const char* name, int64_t first, int64_t count, float mean,
                         float deviation) {
  std::vector<float> values(static_cast<size_t>(count));
  RandomWeights(seed, name).draw(first, count, mean, deviation, values.data());
  return values;
}

uint32_t bits_at(uint64_t seed, const char* name, int64_t index) {
  return float_bits(drawn(seed, name, index, 1, 0.5F, 0.02F)[0]);
}

// The goldens of full-size twins would belong to other models on another machine or after a change.
// The bits were computed by Python's whole numbers and numpy's float32.
TEST(RandomWeights, HaveTheBitsOfAnotherProgram) {
  EXPECT_EQ(bits_at(1, "token_embd.weight", 0), 1056998369U);
  EXPECT_EQ(bits_at(1, "token_embd.weight", 1), 1057022286U);
  EXPECT_EQ(bits_at(1, "token_embd.weight", 2), 1056799041U);
  EXPECT_EQ(bits_at(1, "token_embd.weight", 7), 1056164262U);
  EXPECT_EQ(bits_at(18446744073709551615U, "blk.3.ffn_down.weight", 0), 1055668234U);
  EXPECT_EQ(bits_at(18446744073709551615U, "blk.3.ffn_down.weight", 123456789012), 1056851770U);
}

// Threads and pieces would change the bytes of a file.
TEST(RandomWeights, APieceIsThatPartOfTheWhole) {
  const std::vector<float> whole = drawn(7, "output.weight", 0, 1000, 0.0F, 1.0F);
  const std::vector<float> piece = drawn(7, "output.weight", 301, 99, 0.0F, 1.0F);
  EXPECT_EQ(piece, std::vector<float>(whole.begin() + 301, whole.begin() + 400));
}

// Activations would grow or vanish from layer to layer.
TEST(RandomWeights, HaveTheMeanAndDeviationAskedFor) {
  constexpr int64_t kCount = 1000000;
  double sum = 0.0;
  double square = 0.0;
  float largest = 0.0F;
  for (const float value : drawn(3, "blk.0.attn_q.weight", 0, kCount, 1.0F, 0.25F)) {
    const double x = static_cast<double>(value) - 1.0;
    sum += x;
    square += x * x;
    largest = std::max(largest, std::fabs(value - 1.0F));
  }
  EXPECT_NEAR(sum / kCount, 0.0, 4 * 0.25 / std::sqrt(kCount));
  EXPECT_NEAR(std::sqrt(square / kCount), 0.25, 0.001);
  EXPECT_LE(largest, 3.5F * 0.25F);
}

// Two tensors, or two seeds, with the same numbers would let swapped tensors pass.
TEST(RandomWeights, DifferByNameAndSeed) {
  const auto of = [](uint64_t seed, const char* name) {
    return drawn(seed, name, 0, 16, 0.0F, 1.0F);
  };
  EXPECT_NE(of(1, "blk.0.attn_k.weight"), of(1, "blk.0.attn_v.weight"));
  EXPECT_NE(of(1, "blk.0.attn_k.weight"), of(2, "blk.0.attn_k.weight"));
}

}  // namespace
}  // namespace assay
