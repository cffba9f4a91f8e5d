#include "assay/compare/name_map.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "assay/compare/compare_logs.h"
#include "model/architecture.h"
#include "model/hf_names.h"
#include "tests/compare/log_files.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class NameMapTest : public LogFiles {
 protected:
  static std::vector<std::string> checkpoints(const NameMap& map, const std::string& name) {
    std::vector<std::string> names;
    for (const NameMap::Target& target : map.find(name).targets) names.push_back(target.checkpoint);
    return names;
  }
  NameMap file(const std::string& json) { return NameMap::load(put("map.json", json)); }
  std::string failure(const std::string& json) {
    return error_of([&] { file(json); });
  }
};

TEST_F(NameMapTest, ReadyMapsMatchTheirEngines) {
  const NameMap llama = NameMap::load("llama.cpp");
  EXPECT_THAT(checkpoints(llama, "l_out-7"), ElementsAre("layer_7_output"));
  EXPECT_THAT(checkpoints(llama, "Qcur-31"), ElementsAre("layer_31_q", "layer_31_q_rope"));
  EXPECT_THAT(checkpoints(llama, "result_norm"), ElementsAre("final_norm"));
  EXPECT_THAT(checkpoints(llama, "result_output"), ElementsAre("logits"));
  EXPECT_TRUE(llama.find("Qcur-0 (reshaped)").known);
  EXPECT_THAT(checkpoints(llama, "Qcur-0 (reshaped)"), IsEmpty());
  EXPECT_TRUE(llama.find("norm-0").known);
  EXPECT_FALSE(llama.find("my_tensor").known);

  const NameMap torch = NameMap::load("transformers");
  EXPECT_THAT(checkpoints(torch, "model.layers.12.mlp.gate_proj"),
              ElementsAre("layer_12_ffn_gate"));
  EXPECT_THAT(checkpoints(torch, "model.layers.0"), ElementsAre("layer_0_output"));
  EXPECT_THAT(checkpoints(torch, "transformer.h.3.attn.c_attn"),
              ElementsAre("layer_3_q", "layer_3_k", "layer_3_v"));
  EXPECT_THAT(checkpoints(NameMap::load("transformers:arch=llama"), "lm_head"),
              ElementsAre("logits"));
  EXPECT_THAT(NameMap::ready_names(), ElementsAre("llama.cpp", "transformers", "published"));
  EXPECT_EQ(NameMap::suggest({"a", "ffn_inp-3"}), "llama.cpp");
  EXPECT_EQ(NameMap::suggest({"model.layers.3.mlp"}), "transformers");
  EXPECT_EQ(NameMap::suggest({"model.embed_tokens", "model.layers.3.mlp"}), "transformers");
  EXPECT_EQ(NameMap::suggest({"model.embed_tokens"}), "transformers");
  EXPECT_EQ(NameMap::suggest({"model.embed_tokens", "ffn_inp-3", "ffn_inp-4"}), "llama.cpp");
  EXPECT_EQ(NameMap::suggest({"logits", "layer_0_output"}), "");
}

TEST_F(NameMapTest, SameNameCanDifferBetweenArchitectures) {
  NameMap map = NameMap::load("llama.cpp");
  map.set_arch("phi3");
  EXPECT_THAT(checkpoints(map, "ffn_up-2"), ElementsAre("layer_2_ffn_gate", "layer_2_ffn_up"));
  EXPECT_THAT(checkpoints(NameMap::load("llama.cpp:arch=gpt2"), "Qcur-2"),
              ElementsAre("layer_2_q"));
  NameMap given = NameMap::load("llama.cpp:arch=gpt2");
  given.set_arch("phi3");  // what the user said stays
  EXPECT_THAT(checkpoints(given, "Qcur-2"), ElementsAre("layer_2_q"));
}

