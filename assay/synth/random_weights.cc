#include "assay/synth/random_weights.h"

namespace assay {
namespace {

constexpr uint64_t kGamma = 0x9E3779B97F4A7C15;

uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EB;
  return z ^ (z >> 31U);
}

uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3;
  return hash;
}

// Of the sum of four independent whole numbers from 0 to 65535.
constexpr int32_t kMean = 2 * 65535;
constexpr double kDeviation = 37837.22723720648;  // sqrt(4 * (65536^2 - 1) / 12)

}  // namespace

RandomWeights::RandomWeights(uint64_t seed, std::string_view tensor_name)
    : state_(mix(mix(seed + kGamma) ^ fnv1a(tensor_name))) {}

uint64_t RandomWeights::bits(int64_t i) const {
  return mix(state_ + (static_cast<uint64_t>(i) + 1) * kGamma);
}

void RandomWeights::draw(int64_t first, int64_t count, float mean, float deviation,
                         float* out) const {
  const auto scale = static_cast<float>(static_cast<double>(deviation) / kDeviation);
  uint64_t state = state_ + static_cast<uint64_t>(first) * kGamma;
  for (int64_t i = 0; i < count; ++i) {
    state += kGamma;
    const uint64_t bits = mix(state);
    const auto sum = static_cast<int32_t>((bits & 0xFFFFU) + (bits >> 16U & 0xFFFFU) +
                                          (bits >> 32U & 0xFFFFU) + (bits >> 48U));
    out[i] = mean + static_cast<float>(sum - kMean) * scale;
  }
}

}  // namespace assay
