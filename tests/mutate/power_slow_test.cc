// The whole of `assay mutate`: all prompts, all lanes, a thousand runs with noise.

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "assay/mutate/power.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

TEST(PowerSlow, TheWholeCatalogueIsCaughtAndNoiseIsNot) {
  PowerOptions options;
  options.golden_folder = source_path("golden");
  options.vectors_folder = source_path("tests/data");
  const Power power = measure_power(options);
  for (const FaultPower& fault : power.faults) {
    EXPECT_TRUE(fault.is_caught()) << fault.fault->name << " is not caught by any golden";
  }
  EXPECT_GE(power.faults.size(), 150U);  // as docs/mutation.md says
  EXPECT_TRUE(power.passes()) << power.located() << " of " << power.caught_at_op_level()
                              << " at the right op, " << power.sound_alarms.size()
                              << " goldens catch the engine as it is";
  EXPECT_EQ(power.noise.runs, 1000);
  EXPECT_EQ(power.noise.false_alarms, 0) << power.noise.worst_case;
  EXPECT_FALSE(power.sensitivity.empty());
  for (const Sensitivity& each : power.sensitivity) {
    // No noise is added to which experts are chosen and how they are weighed: it comes with that of
    // the router, or of a shared expert's score. They show as inf.
    const bool is_exact = each.checkpoint.ends_with("_experts") ||
                          each.checkpoint.ends_with("_expert_weights") ||
                          each.checkpoint.ends_with("_shared_weight");
    if (is_exact) {
      EXPECT_TRUE(std::isinf(each.smallest)) << each.model << " " << each.checkpoint;
      continue;
    }
    EXPECT_LT(each.smallest, 10 * each.tolerance) << each.model << " " << each.checkpoint;
  }
}

}  // namespace
}  // namespace assay
