// Snapshots must be able to fail: the smallest change of the engine is put into one op, and they
// must report it, and where it begins.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "assay/golden/files.h"
#include "assay/golden/snapshot_review.h"
#include "assay/mutate/golden_lane.h"
#include "assay/mutate/mutant.h"
#include "assay/record/snapshot_probe.h"
#include "base/thread_pool.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

// One element of a checkpoint at one position is the next float.
Fault one_ulp(Checkpoint checkpoint, int layer, int64_t position) {
  Fault fault{.name = "one-ulp", .what = "", .unsupported_reason = [](const Model&) { return ""; }};
  fault.inject = [=](const FaultSite&) {
    Injection injection;
    injection.hooks.after = [=](const OpContext& context, OpResult result) {
      if (context.site.checkpoint != checkpoint || context.site.layer != layer) return;
      const int64_t t = position - result.first_position;
      if (t < 0 || t >= result.n_rows) return;
      float& value = result.row(t)[3];
      value = std::nextafter(value, 2 * value);
    };
    return injection;
  };
  return fault;
}

struct Site {
  const char* name;
  Checkpoint checkpoint;
  int layer;
};
constexpr Site kSites[] = {{"embedding", Checkpoint::kEmbedding, 0},
                           {"layer_0_attn", Checkpoint::kAttn, 0},
                           {"layer_1_ffn_out", Checkpoint::kFfnOut, 1},
                           {"logits", Checkpoint::kLogits, 0}};

class SnapshotLane : public testing::TestWithParam<Math> {
 protected:
  GoldenCase the_case() {
    std::vector<MissingModel> missing;
    const GoldenFilter filter{.models = {"tinyllama"}, .types = {"Q4_K_M"}, .prompts = {"haiku"}};
    auto cases = read_golden_cases(source_path("golden"), filter, missing, GetParam());
    EXPECT_EQ(cases.size(), 1U);
    return cases.at(0);
  }

  ThreadPool pool_{2};
  std::unique_ptr<Kernels> kernels_ = make_cpu_kernels(pool_, best_instruction_set(), GetParam());
};

INSTANTIATE_TEST_SUITE_P(Math, SnapshotLane, testing::Values(Math::kExact, Math::kFast),
                         [](const auto& test) {
                           return test.param == Math::kExact ? "exact" : "fast";
                         });

TEST_P(SnapshotLane, ReportsOneUlpAndItsCheckpoint) {
  const GoldenCase golden = the_case();
  EXPECT_FALSE(run_golden_lane(golden, nullptr, *kernels_).snapshot.caught);
  for (const Site& site : kSites) {
    SCOPED_TRACE(site.name);
    const Fault fault = one_ulp(site.checkpoint, site.layer, 4);
    const GoldenLane lane = run_golden_lane(golden, &fault, *kernels_);
    EXPECT_FALSE(lane.everything.caught) << "a golden cannot see so little";
    EXPECT_TRUE(lane.snapshot.caught);
    EXPECT_EQ(lane.snapshot.place, site.name);
  }
}

// The same as golden_test reports it.
TEST_P(SnapshotLane, TheReportNamesCheckpointTypeMathAndPromptAndTheSizeInFloors) {
  const GoldenCase golden = the_case();
  const std::string folder = source_path("golden/tinyllama/");
  const GoldenManifest manifest = read_golden_manifest(folder + "manifest.json");
  const std::string math = GetParam() == Math::kExact ? "exact" : "fast";
  GoldenSnapshots before = read_snapshots(folder).value();
  before.snapshots = {*find_snapshot(before, "Q4_K_M", math, "haiku")};
  const auto review = [&](const Fault* fault) {
    Mutant mutant(
        golden.gguf, *kernels_,
        {.fault = fault,
         .n_positions = static_cast<int64_t>(golden.tokens.size() + golden.greedy.size())});
    SnapshotProbe probe(mutant.model().config().n_layers);
    mutant.eval(golden.tokens, &probe);
    for (size_t i = 0; i + 1 < golden.greedy.size(); ++i) {
      mutant.eval({&golden.greedy[i], 1}, &probe);
    }
    SnapshotProbe::Result result = probe.result();
    GoldenSnapshots now{before.model, result.checkpoints, before.snapshots};
    now.snapshots[0].values = result.values;
    return review_snapshots(manifest, read_fast_floors(folder), &before, now);
  };
  EXPECT_THAT(review(nullptr), IsEmpty());
  const Fault small = one_ulp(Checkpoint::kFfnOut, 1, 4);
  auto reviews = review(&small);
  ASSERT_EQ(reviews.size(), 1U);
  EXPECT_THAT(reviews[0].line, AllOf(HasSubstr("Q4_K_M " + math + " haiku: "),
                                     HasSubstr(" checkpoints change, the first is "
                                               "layer_1_ffn_out; most "),
                                     HasSubstr(" floors (relative L2 ")));
  EXPECT_TRUE(reviews[0].within);
  RecordProperty("report", reviews[0].line);  // what golden/README.md shows
  Fault large = small;
  large.inject = [](const FaultSite&) {
    Injection injection;
    injection.hooks.after = [](const OpContext& context, OpResult result) {
      if (context.site.checkpoint != Checkpoint::kFfnOut || context.site.layer != 1) return;
      for (int64_t t = 0; t < result.n_rows; ++t) {
        for (float& value : result.row(t)) value *= 1.5F;
      }
    };
    return injection;
  };
  reviews = review(&large);
  ASSERT_EQ(reviews.size(), 1U);
  EXPECT_THAT(reviews[0].line, HasSubstr("the first is layer_1_ffn_out"));
  EXPECT_FALSE(reviews[0].within);
}

}  // namespace
}  // namespace assay
