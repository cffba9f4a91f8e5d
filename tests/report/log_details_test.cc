#include "assay/report/log_details.h"

#include <gtest/gtest.h>

namespace assay {
namespace {

// The seconds are those of Python's datetime.fromisoformat(...).timestamp().
TEST(ParseTime, ReadsIso8601) {
  EXPECT_EQ(parse_time("2025-10-07T19:47:11Z"), 1759866431);
  EXPECT_EQ(parse_time("2024-02-29T00:00:00"), 1709164800);
  EXPECT_EQ(parse_time("1970-01-01T00:00:00Z"), 0);
  EXPECT_NEAR(*parse_time("2025-10-07T19:47:11.250Z"), 1759866431.25, 1e-6);
  EXPECT_EQ(parse_time("2025-10-07T21:47:11+02:00"), 1759866431);
  EXPECT_EQ(parse_time("2025-10-07T14:17:11-0530"), 1759866431);
}

TEST(ParseTime, OtherFormsAreNone) {
  for (const char* text : {"", "now", "2025-10-07", "2025-13-07T19:47:11Z", "2025-10-07T25:47:11Z",
                           "2025-10-07T19:47:11 UTC", "2025-10-07T19:47:11+2", "1759866431"}) {
    EXPECT_EQ(parse_time(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace assay