// llama.cpp's names of what is a checkpoint in some architecture.
constexpr const char* kLlamaCppNames =
    "embd inp_scaled inpL result_norm result_output attn_norm-1 attn_norm_2-1 Qcur-1 "
    "Kcur-1 Vcur-1 Qcur_normed-1 Kcur_normed-1 q-1 kv_cmpr_pe-1 kv_cmpr-1 kv-1 Vcur_cont-1 "
    "kqv_out-1 attn_out-1 attn_post_norm-1 ffn_inp-1 sa_out-1 ffn_norm-1 ffn_moe_logits-1 "
    "ffn_moe_logits_biased-1 ffn_moe_probs-1 ffn_moe_topk-1 ffn_moe_weights-1 "
    "ffn_moe_weights_norm-1 ffn_moe_weights_scaled-1 ffn_moe_weights_softmax-1 ffn_gate-1 "
    "ffn_gate_b-1 ffn_moe_gate-1 ffn_moe_gate_biased-1 ffn_up-1 ffn_up_b-1 ffn_moe_up-1 "
    "ffn_moe_up_biased-1 ffn_swiglu-1 ffn_geglu-1 ffn_gelu-1 ffn_sqr(relu)-1 "
    "ffn_gate_par-1 ffn_moe_swiglu-1 ffn_moe_swiglu_oai-1 ffn_moe_down-1 "
    "ffn_moe_down_biased-1 ffn_moe_out-1 ffn_shexp-1 ffn_out-1 ffn_post_norm-1 l_out-1 "
    "model.input_embed linear_attn_qkv_mixed-1 z-1 alpha-1 beta-1 conv_output_silu-1 "
    "beta_sigmoid-1 attn_output-1 final_output-1 linear_attn_out-1 Qcur_full-1 Qcur_reshaped-1 "
    "gate_reshaped-1 attn_pregate-1 attn_gated-1 attn_residual-1 model.embed_tokens "
    "linear_attn_mixed_ba-1 a-1 b-1 a_softplus-1 Qcur_view-1 gate-1 shared_expert_gate-1 "
    "shared_expert_gate_sigmoid-1 ffn_shexp_gated-1 mamba2_y_add_d-1 mamba_out-1 "
    "nemotron_h_block_out-1 ffn_moe_relu_sqr-1 Qcur-post-rope-1 "
    "Kcur-post-rope-1 ssm_out-1 layer_out-1 ffn_mlp-1 Qcur_norm-1 "
    "Kcur_norm-1 ffn_moe_weighted-1 ffn_moe_shexp-1 ffn_moe_out_merged-1 inp_embd_scaled "
    "attn_gate_proj-1 Qcur_rope-1 Kcur_rope-1 attn_o_proj-1 ffn_dense_out-1 ffn_shared_out-1 "
    "attn_out_scaled-1 inp_norm-0 wqkv-1 wqkv_clamped-1 Qcur_clamped-1 Kcur_clamped-1 "
    "Vcur_clamped-1 attn_out_norm-1";

// Breaks if llama.cpp's map were refused for an architecture of Assay's, or gave a checkpoint from
// two choices: of the records that are then taken one is another tensor. Which is which,
// llama_cpp_test.py holds to what llama.cpp computed.
TEST_F(NameMapTest, LlamaCppHasOneChoiceOfEachCheckpoint) {
  const auto choice = [](const NameMap::Target& target) {
    return std::pair(target.take, target.transform.part_begin);
  };
  for (const Architecture& architecture : architectures()) {
    const NameMap map = NameMap::load(fmt::format("llama.cpp:arch={}", architecture.name));
    std::map<std::string, std::set<std::pair<std::optional<int64_t>, int64_t>>> choices;
    std::istringstream names(kLlamaCppNames);
    for (std::string name; names >> name;) {
      const NameMap::Found found = map.find(name);
      for (const auto& target : found.targets) choices[target.checkpoint].insert(choice(target));
    }
    for (const auto& [checkpoint, of_it] : choices) {
      EXPECT_EQ(of_it.size(), 1U) << architecture.name << " " << checkpoint;
    }
    for (const char* name :
         {"embedding", "layer_1_q", "layer_1_attn", "layer_1_output", "logits"}) {
      const bool has_streams = has_checkpoint(architecture, Checkpoint::kPredictions);
      const bool may_lack = (architecture.value_scale && name == std::string("layer_1_attn")) ||
                            (has_streams && name == std::string("layer_1_output"));
      EXPECT_TRUE(choices.contains(name) || may_lack) << architecture.name << " " << name;
    }
  }
  EXPECT_THAT(error_of([] { NameMap::load("llama.cpp:arch=rwkv7"); }),
              HasSubstr("A is one of afmoe, apertus, arcee, "));
}

