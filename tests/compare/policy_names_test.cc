// Globs of a policy that match nothing: a name that is not in these logs, or a mistyped one.
#include "assay/compare/policy_names.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/compare/comparison_case.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class PolicyNames : public ComparisonTest {
 protected:
  std::string policy(const std::string& glob, const std::string& more = "") {
    return put("p.json",
               fmt::format(R"({{{}"checkpoints":{{"{}":{{"rel_l2":1e-6}}}}}})", more, glob));
  }
  std::string problem(const std::string& glob, const std::vector<std::string>& names,
                      const std::string& more = "") {
    const Policy read = Policy::from_file(policy(glob, more));
    return error_of([&] { check_policy_names(read, names); });
  }
};

const std::vector<std::string> kLayers = {"embedding", "layer_0_output", "logits"};

// Breaks if a tolerance that is never applied, as its name is mistyped, let a comparison pass.
TEST_F(PolicyNames, AMistypedGlobIsAnErrorWithTheNearestName) {
  const std::pair<const char*, const char*> cases[] = {
      {"atn_out*", "layer_N_attn_out"},
      {"attn_out*", "layer_N_attn_out"},  // each name begins with its layer
      {"layer_*_atn_out", "layer_N_attn_out"},
      {"layer_*_attn_output", "layer_N_attn_out"},
      {"lyer_*_q_rope", "layer_N_q_rope"},
      {"layer_12_ffn_gat", "layer_N_ffn_gate"},
      {"layer_[0-9]_ffn-up", "layer_N_ffn_up"},
      {"Layer_*_output", "layer_N_output"},
      {"layer_07_output", "layer_N_output"},
      {"layers_*", "layer_N_"},
      {"lgits", "logits"},
      {"Logits", "logits"},
      {"embeddings", "embedding"},
      {"final_norm_*", "final_norm"},
      {"typo*", "layer_N_"},
  };
  for (const auto& [glob, nearest] : cases) {
    for (const auto& names : {kLayers, std::vector<std::string>{"logits"}}) {
      EXPECT_THAT(problem(glob, names),
                  AllOf(HasSubstr(path("p.json") + ": '" + glob +
                                  "' matches no checkpoint of either log, nor any that a network "
                                  "has; the nearest is "),
                        HasSubstr(nearest)))
          << glob;
    }
  }
}

// Breaks if a policy could not be shared by logs of logits alone and of all ops, of other
// architectures and engines.
TEST_F(PolicyNames, ANameThatIsNotInTheseLogsIsNone) {
  for (const char* glob :
       {"layer_*", "layer_0_*", "layer_*_attn_out", "*_attn_out", "*attn_ou?", "layer_125_ffn_up",
        "layer_99_*", "layer_999_router", "layer_[0-9]_q", "layer_1[0-9][0-9]_*", "layer_?_conv*",
        "log*", "logprobs", "final_norm", "*norm", "layer_*_shared_scaled", "layer_300_q",
        // llama.cpp, transformers, the published logs, and others
        "l_out-*", "Qcur-3", "ffn_moe_*-1", "attn_out-?", "result_norm", "inpL", "kq-*",
        "model.layers.*", "model.layers.*.mlp", "transformer.h.3.attn", "*.self_attn.q_proj",
        "layer_*_attn_scores", "blk.*.attn_q", "vision/patch_*", "h[0-9].mix"}) {
    EXPECT_EQ(problem(glob, kLayers), "no error") << glob;
    EXPECT_EQ(problem(glob, {"logits"}), "no error") << glob;
  }
  EXPECT_EQ(problem("lyer*", {"lyer_of_mine", "layer_0_output"}), "no error");
}

TEST_F(PolicyNames, AnEngineMayHaveItsOwn) {
  EXPECT_EQ(problem("mixer_*", {"mixer_0", "logits"}), "no error");
  EXPECT_EQ(problem("routing_*", {"mixer_0", "logits"}), "no error");
  EXPECT_THAT(problem("routing_*", {"mixer_0", "layer_0_output"}), HasSubstr("matches no"));
}

// Breaks if floors that were measured on an engine's own names could not judge a log of fewer.
TEST_F(PolicyNames, FloorsAreOfTheLogsMeasured) {
  const std::string measured = R"("k":3,"measured":{"runs":[{"log":"a","model_sha256":null}]},)";
  EXPECT_EQ(problem("mixer_0", kLayers, measured), "no error");
  EXPECT_THAT(problem("mixer_*", kLayers, measured), HasSubstr("matches no"));
  EXPECT_THAT(problem("mixer_0", kLayers, R"("k":3,)"), HasSubstr("matches no"));
}

TEST_F(PolicyNames, AComparisonReportsBoth) {
  const std::string log = line("logits", 0, {1, 2, 3, 4});
  options_.policy = Policy::from_file(policy("layer_*_attn_out"));
  EXPECT_THAT(compare(log, log).warnings,
              ElementsAre("no checkpoint of either log matches 'layer_*_attn_out', for which the "
                          "policy has a tolerance"));
  options_.policy = Policy::from_file(policy("atn_out*"));
  EXPECT_THAT(failure(log, log), HasSubstr("p.json: 'atn_out*' matches no checkpoint"));
}

// Breaks if a policy for an engine's own names were refused with the map that gives others.
TEST_F(PolicyNames, ANameBeforeTheMapIsOne) {
  const std::string map =
      put("map.json", R"({"rules":[{"name":"mixer_{N}","to":"layer_{N}_output"}]})");
  options_.got_map = NameMap::load(map);
  const std::vector<float> values = {1, 2, 3, 4};
  options_.policy = Policy::from_file(policy("mixer_*"));
  EXPECT_TRUE(compare(line("layer_0_output", 0, values), line("mixer_0", 0, values)).pass);
  options_.policy = Policy::from_file(policy("mixr_*"));
  EXPECT_THAT(failure(line("layer_0_output", 0, values), line("mixer_0", 0, values)),
              HasSubstr("'mixr_*' matches no checkpoint"));
}

}  // namespace
}  // namespace assay
