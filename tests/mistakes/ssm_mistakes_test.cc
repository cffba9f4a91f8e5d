// The mistakes of Mamba, on what an engine logged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/mistakes/logged_ops.h"
#include "tests/support/mamba_model.h"

namespace assay::mistakes {
namespace {

testing_support::TinyModel falcon_mamba() {
  testing_support::TinyModel tiny;
  testing_support::become_mamba(tiny);
  tiny.booleans["mamba.ssm.dt_b_c_rms"] = true;
  return tiny;
}

class SsmMistakes : public LoggedOps {
 protected:
  SsmMistakes() : LoggedOps(falcon_mamba()) {}
};

TEST_F(SsmMistakes, WithoutOneEachOpIsTheEngines) {
  expect_the_engines_ops();
}

// Breaks if a mistake were none, or were tried on an op that has none of it.
TEST_F(SsmMistakes, EachChangesWhatTheStateGives) {
  int count = 0;
  for (const Mistake& mistake : ssm_mistakes()) {
    if (!mistake.edit.ssm) continue;
    const std::string text = mistake.text(network(), 0);
    const std::vector<Op> ops = possible_ops(mistake, network(), Checkpoint::kSsm);
    const bool is_of_groups = mistake.cause == "gqa_map";
    const bool is_of_decode = text.find("after the prompt") != std::string::npos;
    EXPECT_EQ(ops.size(), is_of_groups || is_of_decode ? 0U : 1U) << text;
    if (ops.empty()) continue;
    EXPECT_NE(computed(ops.front(), hooks_of(mistake)).values, computed(ops.front()).values)
        << text;
    ++count;
  }
  EXPECT_EQ(count, 14);
}

}  // namespace
}  // namespace assay::mistakes
