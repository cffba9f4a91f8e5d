#include "assay/mutate/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "assay/mutate/mutant_log.h"
#include "assay/record/run.h"
#include "tests/causes/faulty_logs.h"
#include "tests/causes/feature_faults.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

using testing::AnyOf;
using testing::Each;
using testing::IsEmpty;
using testing::IsSubsetOf;
using testing::StartsWith;

const std::vector<int32_t> kTokens = {1,  45, 120, 7,  201, 33, 90, 250, 16, 77, 150,
                                      64, 99, 43,  12, 13,  14, 15, 16,  17, 18, 19};
const std::set<std::string> kNames = {"rope_pairing",
                                      "rope_position",
                                      "rope_base",
                                      "rope_scaling",
                                      "rope_dimensions",
                                      "rope_missing",
                                      "attention_scale",
                                      "attention_mask",
                                      "gqa_map",
                                      "kv_shift",
                                      "kv_scale",
                                      "kv_swapped",
                                      "head_order",
                                      "transpose",
                                      "gate_up_swapped",
                                      "gate_as_up",
                                      "up_as_gate",
                                      "activation_kind",
                                      "eps",
                                      "norm_kind",
                                      "bias_missing",
                                      "parallel_residual",
                                      "residual",
                                      "norm_weight_plus_one",
                                      "embedding_scale",
                                      "scale",
                                      "sign",
                                      "token_shift",
                                      "row_shift",
                                      "rounding",
                                      "quant_block"};

struct Tally {
  std::set<std::string> silent;  // faults without a cause
  std::set<std::string> right;   // faults
  std::set<std::string> names;   // of their causes
  std::vector<std::string> wrong;
};

// What is logged, and what is known besides.
struct Given {
  bool with_model = true;
  const char* checkpoints = "ops";
  size_t n_tokens = kTokens.size();
  std::set<std::string> faults = {};  // only these; all where empty
  int64_t from = 0;                   // the records before this token are the right engine's
  std::vector<int32_t> tokens = kTokens;
  int64_t n_predict = 3;
  int64_t ref_from = 0;  // the reference has no records before this token
};

int64_t token_of(const std::string& line) {
  constexpr std::string_view kKey = "\"token_idx\":";
  const size_t at = line.find(kKey);
  return at == std::string::npos ? -1 : std::stoll(line.substr(at + kKey.size()));
}

class Catalogue : public FaultyLogs {
 protected:
  LogRequest request(const std::string& name, const Given& given) {
    LogRequest request{folder_ + "/" + name, LogOptions(), CheckpointSet(given.checkpoints)};
    request.options.head_values = kAllValues;
    return request;
  }

  // `got` as an engine logs it that is right up to a token.
  std::string right_before(int64_t from, const std::string& ref, const std::string& got) {
    std::string text;
    const auto take = [&](const std::string& path, bool before) {
      std::ifstream lines(path);
      for (std::string line; std::getline(lines, line);) {
        if ((token_of(line) < from) == before) text += line + "\n";
      }
    };
    take(ref, true);
    take(got, false);
    return put("spliced", text);
  }

  static std::string header_of(const std::string& path) {
    std::ifstream lines(path);
    std::string line;
    std::getline(lines, line);
    return line + "\n";
  }

  // Adds what is named of a fault.
  void judge(const Model* model, const Fault& fault, const std::string& got, Tally& tally) {
    const Comparison comparison = compare(model, folder_ + "/ref", got, 1e-5);
    if (comparison.causes.empty()) tally.silent.insert(fault.name);
    for (const Cause& cause : comparison.causes) {
      // Only the model says which factors belong there, and what biases are.
      const bool is_factor = fault.cause == "embedding_scale" || fault.cause == "logit_scale";
      const bool of_bias = fault.name == "qk-bias-order" && cause.name == "bias_missing";
      const bool named_so = model == nullptr && ((is_factor && cause.name == "scale") || of_bias);
      if (cause.name != fault.cause && !named_so) {
        tally.wrong.push_back(fault.name + " is '" + fault.cause + "': " + cause.sentence);
      } else {
        tally.right.insert(fault.name);
        tally.names.insert(cause.name);
      }
    }
  }

