// Checks must be able to fail: every fault of the catalogue is put into the engine and must be
// caught by the goldens.

#include "assay/mutate/power.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "assay/mutate/catalogue.h"
#include "assay/mutate/compare_lane.h"
#include "assay/mutate/unit_lane.h"
#include "assay/mutate/vector_lane.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

PowerOptions quick() {
  PowerOptions options;
  options.golden_folder = source_path("golden");
  options.vectors_folder = source_path("tests/data");
  options.prompts = {"haiku"};
  options.real = false;
  options.compare = false;
  options.sensitivity = false;
  options.omissions = false;
  options.noise_runs = 50;
  return options;
}

void expect_power(const Power& power, int64_t n_faults) {
  EXPECT_GE(power.faults.size(), static_cast<size_t>(n_faults));
  for (const FaultPower& fault : power.faults) {
    EXPECT_TRUE(fault.is_caught())
        << fault.fault->name
        << " is not caught by any golden; nearest: " << fault.small.weakest.worst_ratio
        << " of the tolerance in " << fault.small.weakest_case;
  }
  EXPECT_GE(100 * power.located(), 95 * power.caught_at_op_level());
  EXPECT_EQ(power.noise.false_alarms, 0) << power.noise.worst_case;
  EXPECT_THAT(power.sound_alarms, testing::IsEmpty());
}

TEST(Power, EveryFaultIsCaughtAndMostAtTheRightOp) {
  const Power power = measure_power(quick());
  expect_power(power, 150);
  EXPECT_TRUE(power.passes());
  EXPECT_EQ(power.noise.runs, 50);
}

// A lane that catches a sound engine says nothing about faults.
TEST(Power, NoLaneCatchesASoundEngine) {
  const PowerOptions options = quick();
  std::vector<MissingModel> missing;
  ThreadPool pool(2);
  const auto kernels = make_cpu_kernels(pool);
  CompareLane compare(*kernels);
  const auto cases =
      read_golden_cases(options.golden_folder,
                        {.models = {"tinyllama", "llama3", "qwen2.5", "phi3", "gpt2"},
                         .types = {"F32", "Q8_0", "Q4_K_M"},
                         .prompts = {"haiku"}},
                        missing);
  ASSERT_GE(cases.size(), 15U);
  for (const GoldenCase& golden : cases) {
    const GoldenLane lane = run_golden_lane(golden, nullptr, *kernels);
    EXPECT_FALSE(golden.snapshot.empty()) << golden.name();
    EXPECT_FALSE(lane.snapshot.caught) << golden.name() << " " << lane.snapshot.place;
    EXPECT_FALSE(lane.everything.caught) << golden.name() << " " << lane.everything.place;
    // Something was compared: exact zeros would be strange.
    EXPECT_GT(lane.everything.worst_ratio, 0.01) << golden.name();
    EXPECT_GT(lane.op_level.worst_ratio, 0.01) << golden.name();
    EXPECT_FALSE(run_unit_lane(golden, nullptr, *kernels).caught) << golden.name();
    EXPECT_FALSE(compare.run(golden, nullptr).caught) << golden.name();
  }
  EXPECT_FALSE(run_vector_lane(options.vectors_folder, nullptr, *kernels).caught);
}

// What would break: positions of the last layer that the engine leaves out without a probe, in
// models of two layers, whose second has the fault.
TEST(Power, TheUnitLaneSeesAllPositionsOfTheLastLayer) {
  std::vector<MissingModel> missing;
  ThreadPool pool(2);
  const auto kernels = make_cpu_kernels(pool);
  const auto cases = read_golden_cases(
      quick().golden_folder,
      {.models = {"tinyllama", "gpt2"}, .types = {"F32"}, .prompts = {"haiku"}}, missing);
  ASSERT_EQ(cases.size(), 2U);
  for (const GoldenCase& golden : cases) {
    for (const char* name : {"mask-missing", "mask-sees-next", "token-shift"}) {
      EXPECT_TRUE(run_unit_lane(golden, &find_fault(name), *kernels).caught)
          << golden.name() << " " << name;
    }
  }
}

