#include "kernels/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace assay {
namespace {

bool is_f16_nan(uint16_t half) {
  return (half & 0x7FFFU) > 0x7C00U;
}

// Every one of the 65,536 halves: weights and the f16 cache would otherwise be read wrongly.
TEST(Half, EveryF16HasItsValue) {
  for (uint32_t i = 0; i < 0x10000U; ++i) {
    const auto half = static_cast<uint16_t>(i);
    const float value = float_from_f16(half);
    if (is_f16_nan(half)) {
      EXPECT_TRUE(std::isnan(value)) << i;
      continue;
    }
    const int exponent = (half >> 10) & 0x1F;
    const int mantissa = half & 0x3FF;
    double expected =
        exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25);
    if (exponent == 0x1F) expected = INFINITY;
    if ((half & 0x8000U) != 0) expected = -expected;
    ASSERT_EQ(value, expected) << i;
    ASSERT_EQ(std::signbit(value), (half & 0x8000U) != 0) << i;
    ASSERT_EQ(f16_from_float(value), half) << i;
  }
}

// Each float on, just below and just above the middle between two neighbouring halves.
TEST(Half, F16RoundsToNearestTiesToEven) {
  for (uint32_t i = 0; i < 0x7C00U; ++i) {
    const auto half = static_cast<uint16_t>(i);
    const auto next = static_cast<uint16_t>(i + 1);
    const float upper = next == 0x7C00U ? 65536.0F : float_from_f16(next);
    const float middle = (float_from_f16(half) + upper) / 2;
    ASSERT_EQ(f16_from_float(middle), i % 2 == 0 ? half : next) << i;
    ASSERT_EQ(f16_from_float(std::nextafter(middle, 0.0F)), half) << i;
    ASSERT_EQ(f16_from_float(std::nextafter(middle, INFINITY)), next) << i;
  }
}

TEST(Half, F16KeepsInfinityAndNan) {
  EXPECT_EQ(f16_from_float(INFINITY), 0x7C00U);
  EXPECT_EQ(f16_from_float(-1e30F), 0xFC00U);
  EXPECT_TRUE(is_f16_nan(f16_from_float(NAN)));
  EXPECT_TRUE(is_f16_nan(f16_from_float(float_from_bits(0x7F800001U)))) << "signalling";
}

TEST(Half, Bf16IsTheUpperHalfOfAFloat) {
  EXPECT_EQ(float_from_bf16(0x3F80U), 1.0F);
  EXPECT_EQ(bf16_from_float(1.0F), 0x3F80U);
  EXPECT_EQ(bf16_from_float(float_from_bits(0x3F808000U)), 0x3F80U) << "tie to even";
  EXPECT_EQ(bf16_from_float(float_from_bits(0x3F818000U)), 0x3F82U) << "tie to even";
  EXPECT_EQ(bf16_from_float(float_from_bits(0x3F808001U)), 0x3F81U);
  EXPECT_EQ(bf16_from_float(3.4e38F), 0x7F80U) << "rounds to infinity";
  EXPECT_TRUE(std::isnan(float_from_bf16(bf16_from_float(float_from_bits(0x7F800001U)))));
}

}  // namespace
}  // namespace assay