  Tally tally(const std::string& file, const Given& given) {
    return tallies(file, given, {given.with_model})[0];
  }
  // Each fault of the catalogue that the model can have, in its middle layer: with the model, or
  // without it, or from the same logs both.
  std::vector<Tally> tallies(const std::string& file, const Given& given,
                             const std::vector<bool>& with_model) {
    const std::vector<int32_t> tokens(
        given.tokens.begin(), given.tokens.begin() + static_cast<std::ptrdiff_t>(given.n_tokens));
    const std::string path = source_path("golden/") + file;
    const Model model(std::make_shared<Gguf>(path));
    RunOptions right;
    right.model_path = path;
    right.tokens = tokens;
    right.n_predict = given.n_predict;
    right.ignore_eos = true;
    right.backend = "cpu";
    right.log = request("ref", given);
    run(right, {});
    if (given.ref_from > 0) {
      const std::string all = folder_ + "/ref";
      std::filesystem::rename(right_before(given.ref_from, put("none", header_of(all)), all), all);
    }
    std::vector<Tally> tallies(with_model.size());
    for (const Fault& fault : fault_catalogue()) {
      if (!given.faults.empty() && !given.faults.contains(fault.name)) continue;
      // Faults of the tokenizer and the sampler leave the network as it is.
      if (!fault.inject || fault.edit_vocabulary) continue;
      if (fault.unsupported_reason && !fault.unsupported_reason(model).empty()) continue;
      // With NaN no token can be chosen: the log ends there.
      const std::string ended = error_of([&] {
        write_mutant_log({.model_path = path,
                          .fault = fault.name,
                          .layer = std::nullopt,
                          .prompt = std::nullopt,
                          .tokens = tokens,
                          .n_predict = given.n_predict,
                          .n_threads = 1,
                          .log = request("got", given)});
      });
      EXPECT_TRUE(ended == "no error" || ended.find("no token can be chosen") != std::string::npos)
          << ended;
      std::string got = folder_ + "/got";
      if (given.from > 0) got = right_before(given.from, folder_ + "/ref", got);
      for (size_t i = 0; i < tallies.size(); ++i) {
        judge(with_model[i] ? &model : nullptr, fault, got, tallies[i]);
      }
    }
    return tallies;
  }
};

// The one that has them all: bias, groups of heads, quantised weights.
TEST_F(Catalogue, FindsEveryNameAndNoWrongOne) {
  const Tally found = tally("qwen2.5/qwen2.5-q8_0.gguf", {});
  EXPECT_THAT(found.wrong, IsEmpty());
  std::set<std::string> wanted = kNames;
  wanted.erase("quant_block");  // has its test in find_causes_test.cc
  EXPECT_THAT(wanted, IsSubsetOf(found.names));
  EXPECT_GE(found.right.size(), 45U);
}

// Without the model such norms are not inferred: fewer are found, and none wrongly.
TEST_F(Catalogue, NormsOfHeadsAndOfBranches) {
  for (const char* file :
       {"qwen3/qwen3-f32.gguf", "olmo2/olmo2-f32.gguf", "granite/granite-f32.gguf"}) {
    const std::vector<Tally> found = tallies(file, {.n_tokens = 12}, {true, false});
    for (const bool with_model : {true, false}) {
      const Tally& of = found[with_model ? 0 : 1];
      EXPECT_THAT(of.wrong, IsEmpty()) << file << with_model;
      EXPECT_GE(of.right.size(), with_model ? 40U : 13U) << file << with_model;
    }
  }
}

TEST_F(Catalogue, LayerNormAndLearnedPositions) {
  const Tally found = tally("gpt2/gpt2-f32.gguf", {});
  EXPECT_THAT(found.wrong, IsEmpty());
  EXPECT_GE(found.right.size(), 25U);
}

// Its rotation has a factor.
TEST_F(Catalogue, SlidingWindowsAndBlocksOfTheKKind) {
  const Tally found = tally("phi3/phi3-q4_k_m.gguf", {});
  EXPECT_THAT(found.wrong, IsEmpty());
  EXPECT_THAT(found.right, testing::IsSupersetOf({"rope-missing", "rope-twice"}));
  EXPECT_GE(found.right.size(), 76U);
}

// The mistakes that a network can have by what it has beside the usual, and their names.
struct Feature {
  const char* model;
  std::set<std::string> names;
};

void PrintTo(const Feature& feature, std::ostream* out) {
  *out << feature.model;
}

class CatalogueOfFeatures : public Catalogue, public testing::WithParamInterface<Feature> {};

