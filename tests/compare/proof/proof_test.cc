// A pass is a proof: logs made in every form, right ones and wrong ones of every kind, and what
// compare_logs() reports for them.
//
//   ASSAY_PROOF_CASES=N   how many comparisons (20000)
//   ASSAY_PROOF_SEED=S    where the seeds start (1)
//   ASSAY_PROOF_KIND=TEXT only kinds whose name has this in it
//   ASSAY_PROOF_SEQUENCES=0 without log-probabilities, records of whole sequences, nested values
//   ASSAY_PROOF_CASE=S    only the case of this seed; its two logs stay in the folder of the tests
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "assay/log/sketch.h"
#include "tests/compare/proof/proof_case.h"
#include "tests/compare/proof/setting.h"
#include "tests/fuzz/memory_file.h"

namespace assay::proof {
namespace {

constexpr int kShownOfAKind = 3;

// The kind that a seed stands for: each in turn.
int kind_of(uint64_t seed) {
  return static_cast<int>(seed % static_cast<uint64_t>(count_kinds()));
}

ProofCase case_of(uint64_t seed) {
  Chance chance(seed);
  return make_case(kind_of(seed), chance);
}

struct Tally {
  int made = 0;
  int improper = 0;
  int passed = 0;
  std::vector<std::string> shown;
};

std::string outcome_text(Outcome outcome) {
  return outcome == Outcome::kPass ? "pass" : outcome == Outcome::kNotPass ? "not pass" : "diverge";
}

// Runs the cases of seeds `begin` to `end` on all processors.
class Search {
 public:
  Search(uint64_t begin, uint64_t end, std::string filter)
      : next_(begin), end_(end), filter_(std::move(filter)) {}

  void run() {
    const unsigned count = std::max(2U, std::thread::hardware_concurrency());
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < count; ++i) threads.emplace_back([this] { work(); });
    for (std::thread& thread : threads) thread.join();
  }

  const std::map<std::string, Tally>& tallies() const { return tallies_; }

 private:
  void work() {
    for (uint64_t seed = next_++; seed < end_; seed = next_++) {
      const std::string name = kind_name(kind_of(seed));
      if (name.find(filter_) == std::string::npos) continue;
      const ProofCase made = case_of(seed);
      if (made.kind.empty() || (made.of_sequences && !sequences_)) continue;
      const auto file = [](const std::string& text) {
        return testing_support::MemoryFile(reinterpret_cast<const uint8_t*>(text.data()),
                                           text.size());
      };
      const testing_support::MemoryFile ref = file(made.ref);
      const testing_support::MemoryFile got = file(made.got);
      count(seed, made, compare_files(ref.path(), got.path()));
      if (seed % 8 == 0) hold_whole(seed, made, compare_files(ref.path(), got.path(), true));
    }
  }

  // With whole evidence asked a right log may be incomplete, but a wrong one passes no more.
  void hold_whole(uint64_t seed, ProofCase made, const Answer& answer) {
    const bool incomplete = answer.exit == Answer::Exit::kNotComparable;
    if (answer.sound && incomplete) return;
    if (made.outcome == Outcome::kDiverge) made.outcome = Outcome::kNotPass;
    made.kind += ", whole";
    count(seed, made, answer);
  }

  void count(uint64_t seed, const ProofCase& made, const Answer& answer) {
    const std::scoped_lock lock(mutex_);
    Tally& tally = tallies_[made.kind];
    ++tally.made;
    if (is_proper(made, answer)) return;
    ++tally.improper;
    tally.passed += answer.exit == Answer::Exit::kPass ? 1 : 0;
    if (tally.shown.size() < kShownOfAKind) {
      tally.shown.push_back(fmt::format("ASSAY_PROOF_CASE={} ({}): must {}, but exit {}: {}", seed,
                                        made.details, outcome_text(made.outcome),
                                        static_cast<int>(answer.exit), answer.text.substr(0, 300)));
    }
  }

