#include "base/count_of.h"

#include <gtest/gtest.h>

namespace assay {
namespace {

TEST(CountOf, OneIsNotSeveral) {
  EXPECT_EQ(count_of(0, "record"), "0 records");
  EXPECT_EQ(count_of(1, "record"), "1 record");
  EXPECT_EQ(count_of(2, "garbage value"), "2 garbage values");
  EXPECT_EQ(count_of(1U, "log was", "logs were"), "1 log was");
  EXPECT_EQ(count_of(12U, "log was", "logs were"), "12 logs were");
}

}  // namespace
}  // namespace assay
