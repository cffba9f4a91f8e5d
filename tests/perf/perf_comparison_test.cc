#include "assay/perf/perf_comparison.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "assay/perf/perf_text.h"
#include "base/error.h"

namespace assay {
namespace {

constexpr int kPairs = 20;

// Times as machines give them: a drift that both share, noise of a per cent, and now and then a
// repetition that was interrupted. Each is the best of three, as scripts/perf.sh takes it.
struct Machine {
  explicit Machine(uint64_t seed) : random(seed) {
    base.context = head.context = {{"num_cpus", "4"}};
  }

  void measure(const std::string& name, double slowdown, int pairs = kPairs) {
    std::normal_distribution<double> noise(0, 0.01);
    std::uniform_real_distribution<double> chance(0, 1);
    for (int i = 0; i < pairs; ++i) {
      const double shared = 1000 * (1 + 0.2 * std::sin(i * 0.7));
      const auto time = [&] {
        double best = INFINITY;
        for (int repetition = 0; repetition < 3; ++repetition) {
          const double interrupted = chance(random) < 0.1 ? 1.5 : 1.0;
          best = std::min(best, shared * std::exp(noise(random)) * interrupted);
        }
        return best;
      };
      base.times[name].push_back(time());
      head.times[name].push_back(time() * slowdown);
    }
  }

  BenchFile base{"base.json", {}};
  BenchFile head{"head.json", {}};
  std::mt19937_64 random;
};

const PerfResult& result(const PerfComparison& comparison, const std::string& name) {
  for (const PerfResult& candidate : comparison.results) {
    if (candidate.name == name) return candidate;
  }
  throw Error("no result " + name);
}

TEST(PerfComparison, TellsSlowFastAndSame) {
  Machine machine(1);
  machine.measure("slower", 1.1);
  machine.measure("faster", 0.9);
  machine.measure("same", 1.0, 50);
  const PerfComparison comparison = compare_benches(machine.base, machine.head, {});
  EXPECT_EQ(comparison.verdict, PerfVerdict::kSlow);
  EXPECT_EQ(comparison.results.front().name, "slower");
  EXPECT_EQ(result(comparison, "slower").verdict, PerfVerdict::kSlow);
  EXPECT_NEAR(result(comparison, "slower").ratio, 1.1, 0.02);
  EXPECT_EQ(result(comparison, "faster").verdict, PerfVerdict::kFast);
  EXPECT_EQ(result(comparison, "same").verdict, PerfVerdict::kSame);
}

// The promise of `alpha`, on 200 comparisons of 20 benchmarks that did not change.
TEST(PerfComparison, EqualBuildsAreNotCalledSlow) {
  int slow = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Machine machine(seed);
    for (int i = 0; i < 20; ++i) machine.measure(std::to_string(i), 1.0);
    slow += compare_benches(machine.base, machine.head, {}).verdict == PerfVerdict::kSlow;
  }
  EXPECT_LE(slow, 2);
}

TEST(PerfComparison, FivePerCentAreFound) {
  int found = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Machine machine(seed);
    machine.measure("slower", 1.05);
    for (int i = 0; i < 19; ++i) machine.measure(std::to_string(i), 1.0);
    const PerfComparison comparison = compare_benches(machine.base, machine.head, {});
    found += result(comparison, "slower").verdict == PerfVerdict::kSlow;
  }
  EXPECT_GE(found, 90);
}

// Significant, but smaller than what counts.
TEST(PerfComparison, SmallChangesAreTheSame) {
  Machine machine(3);
  machine.measure("a bit", 1.004, 50);
  EXPECT_EQ(compare_benches(machine.base, machine.head, {}).verdict, PerfVerdict::kSame);
}

TEST(PerfComparison, FewPairsConfirmNothing) {
  Machine machine(4);
  machine.measure("twice", 2.0, 7);
  const PerfComparison comparison = compare_benches(machine.base, machine.head, {});
  EXPECT_EQ(comparison.verdict, PerfVerdict::kUnsure);
  EXPECT_EQ(comparison.pairs_needed, 8);  // 2 / 2^8 <= 0.01
  machine.measure("twice", 2.0, 1);
  EXPECT_EQ(compare_benches(machine.base, machine.head, {}).verdict, PerfVerdict::kSlow);
}