// Breaks if an architecture of Assay's were left out of the map, or had the names of another: what
// is then compared is another tensor, and the cause that is named no mistake of the engine.
TEST_F(NameMapTest, TransformersKnowsEachArchitecture) {
  for (const HfModel& model : hf_models()) {
    for (const Architecture* architecture : architectures_of(model)) {
      const NameMap map = NameMap::load(
          fmt::format("transformers:arch={},head_dim=64,heads=4,kv_heads=2", architecture->name));
      const std::string layer = fmt::format("{}.3", model.layers);
      const std::vector<std::string> output = {"layer_3_output"};
      const bool has_streams = has_checkpoint(*architecture, Checkpoint::kPredictions);
      EXPECT_EQ(checkpoints(map, layer), has_streams ? std::vector<std::string>() : output)
          << architecture->name;
      EXPECT_THAT(checkpoints(map, std::string(hf_module(model, architecture->output_norm))),
                  ElementsAre("final_norm"))
          << architecture->name;
      EXPECT_TRUE(map.find(std::string(hf_module(model, "output"))).known) << architecture->name;
    }
  }
  const auto found = [&](const char* arch, const char* name) {
    return checkpoints(NameMap::load(fmt::format("transformers:arch={},head_dim=8", arch)), name);
  };
  const char* norm = "model.layers.1.post_attention_layernorm";
  EXPECT_THAT(found("llama", norm), ElementsAre("layer_1_ffn_norm"));
  EXPECT_THAT(found("olmo2", norm), ElementsAre("layer_1_post_attn_norm"));
  EXPECT_THAT(found("gemma2", norm), ElementsAre("layer_1_post_attn_norm"));
  EXPECT_THAT(found("gemma4", norm), ElementsAre("layer_1_post_attn_norm"));
  EXPECT_THAT(found("gpt-oss", norm), ElementsAre("layer_1_ffn_norm"));
  EXPECT_THAT(found("falcon", "transformer.h.1.ln_mlp"), ElementsAre("layer_1_ffn_norm"));
  EXPECT_THAT(found("qwen3moe", "model.layers.1.mlp"), ElementsAre("layer_1_ffn_out"));
  // What these do to the output of the module by themselves makes it no logits, and no embedding.
  EXPECT_THAT(found("gemma2", "lm_head"), IsEmpty());
  EXPECT_THAT(found("granite", "lm_head"), IsEmpty());
  EXPECT_THAT(found("granite", "model.embed_tokens"), IsEmpty());
  EXPECT_THAT(found("olmo2", "lm_head"), ElementsAre("logits"));
  // Nor is one what is multiplied behind it, or is another part of the network in other layers.
  for (const auto& [arch, name] : std::vector<std::pair<const char*, const char*>>{
           {"falcon-h1", "model.embed_tokens"},
           {"falcon-h1", "model.layers.1.feed_forward.down_proj"},
           {"falcon-h1", "model.layers.1.self_attn"},
           {"nemotron_h", "model.layers.1.mixer"},
           {"nemotron_h", "model.layers.1.mixer.in_proj"},
           {"mamba", "backbone.layers.1.mixer.x_proj"},
           {"jamba", "model.layers.1.mamba.dt_proj"},
           {"gemma3n", "model.layers.1.altup.router_norm"},
           {"gemma3n", "model.altup_projections.2"},
           {"qwen35", "model.layers.1.linear_attn.in_proj_qkv"},
           {"ernie4_5-moe", "model.layers.1.mlp.experts"},
           {"granitehybrid", "model.layers.1.block_sparse_moe"},
           {"granitehybrid", "model.layers.1.shared_mlp"}}) {
    EXPECT_THAT(found(arch, name), IsEmpty()) << arch << ' ' << name;
    const NameMap map = NameMap::load(fmt::format("transformers:arch={},head_dim=8", arch));
    EXPECT_TRUE(map.find(name).known) << arch << ' ' << name;
  }
  // A router that is called twice is two checkpoints.
  EXPECT_THAT(found("gemma3n", "model.layers.1.altup.modality_router"),
              ElementsAre("layer_1_altup_router", "layer_1_correct_router"));
  EXPECT_THAT(found("gemma3n", "model.layers.1.laurel"), ElementsAre("layer_1_laurel_out"));
  EXPECT_THAT(found("falcon-h1", "model.layers.1.feed_forward"), ElementsAre("layer_1_ffn_out"));
  EXPECT_THAT(found("ernie4_5-moe", "model.layers.1.mlp"), ElementsAre("layer_1_ffn_out"));
  EXPECT_THAT(found("qwen2moe", "model.layers.1.mlp.experts"), ElementsAre("layer_1_routed_out"));
  EXPECT_THAT(found("nemotron_h", "model.layers.1.mixer.out_proj"),
              ElementsAre("layer_1_attn_out"));
  // Of rows that rotate together some files have another order, and all heads' norms theirs.
  const auto rows = [&](const char* arch, const char* name) {
    const NameMap map = NameMap::load(fmt::format("transformers:arch={},head_dim=8", arch));
    return map.find(name).targets.at(0).transform.halves_to_adjacent;
  };
  EXPECT_EQ(rows("granite", "model.layers.0.self_attn.q_proj"), 8);
  EXPECT_EQ(rows("olmo2", "model.layers.0.self_attn.q_proj"), 0);
  EXPECT_EQ(rows("command-r", "model.layers.0.self_attn.k_proj"), 0);
}

