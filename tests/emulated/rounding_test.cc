#include "kernels/cuda/rounding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

// The divisions of `fast` math's rounding, against the compiler's own.
namespace assay::ASSAY_DEVICE {
namespace {

constexpr float kMost[] = {127.0F, 8191.0F};

// A device's reciprocal may be off by a unit in the last place.
TEST(RoundingTest, QuotientsAreThoseOfIeeeWhateverTheReciprocalsLastBit) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float most : kMost) {
    for (float divisor = 1.0F; divisor < 2.0F; divisor = std::nextafter(divisor, infinity)) {
      const float near = 1.0F / divisor;
      for (const float reciprocal :
           {std::nextafter(near, 0.0F), near, std::nextafter(near, infinity)}) {
        ASSERT_EQ(divide_by(divisor, reciprocal, most), most / divisor) << divisor;
      }
      ASSERT_EQ(scale_of(divisor, most), divisor / most) << divisor;
    }
  }
}

TEST(RoundingTest, AllMagnitudesAreDividedAsIeeeDoes) {
  for (const float most : kMost) {
    for (float magnitude = 1e-30F; std::isfinite(magnitude); magnitude *= 1.0009F) {
      ASSERT_EQ(inverse_scale(magnitude, most), most / magnitude) << magnitude;
      ASSERT_EQ(scale_of(magnitude, most), magnitude / most) << magnitude;
    }
    const float greatest = std::numeric_limits<float>::max();
    EXPECT_EQ(inverse_scale(greatest, most), most / greatest);
    EXPECT_EQ(scale_of(greatest, most), greatest / most);
  }
}

}  // namespace
}  // namespace assay::ASSAY_DEVICE