// The more benchmarks, the more pairs each needs: with 12, all of 60 could be slower and pass.
TEST(PerfComparison, TooFewPairsForWhatSeemsSlowerAreTold) {
  Machine machine(9);
  for (int i = 0; i < 60; ++i) machine.measure(std::to_string(i), 1.3, 12);
  const PerfComparison few = compare_benches(machine.base, machine.head, {});
  EXPECT_EQ(few.pairs_needed, 14);
  EXPECT_EQ(few.verdict, PerfVerdict::kUnsure);
  EXPECT_TRUE(few.too_few_pairs());
  for (int i = 0; i < 60; ++i) machine.measure(std::to_string(i), 1.3, 2);
  const PerfComparison enough = compare_benches(machine.base, machine.head, {});
  EXPECT_EQ(enough.verdict, PerfVerdict::kSlow);
  EXPECT_FALSE(enough.too_few_pairs());
  Machine faster(9);
  faster.measure("faster", 0.7, 3);
  EXPECT_TRUE(compare_benches(faster.base, faster.head, {}).too_few_pairs());
  faster.measure("faster", 0.7, 5);
  EXPECT_FALSE(compare_benches(faster.base, faster.head, {}).too_few_pairs());
}

// What would break: a slowdown that noise hides from the test passes, however many the pairs.
TEST(PerfComparison, WhatSeemsSlowerAndIsUnsureIsNotComplete) {
  Machine machine(9);
  machine.measure("noisy", 1.3, 9);
  machine.measure("noisy", 0.8, 5);
  const PerfComparison noisy = compare_benches(machine.base, machine.head, {});
  ASSERT_EQ(noisy.verdict, PerfVerdict::kUnsure);
  ASSERT_GE(noisy.results.front().pairs, noisy.pairs_needed);
  ASSERT_GT(noisy.results.front().ratio, 1.02);
  EXPECT_FALSE(noisy.complete());
}

// Breaks if the ratio or the sum of two times left the range of doubles: the mean of an infinite
// and a minus infinite difference is NaN, and sorting NaN is undefined.
TEST(PerfComparison, TimesAtTheEndsOfDoublesAreCompared) {
  Machine machine(10);
  for (int i = 0; i < 10; ++i) {
    machine.base.times["far"].push_back(i % 2 == 0 ? 1e300 : 1e-300);
    machine.head.times["far"].push_back(i % 2 == 0 ? 1e-300 : 1e300);
    machine.base.times["long"].push_back(1.5e308);
    machine.head.times["long"].push_back(1.5e308);
  }
  const PerfComparison comparison = compare_benches(machine.base, machine.head, {});
  const PerfResult& far = result(comparison, "far");
  EXPECT_EQ(far.verdict, PerfVerdict::kUnsure);
  EXPECT_EQ(far.ratio, 1.0);
  EXPECT_EQ(far.p, 1.0);
  EXPECT_EQ(far.base_ns, 5e299);
  const PerfResult& same = result(comparison, "long");
  EXPECT_EQ(same.verdict, PerfVerdict::kSame);
  EXPECT_EQ(same.base_ns, 1.5e308);
  EXPECT_EQ(same.head_ns, 1.5e308);
}

TEST(PerfComparison, OneRepetitionConfirmsNothing) {
  Machine machine(6);
  machine.measure("once", 2.0, 1);
  const PerfComparison comparison = compare_benches(machine.base, machine.head, {});
  EXPECT_EQ(comparison.verdict, PerfVerdict::kUnsure);
  EXPECT_THAT(remarks(comparison),
              testing::ElementsAre(testing::StartsWith("1 pair of repetitions are too few")));
}

TEST(PerfComparison, SaysWhichRepetitionsHaveNoPartner) {
  Machine machine(7);
  machine.measure("add", 1.0);
  machine.head.times["add"].pop_back();
  const PerfComparison comparison = compare_benches(machine.base, machine.head, {});
  EXPECT_EQ(comparison.results[0].pairs, kPairs - 1);
  EXPECT_THAT(comparison.notes,
              testing::ElementsAre("add has 20 repetitions in the base, 19 in the head: what has "
                                   "no partner is left out"));
}

TEST(PerfComparison, TimesOfTwoMachinesAreNotCompared) {
  Machine machine(8);
  machine.measure("add", 1.0);
  machine.base.context = {{"processor", "EPYC"}, {"assay_kernels", "avx512"}};
  machine.head.context = {{"num_cpus", "4"}, {"assay_kernels", "avx2"}};
  EXPECT_THAT(compare_benches(machine.base, machine.head, {}).notes,
              testing::ElementsAre("assay_kernels is avx512 in the base, avx2 in the head"));
  const std::pair<const char*, std::pair<const char*, const char*>> unlike[] = {
      {"processor", {"EPYC", "Xeon"}}, {"host_name", {"left", "right"}},
      {"num_cpus", {"4", "8"}},        {"mhz_per_cpu", {"2400", "3100"}},
      {"mhz_per_cpu", {"2400", "?"}},  {"assay_threads", {"1", "2"}}};
  for (const auto& [key, values] : unlike) {
    machine.base.context = {{key, values.first}};
    machine.head.context = {{key, values.second}};
    const std::string message =
        fmt::format("{} is {} here and {} in base.json", key, values.second, values.first);
    try {
      compare_benches(machine.base, machine.head, {});
      ADD_FAILURE() << "compared: " << message;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(message));
    }
    const PerfOptions any{.any_machine = true};
    if (key == std::string_view("assay_threads")) {
      EXPECT_THROW(compare_benches(machine.base, machine.head, any), Error);
    } else {
      EXPECT_EQ(compare_benches(machine.base, machine.head, any).notes.size(), 1U) << key;
    }
  }
  machine.base.context = {{"mhz_per_cpu", "2400"}};
  machine.head.context = {{"mhz_per_cpu", "2450"}};
  EXPECT_TRUE(compare_benches(machine.base, machine.head, {}).notes.empty());
}

