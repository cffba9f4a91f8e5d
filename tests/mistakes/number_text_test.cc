#include "assay/mistakes/number_text.h"

#include <gtest/gtest.h>

#include <cmath>

#include "assay/mistakes/rotation.h"

namespace assay::mistakes {
namespace {

// Breaks if a sentence gave a wrong number as the right one.
TEST(NumberText, HasTheDigitsThatTellItFromTheOther) {
  EXPECT_EQ(number_unlike(1.0001, 1), "1.0001");
  EXPECT_EQ(number_unlike(0.99996, 1), "0.99996");
  EXPECT_EQ(number_unlike(1.0000004, 1), "1.0000004");
  EXPECT_EQ(number_unlike(1.02349, 1), "1.023");
  EXPECT_EQ(number_unlike(-1, 1), "-1");
  EXPECT_EQ(number_unlike(1, 1), "1");
  EXPECT_EQ(number_unlike(1.0004e-5, 1e-5, 3), "1.0004e-05");
  EXPECT_EQ(number_unlike(1.00000000001, 1), "1") << "a float does not tell them apart";
  EXPECT_EQ(number_unlike(NAN, 1), "nan");
}

TEST(NumberText, BasesAreRoundedUnlessTheyReadAlike) {
  EXPECT_EQ(rounded_unlike(499987, 10000), "500000");
  EXPECT_EQ(rounded_unlike(10002, 10000), "10002");
  EXPECT_EQ(rounded_unlike(10000, 10002), "10000");
}

}  // namespace
}  // namespace assay::mistakes