// Noise at the floor that no golden could see would make "no false alarm" an empty sentence.
TEST(Power, NoiseAtTheFloorIsSeenAndAllowed) {
  PowerOptions options = quick();
  options.faults = "rope-base";
  options.sound_engine = false;  // EveryFaultIsCaughtAndMostAtTheRightOp has it
  options.noise_runs = 20;
  const Power power = measure_power(options);
  EXPECT_EQ(power.noise.false_alarms, 0);
  EXPECT_GT(power.noise.worst_ratio, 0.3);
}

// What would break: a model whose faults nobody tries any more, because its file is gone.
TEST(Power, GoldenWithoutItsModelFails) {
  namespace fs = std::filesystem;
  PowerOptions options = quick();
  options.faults = "scale-missing";
  options.noise_runs = 0;
  const fs::path folder = fs::path(testing::TempDir()) / "lost";
  fs::create_directories(folder);
  fs::copy(fs::path(options.golden_folder) / "tinyllama", folder / "tinyllama");
  options.golden_folder = folder.string();
  EXPECT_TRUE(measure_power(options).passes());
  fs::remove(folder / "tinyllama" / "tinyllama-q8_0.gguf");
  const Power power = measure_power(options);
  EXPECT_THAT(power.lost, testing::ElementsAre("tinyllama Q8_0: no tinyllama-q8_0.gguf"));
  EXPECT_FALSE(power.passes());
  fs::remove_all(folder);
}

// What would break: a comparison that passes on what a log does not say. PowerSlow has all models.
TEST(Power, IncompleteLogsNeverPass) {
  namespace fs = std::filesystem;
  PowerOptions options = quick();
  const fs::path folder = fs::path(testing::TempDir()) / "four";
  fs::create_directories(folder);
  for (const char* model : {"tinyllama", "gpt2", "phi3", "mixtral"}) {
    fs::create_directory_symlink(fs::path(options.golden_folder) / model, folder / model);
  }
  options.golden_folder = folder.string();
  options.faults = "scale-missing";
  options.sound_engine = false;
  options.fast = false;
  options.noise_runs = 0;
  options.omissions = true;
  const Power power = measure_power(options);
  EXPECT_GE(power.omissions.size(), 20U);
  EXPECT_GE(power.omissions_tried(), 4 * 70);
  for (const OmissionPower& omission : power.omissions) {
    EXPECT_THAT(omission.passed, testing::IsEmpty()) << omission.name << ": " << omission.what;
  }
  fs::remove_all(folder);
}

// Breaks if minutes passed without a word.
TEST(Power, SaysHowFarItHasCome) {
  PowerOptions options = quick();
  options.faults = "scale-missing";
  options.fast = false;
  options.noise_runs = 1;
  std::vector<std::string> told;
  options.progress = [&](const std::string& what, int64_t done, int64_t total) {
    EXPECT_LE(done, total);
    if (told.empty() || told.back() != what) told.push_back(what);
  };
  measure_power(options);
  EXPECT_THAT(told, testing::ElementsAre("sound engine on golden", "fault", "noise on model"));
}

TEST(Power, RejectsUnknownPrompts) {
  PowerOptions options = quick();
  options.prompts = {"haiku", "nosuch"};
  EXPECT_THAT([&] { measure_power(options); },
              ThrowsMessage<Error>(HasSubstr("'nosuch' is a prompt of no small model")));
}

TEST(Power, RejectsUnknownFaultsAndFoldersWithoutGoldens) {
  PowerOptions options = quick();
  options.faults = "rope-paring";
  EXPECT_THAT([&] { measure_power(options); },
              ThrowsMessage<Error>(HasSubstr("'rope-paring' matches no fault")));
  options = quick();
  options.golden_folder = source_path("engine");
  EXPECT_THAT([&] { measure_power(options); },
              ThrowsMessage<Error>(HasSubstr("it holds no goldens")));
}

}  // namespace
}  // namespace assay
