#include "assay/mutate/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "assay/mutate/mutant_log.h"
#include "assay/record/run.h"
#include "tests/causes/faulty_logs.h"

namespace assay {
namespace {

using testing::IsEmpty;
using testing::IsSubsetOf;

const std::vector<int32_t> kTokens = {1,  45, 120, 7,  201, 33, 90, 250, 16, 77, 150,
                                      64, 99, 43,  12, 13,  14, 15, 16,  17, 18, 19};
const std::set<std::string> kNames = {"rope_pairing",    "rope_position",
                                      "rope_base",       "attention_scale",
                                      "attention_mask",  "gqa_map",
                                      "kv_shift",        "head_order",
                                      "transpose",       "gate_up_swapped",
                                      "activation_kind", "eps",
                                      "norm_kind",       "norm_weight_plus_one",
                                      "bias_missing",    "residual",
                                      "scale",           "sign",
                                      "token_shift",     "row_shift",
                                      "rounding",        "quant_block"};

struct Tally {
  std::set<std::string> right;  // faults
  std::set<std::string> names;  // of their causes
  std::vector<std::string> wrong;
};

class Catalogue : public FaultyLogs {
 protected:
  LogRequest request(const std::string& name) {
    LogRequest request{folder_ + "/" + name, LogOptions(), CheckpointSet("ops")};
    request.options.head_values = kAllValues;
    return request;
  }

  // Each fault of the catalogue that the model can have, in its middle layer.
  Tally tally(const std::string& file, bool with_model) {
    const std::string path = std::string(ASSAY_SOURCE_DIR) + "/golden/" + file;
    const Model model(std::make_shared<Gguf>(path));
    RunOptions right;
    right.model_path = path;
    right.tokens = kTokens;
    right.n_predict = 3;
    right.ignore_eos = true;
    right.backend = "cpu";
    right.log = request("ref");
    run(right, {});
    Tally tally;
    for (const Fault& fault : fault_catalogue()) {
      // Faults of the tokenizer and the sampler leave the network as it is.
      if (!fault.inject || (fault.why_not && !fault.why_not(model).empty())) continue;
      // With NaN no token can be chosen: the log ends there.
      const std::string ended = error_of([&] {
        write_mutant_log({.model_path = path,
                          .fault = fault.name,
                          .layer = std::nullopt,
                          .prompt = std::nullopt,
                          .tokens = kTokens,
                          .n_predict = 3,
                          .n_threads = 1,
                          .log = request("got")});
      });
      EXPECT_TRUE(ended == "no error" || ended.find("no token can be chosen") != std::string::npos)
          << ended;
      const Comparison comparison =
          compare(with_model ? &model : nullptr, folder_ + "/ref", folder_ + "/got", 1e-5);
      for (const Cause& cause : comparison.causes) {
        if (cause.name != fault.cause) {
          tally.wrong.push_back(fault.name + " is '" + fault.cause + "': " + cause.sentence);
        } else {
          tally.right.insert(fault.name);
          tally.names.insert(cause.name);
        }
      }
    }
    return tally;
  }
};

// The one that has them all: bias, groups of heads, quantised weights.
TEST_F(Catalogue, EveryNameIsFoundAndNoneIsGivenWrongly) {
  const Tally found = tally("qwen2.5/qwen2.5-q8_0.gguf", true);
  EXPECT_THAT(found.wrong, IsEmpty());
  std::set<std::string> wanted = kNames;
  wanted.erase("quant_block");  // has its test in find_causes_test.cc
  EXPECT_THAT(wanted, IsSubsetOf(found.names));
  EXPECT_GE(found.right.size(), 45U);
}

TEST_F(Catalogue, LayerNormAndLearnedPositions) {
  const Tally found = tally("gpt2/gpt2-f32.gguf", true);
  EXPECT_THAT(found.wrong, IsEmpty());
  EXPECT_GE(found.right.size(), 25U);
}

TEST_F(Catalogue, SlidingWindowsAndBlocksOfTheKKind) {
  const Tally found = tally("phi3/phi3-q4_k_m.gguf", true);
  EXPECT_THAT(found.wrong, IsEmpty());
  EXPECT_GE(found.right.size(), 45U);
}

TEST_F(Catalogue, WithoutTheModelNothingIsNamedWrongly) {
  const Tally found = tally("tinyllama/tinyllama-f32.gguf", false);
  EXPECT_THAT(found.wrong, IsEmpty());
  EXPECT_THAT(found.names, IsSubsetOf(kNames));
  EXPECT_GE(found.right.size(), 8U);
}

}  // namespace
}  // namespace assay
