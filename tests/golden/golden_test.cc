// Holds the engine to the goldens: every checkpoint of every fixture against transformers in
// float64 over the same dequantised weights.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "assay/log/log_reader.h"
#include "assay/log/sketch.h"
#include "base/sha256.h"
#include "base/thread_pool.h"
#include "engine/sampler.h"
#include "engine/session.h"
#include "tests/support/backend.h"
#include "tests/support/cache.h"
#include "tests/support/golden_manifest.h"
#include "tests/support/recorder.h"

namespace assay {
namespace {

using testing_support::Backend;
using testing_support::Golden;
using testing_support::Recorder;
using testing_support::RecordKey;

constexpr const char* kModels[] = {"tinyllama", "llama3", "qwen2.5", "phi3",
                                   "gpt2",      "loud",   "smollm2"};

// The emulated backend computes some 20 times more slowly than the CPU's own: it is held to the
// small models and their short prompts.
bool is_for(const Golden& golden, Backend backend) {
  return backend != Backend::kEmulated || (golden.model != "smollm2" && golden.tokens.size() < 40);
}

// Which records of a fixture a test reads.
enum class Kind { kEmbedding, kLayerOutput, kLogits, kAll, kOps };

std::string name_of(Kind kind) {
  switch (kind) {
    case Kind::kEmbedding:
      return "embedding";
    case Kind::kLayerOutput:
      return "layer_output";
    case Kind::kLogits:
      return "logits";
    case Kind::kAll:
      return "all";
    case Kind::kOps:
      return "ops";
  }
  return {};
}

bool belongs_to(const std::string& checkpoint, Kind kind) {
  switch (kind) {
    case Kind::kEmbedding:
      return checkpoint == "embedding";
    case Kind::kLayerOutput:
      return checkpoint.ends_with("_output");
    case Kind::kLogits:
      return checkpoint == "logits";
    case Kind::kAll:
    case Kind::kOps:
      return true;
  }
  return false;
}

// One run of a model over its golden's tokens: prompt and greedy tokens but the last.
struct Evaluation {
  explicit Evaluation(std::set<RecordKey> keys) : recorder(std::move(keys)) {}