// What would break: the times of a file without 'context' taken as those of any machine.
TEST(PerfComparison, AFileThatNamesNoMachineIsNotComparedWithOneThatDoes) {
  Machine machine(21);
  machine.measure("add", 1.0);
  EXPECT_TRUE(compare_benches(machine.base, machine.head, {}).notes.empty());
  machine.head.context.clear();
  try {
    compare_benches(machine.base, machine.head, {});
    ADD_FAILURE() << "compared";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("head.json: 'context' names no machine, and that "
                                                 "of base.json does"));
  }
  EXPECT_THROW(compare_benches(machine.head, machine.base, {}), Error);
  EXPECT_TRUE(compare_benches(machine.base, machine.head, {.any_machine = true}).notes.empty());
  machine.base.context.clear();
  EXPECT_THAT(
      compare_benches(machine.base, machine.head, {}).notes,
      testing::ElementsAre(testing::HasSubstr("neither file's 'context' names the machine")));
}

// What would break: a benchmark on eight threads read as a faster program, or, where it gains
// nothing by them, as the same.
TEST(PerfComparison, TimesOnOtherNumbersOfThreadsAreNotCompared) {
  Machine machine(6);
  machine.measure("same", 1.0, 50);
  machine.measure("other", 1.0, 50);
  const auto error = [&](bool any_machine) -> std::string {
    try {
      compare_benches(machine.base, machine.head, {.any_machine = any_machine});
    } catch (const Error& thrown) {
      return thrown.what();
    }
    return "";
  };
  machine.base.threads = machine.head.threads = {{"same", 2}, {"other", 1}};
  EXPECT_EQ(error(false), "");
  machine.head.threads["other"] = 8;
  for (const bool any_machine : {false, true}) {
    EXPECT_THAT(error(any_machine),
                testing::HasSubstr("other ran on 8 threads here, on 1 in base.json"));
  }
  machine.base.threads.clear();
  EXPECT_THAT(error(false), testing::HasSubstr("other ran on 8 threads here"));
  machine.head.threads = {{"same", 1}, {"gone", 8}};
  EXPECT_EQ(error(false), "");
}

// What would break: a benchmark that crashes or is switched off in the head reads like one that
// was removed.
TEST(PerfComparison, WhatTheHeadSkipsIsNotComplete) {
  Machine machine(20);
  machine.measure("add", 1.0);
  EXPECT_TRUE(compare_benches(machine.base, machine.head, {}).complete());
  machine.head.skipped = {{"never", ""}};
  EXPECT_TRUE(compare_benches(machine.base, machine.head, {}).complete());
  machine.base.times["gpu"] = {1.0};
  machine.head.skipped["gpu"] = "no GPU";
  const PerfComparison comparison = compare_benches(machine.base, machine.head, {});
  EXPECT_FALSE(comparison.complete());
  EXPECT_THAT(comparison.skipped, testing::ElementsAre("gpu (no GPU)"));
  EXPECT_TRUE(comparison.only_base.empty());
  machine.head.skipped = {{"add", "now and then"}};
  EXPECT_FALSE(compare_benches(machine.base, machine.head, {}).complete());
}

TEST(PerfComparison, NamesWhatOnlyOneHas) {
  Machine machine(5);
  machine.measure("both", 1.0);
  machine.base.times["old"] = {1.0};
  machine.head.times["new"] = std::vector<double>(kPairs, 1.0);
  const PerfComparison comparison = compare_benches(machine.base, machine.head, {});
  EXPECT_THAT(comparison.only_base, testing::ElementsAre("old"));
  EXPECT_THAT(comparison.only_head, testing::ElementsAre("new"));
  EXPECT_THAT(comparison.missing, testing::ElementsAre("old"));
  EXPECT_FALSE(comparison.complete());
  const PerfComparison allowed =
      compare_benches(machine.base, machine.head, {.allow_missing = {"o?d"}});
  EXPECT_THAT(allowed.only_base, testing::ElementsAre("old"));
  EXPECT_TRUE(allowed.complete());
  // Nothing of the base is lost by a benchmark more.
  EXPECT_TRUE(compare_benches(machine.head, machine.head, {}).complete());
  machine.head.times.erase("both");
  EXPECT_THROW(compare_benches(machine.base, machine.head, {}), Error);
}

}  // namespace
}  // namespace assay
