#include "assay/mutate/mutant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "assay/mutate/catalogue.h"
#include "assay/mutate/golden_case.h"
#include "assay/mutate/golden_lane.h"
#include "assay/mutate/vector_lane.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// Keeps every checkpoint, in the order in which the engine came to it.
class Trace : public Probe {
 public:
  struct Entry {
    std::string name;
    int64_t first = 0;
    int64_t width = 0;
    std::vector<float> values;
  };

  bool wants(Checkpoint, int) override { return true; }
  void observe(Checkpoint checkpoint, int layer, int64_t first, int64_t n_tokens, int64_t width,
               const float* values) override {
    entries.push_back({checkpoint_name(checkpoint, layer), first, width,
                       std::vector<float>(values, values + n_tokens * width)});
  }

  std::vector<Entry> entries;
};

std::shared_ptr<const Gguf> open_model(const std::string& model, const std::string& type = "f32") {
  return std::make_shared<Gguf>(source_path("golden/") + model + "/" + model + "-" + type +
                                ".gguf");
}

// 21 tokens are evaluated at once and three one by one, so that what is wrong in decode only shows
// too; phi3's window is shorter than that.
std::vector<int32_t> tokens() {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 24; ++i) ids.push_back(31 + i * 7 % 50);
  return ids;
}

template <class Engine>
Trace trace(Engine&& engine) {
  Trace result;
  const std::vector<int32_t> ids = tokens();
  engine.eval(std::span(ids).first(21), &result);
  for (size_t i = 21; i < ids.size(); ++i) engine.eval(std::span(ids).subspan(i, 1), &result);
  return result;
}

class SmallModel : public testing::TestWithParam<const char*> {
 protected:
  SmallModel() : pool_(1), kernels_(make_cpu_kernels(pool_)), gguf_(open_model(GetParam())) {}

  Trace sound() {
    const Model model(gguf_);
    Session session(model, *kernels_, {.capacity = 64});
    return trace(session);
  }

  ThreadPool pool_;
  std::unique_ptr<Kernels> kernels_;
  std::shared_ptr<const Gguf> gguf_;
};

INSTANTIATE_TEST_SUITE_P(Models, SmallModel,
                         testing::Values("tinyllama", "llama3", "qwen2.5", "qwen3", "phi3", "olmo2",
                                         "granite", "gpt2", "lfm2", "qwen35"),
                         [](const auto& tested) {
                           const std::string name = tested.param;
                           return name == "qwen2.5" ? "qwen2" : name;
                         });

// The decorator itself would be the fault that is caught.
TEST_P(SmallModel, MutantWithoutAFaultComputesTheSameBits) {
  const Trace want = sound();
  const Trace got = trace(Mutant(gguf_, *kernels_, {.n_positions = 64}));
  ASSERT_EQ(got.entries.size(), want.entries.size());
  for (size_t i = 0; i < got.entries.size(); ++i) {
    ASSERT_EQ(got.entries[i].name, want.entries[i].name);
    ASSERT_EQ(std::memcmp(got.entries[i].values.data(), want.entries[i].values.data(),
                          want.entries[i].values.size() * sizeof(float)),
              0)
        << want.entries[i].name;
  }
}

// Differences from the sound engine, by checkpoint in the network's order; of each the tokens.
std::string first_difference(const Trace& want, const Trace& got) {
  std::string first;
  int64_t first_token = -1;
  for (size_t i = 0; i < want.entries.size(); ++i) {
    const Trace::Entry& a = want.entries[i];
    const Trace::Entry& b = got.entries[i];
    for (size_t begin = 0; begin < a.values.size(); begin += static_cast<size_t>(a.width)) {
      const size_t bytes = static_cast<size_t>(a.width) * sizeof(float);
      if (std::memcmp(a.values.data() + begin, b.values.data() + begin, bytes) == 0) continue;
      const int64_t token = a.first + static_cast<int64_t>(begin) / a.width;
      if (first_token < 0 || token < first_token) {
        first = a.name;
        first_token = token;
      }
    }
  }
  return first;
}

// A fault that is somewhere else than it says would count as found at the wrong op.
TEST_P(SmallModel, EachFaultShowsFirstAtItsPlace) {
  const Trace want = sound();
  const Model model(gguf_);
  int tested = 0;
  for (const Fault& fault : fault_catalogue()) {
    if (!fault.unsupported_reason(model).empty()) continue;
    Mutant mutant(gguf_, *kernels_, {.fault = &fault, .n_positions = 64});
    if (mutant.found_at().kind != FaultPlace::Kind::kCheckpoint) continue;
    EXPECT_EQ(first_difference(want, trace(mutant)), mutant.found_at().name()) << fault.name;
    ++tested;
  }
  EXPECT_GT(tested, 40);
}