  Recorder recorder;
  std::vector<int32_t> generated;
};

std::set<RecordKey> logged_keys(const Golden& golden) {
  std::set<RecordKey> keys;
  for (const std::string& log : golden.logs) {
    LogReader reader(log, Depth::kKeys);
    while (const Record* record = reader.next())
      keys.emplace(record->checkpoint, record->token_idx);
  }
  return keys;
}

std::unique_ptr<Evaluation> evaluate(const Golden& golden, const std::string& path,
                                     Backend backend) {
  const auto gguf = std::make_shared<Gguf>(path);
  EXPECT_EQ(sha256_hex(gguf->bytes()), golden.gguf_sha256) << path << " is another model";
  auto evaluation = std::make_unique<Evaluation>(logged_keys(golden));
  Recorder* probe = golden.logs.empty() ? nullptr : &evaluation->recorder;
  const Model model(gguf);
  ThreadPool pool(0);
  const auto kernels = testing_support::make_kernels(backend, pool);
  const auto n_tokens = static_cast<int64_t>(golden.tokens.size() + golden.greedy.size());
  Session session(model, *kernels, {.capacity = n_tokens});
  Sampler sampler({});
  std::vector<bool> choosable(static_cast<size_t>(model.config().n_vocab), true);
  for (const int32_t id : golden.padding_ids) choosable[static_cast<size_t>(id)] = false;

  auto logits = session.eval(golden.tokens, probe);
  while (evaluation->generated.size() < golden.greedy.size()) {
    evaluation->generated.push_back(sampler.sample(logits, choosable));
    if (evaluation->generated.size() >= golden.greedy.size()) break;
    logits = session.eval({&evaluation->generated.back(), 1}, probe);
  }
  return evaluation;
}

// The run of a golden, made once and used by all its tests.
const Evaluation& run_of(const Golden& golden, const std::string& path, Backend backend) {
  static std::map<std::string, std::unique_ptr<Evaluation>> runs;
  auto& run = runs[golden.model + golden.name + name_of(backend)];
  if (!run) run = evaluate(golden, path, backend);
  return *run;
}

// ‖got - want‖ / ‖want‖ of a whole tensor, from the fixture's sketch: the mean of the squared
// differences of 64 projections, which is within 18 % of the true square (one deviation).
double relative_l2(const Record& want, const std::vector<float>& got) {
  return sketch_distance(compute_sketch(got), *want.sketch) / want.summary->l2;
}

// The same for the head alone, whose values are all there: ‖got - want‖ of the head against ‖want‖
// of the whole.
double head_error(const Record& want, const std::vector<float>& got) {
  double sum = 0.0;
  for (size_t i = 0; i < want.values.size(); ++i) {
    const double difference = static_cast<double>(got[i]) - static_cast<double>(want.values[i]);
    sum += difference * difference;
  }
  return std::sqrt(sum) / want.summary->l2;
}

void expect_in_parity(const Record& want, const Recorder& recorder, double tolerance) {
  const std::string where = want.checkpoint + " at " + std::to_string(want.token_idx);
  const auto found = recorder.records.find({want.checkpoint, want.token_idx});
  ASSERT_NE(found, recorder.records.end()) << "the engine has no " << where;
  const std::vector<float>& got = found->second;
  ASSERT_EQ(static_cast<int64_t>(got.size()), want.n) << where;
  ASSERT_TRUE(want.summary && want.sketch && want.summary->l2 > 0.0) << where;
  const double whole = relative_l2(want, got);
  const double head = head_error(want, got);
  EXPECT_TRUE(whole <= tolerance) << where << ": relative L2 " << whole << " > " << tolerance;
  EXPECT_TRUE(head <= tolerance) << where << ": head " << head << " > " << tolerance;
  if (want.checkpoint == "logits") {
    EXPECT_EQ(std::max_element(got.begin(), got.end()) - got.begin(), want.summary->argmax)
        << where;
  }
}

struct Case {
  Golden golden;
  Kind kind;
  Backend backend;
};

void PrintTo(const Case& each, std::ostream* out) {
  PrintTo(each.golden, out);
  *out << " " << name_of(each.kind) << " on " << name_of(each.backend);
}

// ctest runs each case on its own, and with it the model: few for the slow backend.
std::vector<Kind> kinds_for(Backend backend) {
  if (backend == Backend::kEmulated) return {Kind::kAll};
  return {Kind::kEmbedding, Kind::kLayerOutput, Kind::kLogits};
}

std::vector<Case> cases(Backend backend) {
  std::vector<Case> all;
  for (const char* model : kModels) {
    for (const Golden& golden : testing_support::read_goldens(model)) {
      if (golden.logs.empty() || !is_for(golden, backend)) continue;
      for (const Kind kind : kinds_for(backend)) all.push_back({golden, kind, backend});
      if (!golden.ops_log.empty()) all.push_back({golden, Kind::kOps, backend});
    }
  }
  return all;
}

struct Text {
  Golden golden;
  Backend backend;
};

void PrintTo(const Text& each, std::ostream* out) {
  PrintTo(each.golden, out);
  *out << " on " << name_of(each.backend);
}

std::vector<Text> texts(Backend backend) {
  std::vector<Text> all;
  for (const char* model : kModels) {
    for (const Golden& golden : testing_support::read_goldens(model)) {
      if (!golden.greedy.empty()) all.push_back({golden, backend});
    }
  }
  return all;
}

std::string test_name(const Golden& golden) {
  std::string name = golden.model + "_" + golden.name;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

std::string case_name(const testing::TestParamInfo<Case>& test) {
  return test_name(test.param.golden) + "_" + name_of(test.param.kind);
}

class GoldenTest : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Cpu, GoldenTest, testing::ValuesIn(cases(Backend::kCpu)), case_name);
INSTANTIATE_TEST_SUITE_P(Emulated, GoldenTest, testing::ValuesIn(cases(Backend::kEmulated)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Gpu, GoldenTest, testing::ValuesIn(cases(Backend::kCuda)), case_name);

// Empty if a golden can be run here.
std::string reason_to_skip_golden(const std::string& path, Backend backend) {
  if (std::string reason = testing_support::reason_to_skip(backend); !reason.empty()) return reason;
  return std::filesystem::exists(path) ? "" : "no " + path + ": scripts/fetch.sh smollm2";
}

// What would break: any wrong operation, at the first checkpoint after it.
TEST_P(GoldenTest, EveryTokenIsWithinTheToleranceOfFloat64) {
  const auto& [golden, kind, backend] = GetParam();
  const std::string& path = golden.gguf_path;
  const std::string reason = reason_to_skip_golden(path, backend);
  if (!reason.empty()) GTEST_SKIP() << reason;
  const Evaluation& run = run_of(golden, path, backend);
  LogReader reader(kind == Kind::kOps ? golden.ops_log : golden.logs.front());
  int64_t compared = 0;
  while (const Record* want = reader.next()) {
    if (!belongs_to(want->checkpoint, kind)) continue;
    expect_in_parity(*want, run.recorder, golden.tolerance_of(want->checkpoint));
    if (HasFatalFailure()) return;
    ++compared;
  }
  EXPECT_GT(compared, 0) << "the fixture has no such checkpoint";
}

std::string text_name(const testing::TestParamInfo<Text>& test) {
  return test_name(test.param.golden);
}

class GreedyTest : public testing::TestWithParam<Text> {};
INSTANTIATE_TEST_SUITE_P(Cpu, GreedyTest, testing::ValuesIn(texts(Backend::kCpu)), text_name);
INSTANTIATE_TEST_SUITE_P(Gpu, GreedyTest, testing::ValuesIn(texts(Backend::kCuda)), text_name);

TEST_P(GreedyTest, TheTokensAreThoseOfFloat64) {
  const auto& [golden, backend] = GetParam();
  const std::string& path = golden.gguf_path;
  const std::string reason = reason_to_skip_golden(path, backend);
  if (!reason.empty()) GTEST_SKIP() << reason;
  EXPECT_EQ(run_of(golden, path, backend).generated, golden.greedy);
}

}  // namespace
}  // namespace assay
