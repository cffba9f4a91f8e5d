// Both uses of a mistake are one edit: an engine that has it computes what it recomputes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "assay/mutate/catalogue.h"
#include "assay/mutate/mutant.h"
#include "base/thread_pool.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

using mistakes::Injected;
using mistakes::Inputs;
using mistakes::Matrix;
using mistakes::Mistake;
using mistakes::Network;
using mistakes::Op;

// All checkpoints of one batch, by name.
class Values : public Probe {
 public:
  bool wants(Checkpoint, int) override { return true; }
  void observe(Checkpoint checkpoint, int layer, int64_t, int64_t n_tokens, int64_t width,
               const float* values) override {
    Matrix matrix(n_tokens, width);
    std::copy_n(values, matrix.values.size(), matrix.values.begin());
    of[checkpoint_name(checkpoint, layer)] = std::move(matrix);
  }

  std::map<std::string, Matrix> of;
};

// Of the last rows of `got`: an engine computes logits of the last token alone.
double rel_l2(const Matrix& got, const Matrix& want) {
  if (got.columns != want.columns || got.rows < want.rows) return INFINITY;
  const float* last = got.row(got.rows - want.rows);
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < want.values.size(); ++i) {
    const double d = static_cast<double>(last[i]) - want.values[i];
    difference += d * d;
    norm += static_cast<double>(want.values[i]) * want.values[i];
  }
  return std::sqrt(difference / norm);
}

// What the mistake's op gives from the inputs that the engine with it has logged.
Matrix recomputed(const Mistake& mistake, const Injected& injected, const Network& network, Op op,
                  const std::vector<int32_t>& tokens, const Values& logged) {
  Inputs inputs{.tokens = tokens};
  for (size_t i = 0; i < tokens.size(); ++i) inputs.positions.push_back(static_cast<int64_t>(i));
  for (const Op input : network.inputs(op)) inputs.rows.push_back(&logged.of.at(input.name()));
  inputs.other = [&](Op other) -> std::shared_ptr<const Matrix> {
    const auto found = logged.of.find(other.name());
    return found == logged.of.end() ? nullptr : std::make_shared<Matrix>(found->second);
  };
  const OpSite site{.checkpoint = op.checkpoint,
                    .layer = op.layer,
                    .n_tokens = static_cast<int64_t>(tokens.size())};
  const OpContext context{site, network.at(op), inputs};
  const double parameter = injected.parameter ? injected.parameter(context) : 0;
  return network.compute(op, inputs, hooks_of(mistake, injected.before_bias), parameter);
}

class RecomputeTest : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Models, RecomputeTest,
                         testing::Values("tinyllama", "qwen2.5", "phi3", "gpt2", "gemma2", "gemma3",
                                         "gemma4", "gemma4-moe", "gemma4-ple", "gemma3n", "cohere2",
                                         "exaone4", "gpt-oss", "granitemoe", "olmoe", "qwen2-yarn",
                                         "phi2", "command-r-plus", "deepseek2", "deepseek3", "lfm2",
                                         "qwen35", "qwen3next", "qwen2moe", "hunyuan-dense",
                                         "mistral3", "apertus", "granitehybrid", "nemotron_h",
                                         "mamba2", "nemotron_h_moe", "falcon-h1", "llama4",
                                         "phimoe", "mpt"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::erase_if(name, [](char c) { return c == '-' || c == '.'; });
                           return name;
                         });

// What would break: a cause named after a computation that is not the engine's.
TEST_P(RecomputeTest, InjectedMistakesComputeWhatTheyRecompute) {
  const std::string name = GetParam();
  const auto gguf =
      std::make_shared<Gguf>(source_path("golden/") + name + "/" + name + "-f32.gguf");
  ThreadPool pool(1);
  const auto kernels = make_cpu_kernels(pool);
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 21; ++i) tokens.push_back(31 + i * 7 % 50);  // phi3's window is shorter
  int tried = 0;
  for (const Mistake& mistake : mistakes::mistake_catalogue()) {
    for (const Injected& injected : mistake.faults) {
      const Fault& fault = find_fault(injected.name);
      if (!mistake.text || injected.type || !fault.unsupported_reason(Model(gguf)).empty())
        continue;
      Mutant mutant(gguf, *kernels, {.fault = &fault, .n_positions = 64});
      Values logged;
      mutant.eval(tokens, &logged);
      const FaultPlace& place = mutant.found_at();
      const Op op{place.checkpoint, is_in_layer(place.checkpoint) ? place.layer : -1};
      Network network = Network::of_model(mutant.model(), 64);
      network.n_prompt = static_cast<int64_t>(tokens.size());
      const Matrix got = recomputed(mistake, injected, network, op, tokens, logged);
      EXPECT_LT(rel_l2(got, logged.of.at(op.name())), 1e-6) << fault.name;
      ++tried;
    }
  }
  EXPECT_GT(tried, 30);
}

// What would break: a fault whose cause no comparison can name.
TEST(Catalogues, CausesOfFaultsAreThoseOfRecomputedMistakes) {
  std::set<std::string> recomputed = {""};
  for (const Mistake& mistake : mistakes::mistake_catalogue()) {
    if (mistake.text) recomputed.insert(mistake.cause);
  }
  for (const Fault& fault : fault_catalogue()) {
    EXPECT_THAT(recomputed, testing::Contains(fault.cause)) << fault.name;
  }
}

}  // namespace
}  // namespace assay