TEST_P(SmallModel, InjectsIntoTheRequestedLayer) {
  const Fault& fault = find_fault("scale-missing");
  const Model model(gguf_);
  int layer = 0;  // the first that attends
  while (find_spec(model.config().layer(layer).ops, Checkpoint::kAttn) == nullptr) ++layer;
  const Trace got =
      trace(Mutant(gguf_, *kernels_, {.fault = &fault, .layer = layer, .n_positions = 64}));
  EXPECT_EQ(first_difference(sound(), got), checkpoint_name(Checkpoint::kAttn, layer));
}

// A fault that no golden can have would never be tried.
TEST(Mutants, EveryFaultAppliesToSomeGolden) {
  std::map<std::string, int> goldens;
  const auto try_on = [&](const char* name, const char* type) {
    const Model model(open_model(name, type));
    for (const Fault& fault : fault_catalogue()) {
      const bool can = fault.unsupported_reason(model).empty() || has_vectors(fault);
      goldens[fault.name] += can ? 1 : 0;
    }
  };
  for (const char* name : {"tinyllama", "llama3", "qwen2.5", "phi3", "gpt2"}) {
    for (const char* type : {"f32", "q4_k_m", "q8_0", "f16"}) try_on(name, type);
  }
  for (const char* name :
       {"apertus",       "cohere2",   "gemma2",    "gemma3",     "gpt-oss",    "gptneox",
        "granitemoe",    "nemotron",  "olmoe",     "deepseek2",  "deepseek3",  "hunyuan-dense",
        "lfm2",          "qwen35",    "qwen3next", "mistral3",   "qwen2-yarn", "qwen2moe",
        "qwen3",         "stablelm",  "gemma4",    "gemma4-moe", "gemma4-ple", "gemma3n",
        "granitehybrid", "falcon-h1", "llama4",    "phimoe",     "mpt"}) {
    try_on(name, "f32");
  }
  for (const auto& [name, count] : goldens) EXPECT_GT(count, 0) << name;
}

TEST(Mutants, RejectsImpossibleRequests) {
  ThreadPool pool(1);
  const auto kernels = make_cpu_kernels(pool);
  const auto inject = [&](const char* model, const char* fault, std::optional<int> layer) {
    return [&kernels, model, fault, layer] {
      Mutant(open_model(model), *kernels,
             {.fault = &find_fault(fault), .layer = layer, .n_positions = 8});
    };
  };
  EXPECT_THAT(inject("gpt2", "rope-pairing", {}),
              ThrowsMessage<Error>(HasSubstr("it has no rotary embedding")));
  EXPECT_THAT(inject("tinyllama", "rope-pairing", 2),
              ThrowsMessage<Error>(HasSubstr("--layer: the model has no layer 2; give 0 to 1")));
  EXPECT_THAT(inject("tinyllama", "rope-base", 1),
              ThrowsMessage<Error>(HasSubstr("not one of a single layer")));
}

// Breaks if an id of a manifest, which anybody may write, were the place of a write.
TEST(GoldenLaneTest, RejectsAPaddingIdBeyondTheVocabulary) {
  std::vector<MissingModel> missing;
  const std::vector<GoldenCase> cases =
      read_golden_cases(source_path("golden"),
                        {.models = {"tinyllama"}, .types = {"F32"}, .prompts = {"haiku"}}, missing);
  ASSERT_EQ(cases.size(), 1U);
  ThreadPool threads(1);
  const auto kernels = make_cpu_kernels(threads);
  GoldenCase golden = cases[0];
  const auto n_vocab = static_cast<int32_t>(
      Mutant(golden.gguf, *kernels, {.n_positions = 1}).model().config().n_vocab);
  golden.padding_ids = {n_vocab - 1};
  EXPECT_FALSE(run_golden_lane(golden, nullptr, *kernels).everything.caught);
  for (const int32_t id : {n_vocab, INT32_MAX}) {
    golden.padding_ids = {id};
    EXPECT_THAT([&] { run_golden_lane(golden, nullptr, *kernels); },
                ThrowsMessage<Error>(testing::AllOf(
                    HasSubstr("tinyllama/manifest.json: 'padding_ids' has " + std::to_string(id)),
                    HasSubstr("; leave it out"))));
  }
}

}  // namespace
}  // namespace assay
