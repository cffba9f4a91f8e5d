// The mistakes of attention to chosen positions, on what an engine logged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/mistakes/logged_ops.h"
#include "tests/support/glm_dsa_model.h"

namespace assay::mistakes {
namespace {

testing_support::TinyModel glm_dsa() {
  testing_support::TinyModel tiny;
  testing_support::become_glm_dsa(tiny);
  return tiny;
}

class IndexMistakes : public LoggedOps {
 protected:
  IndexMistakes() : LoggedOps(glm_dsa()) {}
};

TEST_F(IndexMistakes, WithoutOneEachOpIsTheEngines) {
  expect_the_engines_ops();
  EXPECT_EQ(network().inputs({Checkpoint::kAttn, 1}).back(), (Op{Checkpoint::kIndexed, 0}));
}

// Breaks if a mistake were none, or one that no op can have.
TEST_F(IndexMistakes, EachChangesWhatIsSeen) {
  const std::vector<Mistake> mistakes = index_mistakes();
  ASSERT_EQ(mistakes.size(), 4U);
  for (const Mistake& mistake : mistakes) {
    const Checkpoint at = mistake.edit.attention ? Checkpoint::kAttn : Checkpoint::kIndexed;
    const std::vector<Op> ops = possible_ops(mistake, network(), at);
    EXPECT_EQ(ops.size(), at == Checkpoint::kAttn ? 3U : 2U);
    for (const Op op : ops) {
      EXPECT_NE(computed(op, hooks_of(mistake)).values, computed(op).values)
          << mistake.text(network(), 0);
    }
  }
}

}  // namespace
}  // namespace assay::mistakes