// Breaks if what a module of an unknown architecture is were guessed.
TEST_F(NameMapTest, TransformersRejectsAnUnknownArchitecture) {
  NameMap map = NameMap::load("transformers");
  EXPECT_THAT(error_of([&] { map.set_arch("rwkv7"); }),
              AllOf(HasSubstr("transformers: the map knows no architecture 'rwkv7'"),
                    HasSubstr("transformers:arch=A, where A is one of afmoe, apertus, arcee, ")));
  const NameMap unknown = NameMap::load("transformers");
  for (const char* name : {"lm_head", "model.embed_tokens", "model.layers.0.self_attn.k_proj",
                           "model.layers.0.post_attention_layernorm"}) {
    EXPECT_THAT(error_of([&] { unknown.find(name); }), HasSubstr("depends on the architecture"))
        << name;
  }
  NameMap other = NameMap::load("llama.cpp");
  other.set_arch("rwkv7");  // it has names of its own for what differs
}

TEST_F(NameMapTest, AcceptsGlobsAndRegularExpressions) {
  const NameMap map = file(R"j({"rules": [
      {"name": "blk.{N}.out*", "to": "layer_{N}_output"},
      {"regex": "hidden_states\\.([0-9]+)", "to": "layer_{N-1}_output"},
      {"name": "debug*", "to": null}]})j");
  EXPECT_THAT(checkpoints(map, "blk.5.out_final"), ElementsAre("layer_5_output"));
  EXPECT_THAT(checkpoints(map, "blkx5.out"), IsEmpty()) << "a dot is a dot";
  EXPECT_THAT(checkpoints(map, "hidden_states.3"), ElementsAre("layer_2_output"));
  EXPECT_THAT(checkpoints(map, "hidden_states.0"), IsEmpty()) << "there is no layer -1";
  EXPECT_THAT(checkpoints(map, "hidden_states.99999999999999999999"), IsEmpty());
  EXPECT_TRUE(map.find("debug_1").known);
}

