// The mistakes of several residual streams, LAuReL and cutoffs, on what an engine logged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/mistakes/logged_ops.h"
#include "tests/support/gemma3n_model.h"

namespace assay::mistakes {
namespace {

testing_support::TinyModel gemma3n() {
  testing_support::TinyModel tiny;
  testing_support::become_gemma3n(tiny);
  return tiny;
}

class StreamMistakes : public LoggedOps {
 protected:
  StreamMistakes() : LoggedOps(gemma3n()) {}
};

TEST_F(StreamMistakes, WithoutOneEachOpIsTheEngines) {
  expect_the_engines_ops();
}

// Breaks if a mistake were none, were the same as another, or were tried on an op that has none of
// it.
TEST_F(StreamMistakes, EachChangesWhatItsOpGives) {
  std::set<std::pair<std::string, std::vector<float>>> results;
  int count = 0;
  for (const Mistake& mistake : stream_mistakes()) {
    const std::string text = mistake.text(network(), 0);
    std::vector<Op> ops;
    for (int checkpoint = 0; checkpoint < kCheckpoints; ++checkpoint) {
      const auto own = possible_ops(mistake, network(), static_cast<Checkpoint>(checkpoint));
      ops.insert(ops.end(), own.begin(), own.end());
    }
    ASSERT_FALSE(ops.empty()) << text;
    for (const Op op : ops) {
      const std::vector<float> wrong = computed(op, hooks_of(mistake)).values;
      EXPECT_NE(wrong, computed(op).values) << text << ": " << op.name();
      EXPECT_TRUE(results.emplace(op.name(), wrong).second) << text << ": " << op.name();
      ++count;
    }
  }
  // Of three layers, the first of which joins the streams and the last of which merges them; two
  // have a cutoff.
  EXPECT_EQ(count, 2 + 3 * 3 + 4 * 3 + 3 + 2 * 3 + 3 + 2 * 3 + 4 * 3 + 4 * 2);
}

}  // namespace
}  // namespace assay::mistakes
