// Holds the engine to its snapshots: every bit of every checkpoint, in both kinds of math, on each
// instruction set of this processor and however tokens come. A golden lets a change pass that stays
// within its tolerance; this reports it, and where it begins.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "assay/golden/snapshot_review.h"
#include "assay/record/golden_engine.h"
#include "assay/record/snapshot_probe.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "engine/session.h"
#include "tests/golden/golden_cases.h"

namespace assay {
namespace {

struct SnapshotCase {
  const GoldenManifest* manifest;
  const GoldenFile* file;
  std::string math;
};

void PrintTo(const SnapshotCase& each, std::ostream* out) {
  *out << each.manifest->model << " " << each.file->type << " " << each.math;
}

std::vector<SnapshotCase> snapshot_cases() {
  std::vector<SnapshotCase> all;
  for (const GoldenManifest& manifest : golden_manifests_of_tests()) {
    for (const GoldenFile& file : manifest.files) {
      for (const char* math : kSnapshotMaths) all.push_back({&manifest, &file, math});
    }
  }
  return all;
}

std::string snapshot_case_name(const testing::TestParamInfo<SnapshotCase>& test) {
  std::string name =
      test.param.manifest->model + "_" + test.param.file->type + "_" + test.param.math;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

Math math_of_case(const std::string& name) {
  return name == "exact" ? Math::kExact : Math::kFast;
}

// What a snapshot has of this case.
GoldenSnapshots part_of(const GoldenSnapshots& all, const SnapshotCase& each,
                        const std::string& prompt) {
  GoldenSnapshots part{all.model, all.checkpoints, {}};
  const Snapshot* found = find_snapshot(all, each.file->type, each.math, prompt);
  if (found != nullptr) part.snapshots.push_back(*found);
  return part;
}

void expect_unchanged(const SnapshotCase& each, const GoldenSnapshots& stored,
                      const GoldenPassage& passage, Snapshot computed,
                      const std::vector<std::string>& checkpoints) {
  computed.type = each.file->type;
  computed.sha256 = each.file->sha256;
  computed.math = each.math;
  const GoldenSnapshots now{stored.model, checkpoints, {computed}};
  const GoldenSnapshots before = part_of(stored, each, passage.prompt);
  ASSERT_EQ(before.snapshots.size(), 1U) << "no snapshot of " << passage.prompt;
  ASSERT_EQ(before.snapshots[0].values.size(), checkpoints.size());
  for (const SnapshotReview& review :
       review_snapshots(*each.manifest, read_fast_floors(each.manifest->folder()), &before, now)) {
    ADD_FAILURE() << each.manifest->model << " " << review.line
                  << "\n  if it is meant: assay golden record --snapshots " << each.manifest->model
                  << ", then review and accept";
  }
}

class SnapshotTest : public testing::TestWithParam<SnapshotCase> {};

INSTANTIATE_TEST_SUITE_P(Cpu, SnapshotTest, testing::ValuesIn(snapshot_cases()),
                         snapshot_case_name);

// What would break: any change of a number that the engine computes, however small, that no one
// has looked at.
TEST_P(SnapshotTest, EveryCheckpointIsTheSameToTheBit) {
  const SnapshotCase& each = GetParam();
  const auto stored = read_snapshots(each.manifest->folder());
  ASSERT_TRUE(stored.has_value()) << each.manifest->folder() << kSnapshotsName << " is missing";
  const std::string path = find_model_file(*each.manifest, *each.file);
  if (path.empty() && !each.file->source.empty()) {
    GTEST_SKIP() << "model: " << each.manifest->model << " " << each.file->type
                 << " is not in the cache: "
                 << (each.file->command.empty() ? "scripts/fetch.sh " + each.manifest->model
                                                : each.file->command);
  }
  const auto gguf = std::make_shared<Gguf>(path);
  ASSERT_EQ(gguf->sha256(), each.file->sha256) << path << " is another model";
  const Model model(gguf);
  ThreadPool pool(0);
  const auto kernels = make_cpu_kernels(pool, best_instruction_set(), math_of_case(each.math));
  for (const GoldenPassage& passage : passages_of(*each.manifest, *each.file)) {
    std::vector<std::string> checkpoints;
    Snapshot computed = take_snapshot(model, *kernels, passage, checkpoints);
    expect_unchanged(each, *stored, passage, std::move(computed), checkpoints);
  }
}

constexpr InstructionSet kSets[] = {InstructionSet::kPortable,   InstructionSet::kAvx2,
                                    InstructionSet::kAvxVnni,    InstructionSet::kAvx512,
                                    InstructionSet::kAvx512Vnni, InstructionSet::kAmx};

// Whether this processor can.
bool has(InstructionSet set) {
  try {
    ThreadPool pool(1);
    make_cpu_kernels(pool, set);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// What would break: a snapshot that holds on the machine where it was taken, and fails on others.
TEST(SnapshotEverywhere, OnAnyInstructionSetWithAnyThreadsAndAnyBatchTheBitsAreTheSame) {
  int64_t tried = 0;
  for (const SnapshotCase& each : snapshot_cases()) {
    const std::set<std::string> chosen = {"tinyllama", "gpt2", "qwen3", "olmo2", "granite"};
    if (!chosen.contains(each.manifest->model) || each.file->type == "F16") continue;
    const auto stored = read_snapshots(each.manifest->folder());
    ASSERT_TRUE(stored.has_value());
    const Model model(std::make_shared<Gguf>(find_model_file(*each.manifest, *each.file)));
    for (const GoldenPassage& passage : passages_of(*each.manifest, *each.file)) {
      if (passage.prompt == "long") continue;
      for (const InstructionSet set : kSets) {
        if (!has(set)) continue;
        for (const int threads : {1, 3}) {
          SCOPED_TRACE(testing::Message() << passage.prompt << " on " << static_cast<int>(set)
                                          << " with " << threads << " threads");
          ThreadPool pool(threads);
          const auto kernels = make_cpu_kernels(pool, set, math_of_case(each.math));
          SnapshotProbe probe(model.config().n_layers);
          Session session(model, *kernels,
                          {.capacity = passage.capacity(), .batch = threads == 1 ? 512 : 5});
          session.eval(passage.tokens, &probe);
          for (size_t i = 0; i + 1 < passage.greedy.size(); ++i) {
            session.eval({&passage.greedy[i], 1}, &probe);
          }
          SnapshotProbe::Result result = probe.result();
          Snapshot computed;
          computed.prompt = passage.prompt;
          computed.positions = result.positions;
          computed.values = std::move(result.values);
          expect_unchanged(each, *stored, passage, std::move(computed), result.checkpoints);
          ++tried;
        }
      }
    }
  }
  EXPECT_GE(tried, 2 * 3 * 2 * 2 * 2);
}

}  // namespace
}  // namespace assay