INSTANTIATE_TEST_SUITE_P(
    Models, CatalogueOfFeatures,
    testing::Values(
        Feature{"gemma2",
                {"attention_softcap", "logit_softcap", "attention_window", "embedding_scale",
                 "norm_order", "norm_weight_plus_one", "parallel_residual"}},
        Feature{"gemma3", {"attention_window", "rope_base", "rope_scaling", "qk_norm"}},
        Feature{
            "gemma4",
            {"attention_window", "attention_scale", "rope_base", "rope_scaling", "rope_dimensions",
             "qk_norm", "norm_order", "norm_kind", "layer_scale", "logit_softcap"}},
        Feature{"gemma4-ple", {"layer_embedding", "kv_layer", "norm_order", "layer_scale"}},
        Feature{"gemma3n", {"layer_embedding", "logit_softcap", "attention_window", "rope_base"}},
        Feature{"gemma4-moe",
                {"router_scale", "router_weights", "norm_order", "norm_kind", "shared_expert",
                 "experts_used", "expert_order"}},
        Feature{"cohere2",
                {"logit_scale", "attention_window", "rope_unwanted", "rope_missing",
                 "parallel_residual"}},
        Feature{"command-r-plus", {"qk_norm", "logit_scale", "parallel_residual"}},
        Feature{"exaone4", {"rope_unwanted", "qk_norm", "norm_order", "attention_window"}},
        Feature{"smollm3", {"rope_unwanted"}},
        Feature{"lfm2", {"transpose", "kv_shift", "gate_up_swapped", "activation_kind"}},
        Feature{"qwen35",
                {"delta_rule", "bias_missing", "activation_kind", "qk_norm", "attention_scale",
                 "gqa_map", "transpose", "kv_shift", "head_order"}},
        Feature{"qwen35moe",
                {"delta_rule", "gqa_map", "head_order", "router_weights", "shared_expert",
                 "experts_used"}},
        Feature{"qwen3next", {"delta_rule", "gqa_map", "head_order", "fused_order", "kv_shift"}},
        Feature{"granitehybrid",
                {"ssm", "bias_missing", "activation_kind", "gqa_map", "norm_order", "norm_groups",
                 "transpose", "kv_shift", "shared_expert"}},
        Feature{"nemotron_h", {"ssm", "bias_missing", "norm_order", "norm_groups", "kv_shift"}},
        Feature{"falcon-h1",
                {"mixer", "ssm", "bias_missing", "activation_kind", "gqa_map", "kv_shift"}},
        Feature{"nemotron_h_moe",
                {"ssm", "router_scale", "router_weights", "shared_expert", "experts_used"}},
        Feature{"lfm2moe", {"qk_norm", "transpose", "kv_shift", "router_weights", "experts_used"}},
        Feature{"apertus", {"activation_kind", "qk_norm"}},
        Feature{"mistral3", {"attention_scale", "rope_scaling", "rope_attention_factor"}},
        Feature{"gpt-oss",
                {"attention_sinks", "attention_window", "experts_used", "expert_order",
                 "router_weights", "rope_scaling", "rope_attention_factor", "activation_kind"}},
        Feature{"granitemoe",
                {"residual_multiplier", "embedding_scale", "logit_scale", "experts_used",
                 "expert_order", "router_weights", "gate_up_swapped", "gate_as_up", "up_as_gate"}},
        Feature{"mixtral", {"experts_used", "expert_order", "router_weights"}},
        Feature{"olmoe", {"qk_norm", "router_weights", "expert_order", "experts_used"}},
        Feature{"deepseek2",
                {"attention_scale", "rope_scaling", "rope_dimensions", "router_scale",
                 "shared_expert", "head_order"}},
        Feature{"deepseek3", {"rope_dimensions", "router_weights", "experts_used"}},
        Feature{"glm4moe",
                {"rope_dimensions", "qk_norm", "router_scale", "router_weights", "shared_expert",
                 "experts_used"}},
        Feature{"dots1",
                {"qk_norm", "router_scale", "router_weights", "shared_expert", "experts_used"}},
        Feature{"afmoe",
                {"rope_unwanted", "qk_norm", "attention_window", "router_scale", "router_weights",
                 "shared_expert", "experts_used", "norm_order", "embedding_scale"}},
        Feature{"mistral4",
                {"attention_scale", "rope_scaling", "rope_attention_factor", "router_scale",
                 "router_weights", "shared_expert", "experts_used"}},
        Feature{"ernie4_5-moe", {"router_weights", "shared_expert", "experts_used"}},
        Feature{"qwen2moe", {"router_weights", "shared_expert", "experts_used"}},
        Feature{"minimax-m2", {"qk_norm", "rope_dimensions", "router_weights", "experts_used"}},
        Feature{"exaone-moe",
                {"rope_unwanted", "qk_norm", "attention_window", "router_scale", "router_weights",
                 "shared_expert", "experts_used"}},
        Feature{"llama4",
                {"attention_scale", "attention_window", "qk_norm", "rope_scaling", "rope_unwanted",
                 "router_weights", "shared_expert", "experts_used", "expert_order"}},
        Feature{"phimoe", {"router_weights", "expert_order", "bias_missing"}},
        Feature{"mpt", {"alibi_slopes"}},
        Feature{"hunyuan-moe", {"qk_norm", "norm_order", "shared_expert", "experts_used"}},
        Feature{"hunyuan-dense", {"qk_norm", "norm_order"}},
        Feature{"olmo3", {"rope_scaling", "attention_window", "qk_norm"}},
        Feature{"glm4",
                {"rope_dimensions", "norm_order", "fused_order", "layer_order", "output_tied",
                 "kv_swapped"}},
        Feature{"qwen2-yarn", {"rope_scaling", "rope_attention_factor", "rope_dimensions"}},
        Feature{"phi2", {"rope_dimensions", "parallel_residual"}},
        Feature{"gptneox", {"parallel_residual"}}, Feature{"falcon-40b", {"parallel_residual"}}),
    [](const auto& tested) {
      std::string name = tested.param.model;
      std::erase(name, '-');
      return name;
    });