TEST_F(NameMapTest, RejectsBadMaps) {
  EXPECT_THAT(error_of([] { NameMap::load("lama.cpp"); }),
              AllOf(HasSubstr("'lama.cpp' is neither a ready map nor a file"),
                    HasSubstr("give llama.cpp, transformers, published, or the path of a file")));
  EXPECT_THAT(error_of([] { NameMap::load("transformers:head=64"); }),
              HasSubstr("no parameter 'head'"));
  EXPECT_THAT(error_of([] { NameMap::load("transformers:head_dim=65"); }), HasSubstr("even"));
  EXPECT_THAT(
      error_of([] { NameMap::load("transformers:arch=zz"); }),
      AllOf(HasSubstr("no architecture 'zz'; give --map transformers:arch=A, where A is one "
                      "of afmoe, apertus, arcee, "),
            HasSubstr(", olmo2, olmoe, ")));
  EXPECT_THAT(error_of([] { NameMap::load("transformers:head_dim=-2"); }), HasSubstr("head_dim"));
  EXPECT_THAT(failure("{"), HasSubstr("not valid JSON at byte"));
  EXPECT_THAT(failure("[]"), HasSubstr("not an object"));
  EXPECT_THAT(failure("{\"rules\":[]}"), HasSubstr("no rules"));
  EXPECT_THAT(failure("{\"rule\":[]}"), HasSubstr("unknown key 'rule'"));
  EXPECT_THAT(failure(R"({"rules":[{"name":"a"}]})"), HasSubstr("rule 1 has no 'to'"));
  EXPECT_THAT(failure(R"({"rules":[{"to":"a"}]})"), HasSubstr("rule 1 has no 'name'"));
  EXPECT_THAT(failure(R"j({"rules":[{"regex":"(","to":"a"}]})j"), HasSubstr("'regex' of rule 1"));
  EXPECT_THAT(failure(R"({"rules":[{"name":"{N}{N}","to":"a"}]})"),
              HasSubstr("{N} is there twice"));
  EXPECT_THAT(failure(R"({"rules":[{"name":"a","to":"b","part":"3/2"}]})"), HasSubstr("'3/2'"));
  EXPECT_THAT(failure(R"({"rules":[{"name":"a","to":"b","tke":1}]})"),
              HasSubstr("'tke' of rule 1"));
  EXPECT_THAT(failure(R"({"rules":[{"name":"a","to":"logits","to":"embedding"}]})"),
              HasSubstr("rule 1 has the key 'to' twice"));
  EXPECT_THAT(failure(R"({"rules":[{"name":"a","to":"b"}],"rules":[{"name":"c","to":"d"}]})"),
              HasSubstr("the map has the key 'rules' twice"));
  EXPECT_THAT(failure(R"({"rules":[{"name":"a{N}","to":"layer_{M}_q"}]})"),
              HasSubstr("'to' of rule 1 is 'layer_{M}_q'; the layer is {N}, {N-1} or {N+1}"));
  EXPECT_THAT(failure(std::string(100000, '[')), HasSubstr("map.json"));
}

// What would break: a rule for ten architectures that is taken for one of that name.
TEST_F(NameMapTest, AGroupStandsForItsArchitectures) {
  const std::string rules =
      R"("rules": [{"name": "a", "to": "logits", "arch": ["some", "phi3"]},
                   {"name": "b", "to": "logits", "arch": ["!some", "!phi3"]}]})";
  const std::string groups = R"({"groups": {"some": ["gpt2", "olmo"]}, )";
  for (const std::string arch : {"gpt2", "olmo", "phi3"}) {
    NameMap map = file(groups + rules);
    map.set_arch(arch);
    EXPECT_EQ(map.find("a").targets.size(), 1) << arch;
    EXPECT_TRUE(map.find("b").targets.empty()) << arch;
  }
  NameMap map = file(groups + rules);
  map.set_arch("llama");
  EXPECT_TRUE(map.find("a").targets.empty());
  EXPECT_EQ(map.find("b").targets.size(), 1);
  EXPECT_THAT(failure(R"({"groups": ["gpt2"], "rules": []})"),
              HasSubstr("'groups' is not an object"));
  EXPECT_THAT(failure(R"({"groups": {"some": "gpt2"}, "rules": []})"),
              HasSubstr("'some' of 'groups' is not an array"));
  EXPECT_THAT(failure(R"({"groups": {"a": ["b"], "a": ["c"]}, "rules": []})"),
              HasSubstr("'groups' has the key 'a' twice"));
  std::string list = R"("gpt2")";
  for (int i = 0; i < 150; ++i) list += R"(, "gpt2")";
  EXPECT_THAT(failure(R"({"groups": {"some": [)" + list +
                      R"(]}, "rules": [{"name": "a", "to": "b", "arch": ["some", "some"]}]})"),
              HasSubstr("'arch' of rule 1 has more than 200 architectures"));
}