  std::atomic<uint64_t> next_;
  uint64_t end_;
  std::string filter_;
  const bool sequences_ = setting("ASSAY_PROOF_SEQUENCES", 1) != 0;
  std::mutex mutex_;  // guards all below
  std::map<std::string, Tally> tallies_;
};

// Keeps the logs of one case for a look at them.
void repeat(uint64_t seed) {
  const ProofCase made = case_of(seed);
  ASSERT_FALSE(made.kind.empty()) << kind_name(kind_of(seed)) << ": no scene that it fits";
  const std::string path = testing::TempDir() + "proof_" + std::to_string(seed);
  std::ofstream(path + ".ref.jsonl") << made.ref;
  std::ofstream(path + ".got.jsonl") << made.got;
  const Answer answer = compare_files(path + ".ref.jsonl", path + ".got.jsonl");
  fmt::print("{} {}: must {}, exit {}: {}\nassay compare {}.ref.jsonl {}.got.jsonl\n", made.kind,
             made.details, outcome_text(made.outcome), static_cast<int>(answer.exit), answer.text,
             path, path);
  EXPECT_TRUE(is_proper(made, answer));
}

// Breaks if any log passes that is wrong by what both logs show, or one fails that is right.
TEST(ProofTest, NoWrongLogPassesAndNoRightOneFails) {
  if (const uint64_t seed = setting("ASSAY_PROOF_CASE", 0)) return repeat(seed);
  const uint64_t begin = setting("ASSAY_PROOF_SEED", 1);
  const char* filter = std::getenv("ASSAY_PROOF_KIND");
  Search search(begin, begin + setting("ASSAY_PROOF_CASES", 20000),
                filter == nullptr ? "" : filter);
  search.run();
  int made = 0;
  int improper = 0;
  std::string table;
  for (const auto& [kind, tally] : search.tallies()) {
    made += tally.made;
    improper += tally.improper;
    if (tally.improper == 0) continue;
    table += fmt::format("{:32} {:5} of {:5} ({} passed)\n", kind, tally.improper, tally.made,
                         tally.passed);
    for (const std::string& text : tally.shown) table += "    " + text + "\n";
  }
  fmt::print("{} comparisons of {} kinds\n", made, search.tallies().size());
  EXPECT_EQ(improper, 0) << table;
}

// Breaks if a kind of damage no longer finds a scene, and so proves nothing.
TEST(ProofTest, GeneratesEachKind) {
  for (int kind = 0; kind < count_kinds(); ++kind) {
    int made = 0;
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      Chance chance(seed);
      made += make_case(kind, chance).kind.empty() ? 0 : 1;
    }
    EXPECT_GE(made, 3) << kind_name(kind);
  }
}

TEST(ProofTest, SameSeedGivesTheSameLogs) {
  for (uint64_t seed = 1; seed < 200; seed += 7) {
    EXPECT_EQ(case_of(seed).ref, case_of(seed).ref) << seed;
    EXPECT_EQ(case_of(seed).got, case_of(seed).got) << seed;
  }
}

// The sketch and the summary of CONTRACT, one element at a time.
TEST(ProofTest, SketchesAndSummariesMatchTheirDefinitions) {
  Chance chance(3);
  for (int i = 0; i < 20; ++i) {
    std::vector<float> values(static_cast<size_t>(chance.between(1, 300)));
    for (float& value : values) value = static_cast<float>(chance.normal());
    const Sketch sketch = compute_sketch(values);
    std::vector<double> naive(64);
    double l2 = 0;
    for (size_t e = 0; e < values.size(); ++e) {
      uint64_t z = (e + 1) + 0x9E3779B97F4A7C15U;
      z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
      z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
      z ^= z >> 31U;
      for (size_t k = 0; k < 64; ++k) {
        naive[k] +=
            ((z >> k) & 1U) != 0 ? static_cast<double>(values[e]) : -static_cast<double>(values[e]);
      }
      l2 += static_cast<double>(values[e]) * values[e];
    }
    for (size_t k = 0; k < 64; ++k) EXPECT_NEAR(sketch[k], naive[k], 1e-9);
    const Summary summary = summarize(values);
    EXPECT_NEAR(summary.l2, std::sqrt(l2), 1e-9);
    EXPECT_EQ(summary.argmax, argmax(values));
    EXPECT_EQ(summary.nonfinite, 0);
    EXPECT_EQ(summary.top.front().index, summary.argmax);
  }
}

}  // namespace
}  // namespace assay::proof