TEST_P(CatalogueOfFeatures, AreNamedAndNothingElse) {
  const std::string model = GetParam().model;
  const Tally found = tally(model + "/" + model + "-f32.gguf",
                            {.n_tokens = 18, .faults = kOfFeatures, .n_predict = 0});
  EXPECT_THAT(found.wrong, IsEmpty());
  EXPECT_THAT(GetParam().names, IsSubsetOf(found.names));
  // All but what only shows where tokens come one by one, what no name is for, and half of the
  // dimensions where fewer are turned. Rows of gates whose number is a layer's own have no name
  // yet.
  std::set<std::string> silent = found.silent;
  if (model == "gemma4-moe" || model == "gemma4-ple") silent.erase("rope-half-the-dimensions");
  if (model == "gemma4-ple") silent.erase("gate-up-read-row-by-row");
  EXPECT_THAT(silent,
              IsSubsetOf({"rope-restarts-in-decode", "conv-state-lost", "linear-conv-state-lost",
                          "delta-state-lost", "ssm-state-lost", "ssm-state-not-reset",
                          "conv-state-late-after-prompt", "kv-late-after-prompt", "norm-missing"}));
}

// What the reference shows of heads, rotation, norms and activation does for a model.
TEST_F(Catalogue, OpLogsSufficeForMostWithoutTheModel) {
  for (const char* file : {"tinyllama/tinyllama-f32.gguf", "qwen2.5/qwen2.5-f32.gguf"}) {
    const Tally found = tally(file, {.with_model = false, .n_tokens = 12});
    EXPECT_THAT(found.wrong, IsEmpty());
    EXPECT_THAT(found.names, IsSubsetOf(kNames));
    EXPECT_GE(found.right.size(), 44U) << file;
    EXPECT_THAT(found.right, testing::IsSupersetOf({"gate-up-swapped", "rows-off-by-one"})) << file;
  }
}

TEST_F(Catalogue, FindsLearnedPositionsWithoutTheModel) {
  const Tally found = tally("gpt2/gpt2-f32.gguf", {.with_model = false});
  EXPECT_THAT(found.wrong, IsEmpty());
  EXPECT_GE(found.right.size(), 25U);
}

// Breaks if the two gates, whose products are of one tensor, were tried one at a time.
TEST_F(Catalogue, LayerLogsNameMistakesOfConvolutions) {
  const std::set<std::string> faults = {
      "conv-gates-swapped",        "conv-late",       "conv-reversed",
      "conv-without-state",        "conv-state-lost", "conv-state-late",
      "conv-state-lost-in-chunks", "conv-silu",       "conv-state-late-after-prompt"};
  const Tally found = tally("lfm2/lfm2-f32.gguf", {.checkpoints = "layers", .faults = faults});
  EXPECT_THAT(found.wrong, IsEmpty());
  EXPECT_EQ(found.right, faults);
}

