// The whole of `assay mutate`: all prompts, all lanes, a thousand runs with noise.

#include <gtest/gtest.h>

#include <string>

#include "assay/mutate/power.h"

namespace assay {
namespace {

TEST(PowerSlow, TheWholeCatalogueIsCaughtAndNoiseIsNot) {
  PowerOptions options;
  options.golden_folder = std::string(ASSAY_SOURCE_DIR) + "/golden";
  options.vectors_folder = std::string(ASSAY_SOURCE_DIR) + "/tests/data";
  const Power power = measure_power(options);
  for (const FaultPower& fault : power.faults) {
    EXPECT_TRUE(fault.is_caught()) << fault.fault->name << " is not caught by any golden";
  }
  EXPECT_GE(100 * power.located(), 95 * power.caught_at_op_level());
  EXPECT_EQ(power.noise.runs, 1000);
  EXPECT_EQ(power.noise.false_alarms, 0) << power.noise.worst_case;
  for (const Sensitivity& each : power.sensitivity) {
    EXPECT_LT(each.smallest, 10 * each.tolerance) << each.model << " " << each.checkpoint;
  }
}

}  // namespace
}  // namespace assay