// Breaks if the text of a model of images and text, or of one in a wrapper, had no rules.
TEST_F(NameMapTest, PrefixesAreExchangedBeforeARuleIsLookedFor) {
  const std::string rules = R"("rules": [{"name": "model.{N}", "to": "layer_{N}_output"},
                                         {"name": "whole.x", "to": "logits"}]})";
  const NameMap map = file(R"({"prefixes": {"whole.": "", "text.": "model."}, )" + rules);
  const auto only = [&](const std::string& name) {
    const NameMap::Found found = map.find(name);
    return found.targets.size() == 1 ? found.targets[0].checkpoint : "";
  };
  EXPECT_EQ(only("text.3"), "layer_3_output");
  EXPECT_EQ(only("whole.text.3"), "layer_3_output");
  EXPECT_EQ(only("model.3"), "layer_3_output");
  EXPECT_EQ(only("whole.x"), "logits") << "a rule for the name as it is";
  EXPECT_FALSE(map.find("text").known);
  EXPECT_FALSE(file("{" + rules).find("text.3").known);
  EXPECT_THAT(failure(R"({"prefixes": ["a"], )" + rules), HasSubstr("'prefixes' is not an object"));
  EXPECT_THAT(failure(R"({"prefixes": {"a.": 1}, )" + rules),
              HasSubstr("'a.' of 'prefixes' is not a text"));
  EXPECT_THAT(failure(R"({"prefixes": {"": "a"}, )" + rules), HasSubstr("'prefixes' is empty"));
  EXPECT_THAT(failure(R"({"prefixes": {"a": "", "a": "b"}, )" + rules),
              HasSubstr("'prefixes' has the key 'a' twice"));
  EXPECT_THAT(failure(R"({"prefixes": {")" + std::string(2000, 'a') + R"(": ""}, )" + rules),
              HasSubstr("more than 1024 bytes"));
  std::string many = R"("a": "")";
  for (int i = 0; i < 100; ++i) many += fmt::format(R"(, "a{}": "")", i);
  EXPECT_THAT(failure(R"({"prefixes": {)" + many + "}, " + rules),
              HasSubstr("'prefixes' has 101 entries, more than 100"));
}

// Breaks if transformers' modules had names only where nothing but text is in the model.
TEST_F(NameMapTest, TransformersKnowsTheTextOfOtherModels) {
  NameMap map = NameMap::load("transformers:head_dim=4");
  map.set_arch("gemma3");
  for (const std::string place : {"model.", "model.language_model.", "language_model.model.",
                                  "model.text_model.", "model.language_model.model."}) {
    const NameMap::Found found = map.find(place + "layers.2.mlp.up_proj");
    ASSERT_EQ(found.targets.size(), 1) << place;
    EXPECT_EQ(found.targets[0].checkpoint, "layer_2_ffn_up");
  }
  EXPECT_FALSE(map.find("model.vision_tower.layers.2.mlp.up_proj").known);
  EXPECT_TRUE(map.find("model.language_model").known);
  EXPECT_TRUE(map.find("model.language_model").targets.empty());
}

// Breaks if a pattern from outside could hang or crash the program.
TEST_F(NameMapTest, BoundsTheWorkOfHostilePatterns) {
  const NameMap map = file(R"j({"rules": [{"regex": "(a+)+b", "to": "logits"}]})j");
  EXPECT_FALSE(map.find(std::string(1000, 'a')).known);
  EXPECT_FALSE(map.find(std::string(1000000, 'a')).known);
  EXPECT_FALSE(map.find(std::string("\0\xff", 2)).known);
}

TEST_F(NameMapTest, LimitsPatternsAndRules) {
  const auto rule = [](const std::string& key, const std::string& pattern, const std::string& to) {
    return R"({"rules":[{")" + key + R"(":")" + pattern + R"(","to":")" + to + R"("}]})";
  };
  const auto repeated = [](const std::string& part, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += part;
    return text;
  };
  EXPECT_THAT(failure(rule("regex", repeated("()", 65), "logits")),
              HasSubstr("map.json: 'regex' of rule 1: it has 65 groups, more than 64"));
  EXPECT_THAT(failure(rule("regex", repeated("a", 1025), "logits")),
              HasSubstr("'regex' of rule 1 has 1025 bytes, more than 1024"));
  EXPECT_THAT(failure(rule("name", repeated("*", 1025), "logits")), HasSubstr("1025 bytes"));
  EXPECT_THAT(failure(rule("name", "{N}", repeated("{N}", 400))), HasSubstr("1200 bytes"));
  const std::string one = R"({"name":"a","to":"logits"},)";
  EXPECT_THAT(failure(R"({"rules":[)" + repeated(one, 1000) + R"({"name":"b","to":"q"}]})"),
              HasSubstr("the map has 1001 rules, more than 1000"));
  const NameMap grouped = file(rule("regex", repeated("()", 62) + "(?:(a|b)|c)*", "logits"));
  EXPECT_TRUE(grouped.find("abcab").known);
}