// Breaks if a mistake were named where what is logged shows another one just so: what stands here
// has its like elsewhere in the layer, or is near to something else.
TEST_F(Catalogue, LayerLogsNameNoWrongCause) {
  const std::set<std::string> faults = {
      "sign",         "scaled",          "token-shift",        "rope-sin-for-cos",
      "rope-twice",   "rope-backwards",  "kv-k-shifted",       "rope-k-position-off-by-one",
      "kv-stale",     "gate-up-swapped", "q-rows-permuted",    "k-v-weights-swapped",
      "kv-f16",       "inputs-bf16",     "branch-ffn-doubled", "heads-interleaved",
      "kv-swapped",   "scores-f16",      "minus-zero",         "norm-unbiased-variance",
      "norm-missing", "tail-dropped",    "layers-swapped",     "gate-not-multiplied",
      "gate-as-up",   "up-as-gate"};
  for (const char* file : {"tinyllama/tinyllama-f32.gguf", "gpt2/gpt2-f32.gguf"}) {
    const Tally found = tally(file, {.checkpoints = "layers", .n_tokens = 6, .faults = faults});
    EXPECT_THAT(found.wrong, IsEmpty()) << file;
    EXPECT_GE(found.right.size(), 8U) << file;
    EXPECT_THAT(found.right, testing::IsSupersetOf({"sign", "scaled"})) << file;
  }
}

// Of a reference that has the last token alone.
TEST_F(Catalogue, OneTokenOfTheReferenceIsEnough) {
  const std::set<std::string> faults = {"window-missing", "token-shift"};
  const Tally found =
      tally("gemma2/gemma2-f32.gguf", {.faults = faults, .n_predict = 0, .ref_from = 21});
  EXPECT_THAT(found.wrong, IsEmpty());
  EXPECT_EQ(found.right, faults);
}

// What is right up to a token is tried in its tail: more may seem to fit there.
TEST_F(Catalogue, TailsNameNoWrongCause) {
  const std::vector<Tally> tails = tallies("qwen2.5/qwen2.5-f32.gguf", {.from = 12}, {true, false});
  for (const bool with_model : {true, false}) {
    const Tally& found = tails[with_model ? 0 : 1];
    // Not to rotate from a token on is to stay at position 0.
    EXPECT_THAT(found.wrong,
                Each(StartsWith("rope-missing is 'rope_missing': layer_1_q_rope stays at "
                                "position 0")))
        << with_model;
    EXPECT_GE(found.right.size(), 40U) << with_model;
    EXPECT_THAT(found.right, testing::IsSupersetOf({"sign", "scaled", "rope-twice"}));
  }
}

// Any difference of such a log is the same vector at every token.
TEST_F(Catalogue, NamesNoConstantForOneRepeatedToken) {
  const std::set<std::string> faults = {"embedding-row-off-by-one",
                                        "norm-weight-missing",
                                        "norm-missing",
                                        "k-v-weights-swapped",
                                        "transposed",
                                        "tail-dropped",
                                        "gate-not-multiplied",
                                        "layers-swapped",
                                        "final-norm-missing",
                                        "output-tied",
                                        "sign"};
  for (const bool with_model : {true, false}) {
    const Tally found = tally("tinyllama/tinyllama-f32.gguf", {.with_model = with_model,
                                                               .n_tokens = 6,
                                                               .faults = faults,
                                                               .tokens = {7, 7, 7, 7, 7, 7},
                                                               .n_predict = 0});
    EXPECT_THAT(found.wrong, IsEmpty()) << with_model;
    EXPECT_THAT(found.right, testing::Contains("sign")) << with_model;
  }
}

TEST_F(Catalogue, FewTokensNameNoWrongCause) {
  for (const size_t n_tokens : {1U, 2U, 3U}) {
    for (const Tally& found :
         tallies("qwen2.5/qwen2.5-f32.gguf", {.n_tokens = n_tokens}, {true, false})) {
      // Of one token to begin again at position 0 with each batch is not to rotate, and attention
      // is its value, times the scale that a cache of 8 bits lacks.
      EXPECT_THAT(found.wrong, Each(AnyOf(StartsWith("rope-restarts-in-decode is 'rope_position': "
                                                     "layer_1_q_rope does not rotate"),
                                          StartsWith("kv-scale-missing is 'kv_scale': "
                                                     "layer_1_attn is multiplied by 8"))))
          << n_tokens;
      if (n_tokens > 1) {
        EXPECT_THAT(found.wrong, IsEmpty()) << n_tokens;
      }
      EXPECT_THAT(found.right, testing::Contains("sign")) << n_tokens;
    }
  }
}

}  // namespace
}  // namespace assay
