// Blocks of types that nothing here stores: random, but with the spread that a model needs.
#include "assay/conform/random_blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "assay/synth/random_weights.h"
#include "kernels/quantize/quantize.h"
#include "kernels/reference/dequantize.h"

namespace assay {
namespace {

constexpr int64_t kCount = 65536;

std::vector<float> values_of(TensorType type, const std::string& blocks) {
  std::vector<float> values(kCount);
  dequantize_row(type, blocks.data(), kCount, values.data());
  return values;
}

TEST(RandomBlocks, HaveTheDeviation) {
  for (const TensorType type : kAllTensorTypes) {
    EXPECT_TRUE(has_random_blocks(type) || can_quantize(type));
    if (!has_random_blocks(type)) continue;
    const std::string_view name = tensor_type_info(type).name;
    for (const double deviation : {0.0625, 0.2, 0.5}) {
      const std::vector<float> values = values_of(
          type, random_blocks(type, RandomWeights(7, "w"), kCount, static_cast<float>(deviation)));
      double squares = 0.0;
      double sum = 0.0;
      for (const float value : values) {
        squares += static_cast<double>(value) * value;
        sum += value;
      }
      // NVFP4's scale is a power of two.
      const double ratio = std::sqrt(squares / kCount) / deviation;
      const double most = type == TensorType::kNVFP4 ? std::sqrt(2.0) : 1.0;
      EXPECT_LE(ratio, 1.05 * most) << name;
      EXPECT_GE(ratio, 0.95 / most) << name;
      EXPECT_LE(std::abs(sum / kCount), 0.1 * deviation) << name;
    }
  }
}

// A scale in the place of codes, or the other way round, would leave few values.
TEST(RandomBlocks, DifferFromBlockToBlock) {
  for (const TensorType type : kAllTensorTypes) {
    if (!has_random_blocks(type)) continue;
    const std::string blocks = random_blocks(type, RandomWeights(7, "w"), kCount, 0.1F);
    EXPECT_NE(blocks, random_blocks(type, RandomWeights(7, "v"), kCount, 0.1F));
    const size_t size = tensor_type_info(type).block_bytes;
    std::set<std::string> seen;
    for (size_t at = 0; at < blocks.size(); at += size) seen.insert(blocks.substr(at, size));
    EXPECT_EQ(seen.size(), blocks.size() / size) << tensor_type_info(type).name;
  }
}

TEST(RandomBlocks, OfTernaryTypesAreTernary) {
  for (const TensorType type : {TensorType::kTQ1_0, TensorType::kTQ2_0}) {
    const std::vector<float> values =
        values_of(type, random_blocks(type, RandomWeights(7, "w"), kCount, 0.1F));
    EXPECT_EQ(std::set<float>(values.begin(), values.end()).size(), 3U)
        << tensor_type_info(type).name;
  }
}

}  // namespace
}  // namespace assay