// Breaks if the steps were limited for each match alone: these would take a minute.
TEST_F(NameMapTest, NamesOfOneLogShareOneBudget) {
  std::string rules;
  for (int i = 0; i < 300; ++i) {
    rules += fmt::format(R"({}{{"regex":"(a+)+b{}","to":"logits"}})", i > 0 ? "," : "", i);
  }
  const std::string map = R"({"rules":[)" + rules + "]}";
  std::string log = line("logits", 0, {1});
  for (int i = 0; i < 500; ++i) log += line(std::string(500, 'a') + std::to_string(i), 0, {1});
  CompareOptions options;
  options.got_map = file(map);
  const std::string path = put("got.jsonl", log);
  EXPECT_THAT(error_of([&] { compare_logs(path, path, options); }),
              AllOf(HasSubstr("map.json: matching the log's names takes too long at the rule "
                              "'(a+)+b"),
                    HasSubstr("give fewer rules")));
  // Names that match or fail at once cost little.
  MatchBudget budget;
  const NameMap ready = NameMap::load("llama.cpp:arch=llama");
  for (int i = 0; i < 5000; ++i) ready.find("ffn_inp-" + std::to_string(i), budget);
  EXPECT_GT(budget.steps, MatchBudget().steps / 2);
}

Record record_of(std::vector<float> values, int64_t n) {
  Record record;
  record.checkpoint = "q";
  record.n = n;
  record.shape = {n};
  record.values = std::move(values);
  record.summary.emplace();
  record.sketch.emplace();
  return record;
}

TEST_F(NameMapTest, ConvertsHalvesToAdjacentPairs) {
  // Two heads of four: pairs (0, 2), (1, 3).
  Record record = record_of({0, 1, 2, 3, 10, 11, 12, 13}, 8);
  apply_transform({0, 0, 0, 4}, record);
  EXPECT_THAT(record.values, ElementsAre(0, 2, 1, 3, 10, 12, 11, 13));
  EXPECT_FALSE(record.sketch) << "it is of the other order";
  // Of a head of the tensor only whole heads can be put in order.
  record = record_of({0, 1, 2, 3, 10, 11}, 8);
  apply_transform({0, 0, 0, 4}, record);
  EXPECT_THAT(record.values, ElementsAre(0, 2, 1, 3));
  EXPECT_EQ(record.n, 8);
  EXPECT_TRUE(record.summary) << "its norm holds in any order";
  record = record_of({0, 1, 2}, 6);
  EXPECT_THAT(error_of([&] {
                apply_transform({0, 0, 0, 4}, record);
              }),
              HasSubstr("are not whole heads of 4"));
}

// Breaks if the head_dim of a map were taken as the size of what is held.
TEST_F(NameMapTest, OversizedHeadDimAllocatesNothing) {
  Record record = record_of({1, 2}, int64_t{1} << 40);
  apply_transform({0, 0, 0, int64_t{1} << 40}, record);
  EXPECT_THAT(record.values, IsEmpty());
}

TEST_F(NameMapTest, SplitsFusedProjections) {
  std::vector<float> fused(12);
  std::iota(fused.begin(), fused.end(), 0.0F);
  const auto part = [&](const NameMap& map, size_t which, std::vector<float> values) {
    Record record = record_of(std::move(values), 12);
    apply_transform(map.find("qkv").targets.at(which).transform, record);
    return record;
  };
  const std::string rules = R"({"rules": [{"name": "qkv", "to": "q", "part": "q"},
      {"name": "qkv", "to": "k", "part": "k"}, {"name": "qkv", "to": "v", "part": "v"}])";
  const NameMap thirds = file(rules + "}");
  EXPECT_THAT(part(thirds, 1, fused).values, ElementsAre(4, 5, 6, 7));
  const NameMap grouped = file(rules + R"(,"parameters":{"heads":8,"kv_heads":2}})");
  EXPECT_THAT(part(grouped, 0, fused).values, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(part(grouped, 2, fused).values, ElementsAre(10, 11));
  // Of a logged head only the parts that it reaches.
  const Record first = part(grouped, 0, {0, 1, 2});
  EXPECT_THAT(first.values, ElementsAre(0, 1, 2));
  EXPECT_EQ(first.n, 8);
  EXPECT_THAT(part(grouped, 2, {0, 1, 2}).values, IsEmpty());
  const NameMap odd = file(rules + R"(,"parameters":{"heads":4,"kv_heads":3}})");
  EXPECT_THAT(error_of([&] { part(odd, 0, fused); }), HasSubstr("do not divide into 10 parts"));
  const NameMap half = file(rules + R"(,"parameters":{"heads":4}})");
  EXPECT_THAT(error_of([&] { half.find("qkv"); }), HasSubstr("both heads and kv_heads"));
}

}  // namespace
}  // namespace assay
