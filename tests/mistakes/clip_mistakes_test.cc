// The mistakes of clipped queries, keys and values, on what an engine logged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/mistakes/logged_ops.h"
#include "tests/support/clipped_model.h"

namespace assay::mistakes {
namespace {

testing_support::TinyModel dbrx() {
  testing_support::TinyModel tiny;
  testing_support::become_dbrx(tiny);
  return tiny;
}

class ClipMistakes : public LoggedOps {
 protected:
  ClipMistakes() : LoggedOps(dbrx()) {}
};

TEST_F(ClipMistakes, WithoutOneEachOpIsTheEngines) {
  expect_the_engines_ops();
}

// Breaks if a mistake were none, were the same as another, or were tried on an op that is no clip.
TEST_F(ClipMistakes, EachChangesWhatItsOpGives) {
  std::set<std::pair<std::string, std::vector<float>>> results;
  for (const Mistake& mistake : clip_mistakes()) {
    for (int number = 0; number < kCheckpoints; ++number) {
      const auto checkpoint = static_cast<Checkpoint>(number);
      const bool is_clip = checkpoint == Checkpoint::kQClip || checkpoint == Checkpoint::kKClip ||
                           checkpoint == Checkpoint::kVClip;
      const std::vector<Op> ops = possible_ops(mistake, network(), checkpoint);
      ASSERT_EQ(ops.size(), is_clip ? 1U : 0U) << checkpoint_op(checkpoint);
      if (!is_clip) continue;
      const std::vector<float> wrong = computed(ops[0], hooks_of(mistake)).values;
      EXPECT_NE(wrong, computed(ops[0]).values) << ops[0].name();
      EXPECT_TRUE(results.emplace(ops[0].name(), wrong).second) << ops[0].name();
    }
  }
  EXPECT_EQ(results.size(), 3U * 3U);
}

// Breaks if what is of a feed-forward's activation were tried on a clip, which has no gate.
TEST_F(ClipMistakes, NoFeedForwardsMistakeIsOfAClip) {
  for (const Mistake& mistake : feed_forward_mistakes()) {
    EXPECT_TRUE(possible_ops(mistake, network(), Checkpoint::kQClip).empty());
  }
}

}  // namespace
}  // namespace assay::mistakes
