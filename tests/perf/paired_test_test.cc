#include "assay/perf/paired_test.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace assay {
namespace {

const std::vector<double> kTwelve = {0.031,  -0.012, 0.044, 0.027, 0.008, 0.051,
                                     -0.003, 0.036,  0.022, 0.019, 0.047, 0.014};

// scipy 1.17.1: stats.wilcoxon(d, method="exact").pvalue
TEST(PairedTest, AgreesWithScipyExact) {
  EXPECT_NEAR(paired_test(kTwelve, 0.05).p, 0.00341796875, 1e-15);
}

// All 2^8 choices of signs counted with numpy over scipy's mean ranks.
TEST(PairedTest, TiesGetTheirMeanRank) {
  const std::vector<double> tied = {0.01, 0.01, -0.02, 0.03, 0.03, -0.01, 0.02, 0.05};
  EXPECT_NEAR(paired_test(tied, 0.05).p, 0.140625, 1e-15);
  EXPECT_DOUBLE_EQ(paired_test(tied, 0.05).estimate, 0.015);
}

// scipy 1.17.1: stats.wilcoxon(d, method="approx", correction=False).pvalue
TEST(PairedTest, AgreesWithScipyForMany) {
  std::vector<double> many;
  for (int i = 1; i <= 80; ++i) many.push_back((i % 3 == 0 ? -1 : 1) * 0.001 * i);
  EXPECT_NEAR(paired_test(many, 0.05).p, 0.0065381715497651515, 1e-12);
}

// The interval for n = 12 leaves out the 13 smallest and largest means of pairs at 95 % (Hollander
// & Wolfe, table A.4 gives a critical value of 65 of 78), the 7 of them at 99 %; ends by numpy.
TEST(PairedTest, IntervalInvertsTheTest) {
  const PairedTest test = paired_test(kTwelve, 0.05);
  EXPECT_NEAR(test.estimate, 0.02425, 1e-15);
  EXPECT_NEAR(test.low, 0.0095, 1e-15);
  EXPECT_NEAR(test.high, 0.037, 1e-15);
  const PairedTest strict = paired_test(kTwelve, 0.01);
  EXPECT_NEAR(strict.low, 0.005, 1e-15);
  EXPECT_NEAR(strict.high, 0.0415, 1e-15);
}

TEST(PairedTest, TooFewPairsHaveNoInterval) {
  const PairedTest test = paired_test(std::vector<double>{0.1, 0.2, 0.3}, 0.05);
  EXPECT_EQ(test.low, -INFINITY);
  EXPECT_EQ(test.high, INFINITY);
  EXPECT_DOUBLE_EQ(test.p, 0.25);
}

TEST(PairedTest, NoDifferenceIsNoEvidence) {
  const PairedTest test = paired_test(std::vector<double>(20, 0.0), 0.05);
  EXPECT_EQ(test.p, 1);
  EXPECT_EQ(test.estimate, 0);
}

}  // namespace
}  // namespace assay
