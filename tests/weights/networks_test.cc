#include "assay/weights/networks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "assay/weights/key_differences.h"
#include "tests/support/paths.h"
#include "tests/weights/edited_model.h"

namespace assay {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using ModelEdit = std::function<void(EditedModel&)>;

EditedModel model(const std::string& name) {
  return EditedModel(source_path("golden/") + name + "/" + name + "-f32.gguf");
}

// The keys that count between two edits of a model, the same whichever of them is the reference.
std::vector<std::string> counting(const std::string& name, const ModelEdit& edit_ref,
                                  const ModelEdit& edit_got) {
  EditedModel one = model(name);
  EditedModel other = one;
  edit_ref(one);
  edit_got(other);
  const Gguf ref = one.gguf();
  const Gguf got = other.gguf();
  std::vector<std::string> warnings;
  const auto of = [&](const Gguf& a, const Gguf& b) {
    std::vector<std::string> keys;
    for (const KeyDifference& key : key_differences(a, b, warnings)) {
      if (key.counts) keys.push_back(key.key);
    }
    return keys;
  };
  EXPECT_EQ(of(ref, got), of(got, ref));
  return of(ref, got);
}

ModelEdit with(const std::string& key, const GgufValue& value) {
  return [=](EditedModel& edited) { edited.metadata[key] = value; };
}

ModelEdit without(const std::string& key) {
  return [=](EditedModel& edited) { edited.metadata.erase(key); };
}

// As a converter of folders states what llama.cpp's leaves out.
void state_gemma2(EditedModel& edited) {
  edited.metadata.erase("gemma2.attention.value_length");
  edited.metadata["gemma2.attention.scale"] = 1.0 / std::sqrt(24.0);
  edited.metadata["gemma2.rope.dimension_count"] = int64_t{24};
  edited.metadata["gemma2.rope.freq_base"] = 10000.0;
}

void state_gemma3(EditedModel& edited) {
  edited.metadata["gemma3.attention.scale"] = 0.25;
  edited.metadata["gemma3.attention.sliding_window_pattern"] = int64_t{6};
  edited.metadata["gemma3.final_logit_softcapping"] = 0.0;
  edited.metadata["gemma3.rope.dimension_count"] = int64_t{16};
}

void state_granite(EditedModel& edited) {
  edited.metadata["granitehybrid.context_length"] = int64_t{512};
  edited.metadata["granitehybrid.expert_feed_forward_length"] = int64_t{16};
}

void state_nemotron(EditedModel& edited) {
  edited.metadata["nemotron_h.attention.layer_norm_rms_epsilon"] =
      edited.metadata.at("nemotron_h.attention.layer_norm_epsilon");
  edited.metadata.erase("nemotron_h.attention.layer_norm_epsilon");
  edited.metadata.erase("nemotron_h.rope.dimension_count");
  edited.metadata.erase("nemotron_h.rope.scaling.finetuned");
  edited.metadata["nemotron_h.context_length"] = int64_t{512};
}

void state_hunyuan(EditedModel& edited) {
  edited.metadata["hunyuan-dense.context_length"] = int64_t{262144};
  edited.metadata["hunyuan-dense.rope.scaling.factor"] = 1.0;
  edited.metadata["hunyuan-dense.rope.scaling.original_context_length"] = int64_t{262144};
  edited.metadata["hunyuan-dense.rope.scaling.type"] = std::string_view("none");
}

const std::vector<std::pair<std::string, ModelEdit>> kFamilies = {{"gemma2", state_gemma2},
                                                                  {"gemma3", state_gemma3},
                                                                  {"granitehybrid", state_granite},
                                                                  {"nemotron_h", state_nemotron},
                                                                  {"hunyuan-dense", state_hunyuan}};

// What would break: right files of whole families called wrong, for a default that one side states.
TEST(Networks, ADefaultThatOneSideStatesDoesNotCount) {
  for (const auto& [name, stated] : kFamilies) {
    EXPECT_THAT(counting(name, stated, [](EditedModel&) {}), IsEmpty()) << name;
  }
}

// What would break: a number that is no default passed for one, or the defaults beside it called
// differences, too.
TEST(Networks, AmongDefaultsOnlyWhatDiffersCounts) {
  const std::vector<std::tuple<std::string, std::string, GgufValue>> cases = {
      {"gemma2", "gemma2.attention.scale", 0.25},
      {"gemma2", "gemma2.rope.freq_base", 10010.0},
      {"gemma2", "gemma2.rope.dimension_count", int64_t{22}},
      {"gemma2", "gemma2.attention.sliding_window", int64_t{9}},
      {"gemma2", "gemma2.attention.layer_norm_rms_epsilon", 0.047},
      {"gemma2", "gemma2.final_logit_softcapping", 3.51},
      {"gemma3", "gemma3.attention.scale", 0.2501},
      {"gemma3", "gemma3.attention.sliding_window_pattern", int64_t{5}},
      {"gemma3", "gemma3.final_logit_softcapping", 30.0},
      {"granitehybrid", "granitehybrid.attention.layer_norm_rms_epsilon", 0.047},
      {"granitehybrid", "granitehybrid.logit_scale", 2.626},
      {"granitehybrid", "granitehybrid.rope.scaling.finetuned", true},
      {"hunyuan-dense", "hunyuan-dense.rope.scaling.factor", 2.0}};
  for (const auto& [name, key, value] : cases) {
    const auto family =
        std::ranges::find(kFamilies, name, &std::pair<std::string, ModelEdit>::first);
    const auto wrong = [&](EditedModel& edited) {
      family->second(edited);
      edited.metadata[key] = value;
      if (key.ends_with("scaling.factor")) {
        edited.metadata["hunyuan-dense.rope.scaling.type"] = std::string_view("linear");
      }
    };
    EXPECT_THAT(counting(name, wrong, [](EditedModel&) {}), ElementsAre(key));
  }
}

// What would break: a wrong number that hides in what is left to rounding.
TEST(Networks, ANumberIsTheSameToTheRoundingOfAFloat) {
  const double scale = 1.0 / std::sqrt(24.0);
  const auto none = [](EditedModel&) {};
  const std::string key = "gemma2.attention.scale";
  EXPECT_THAT(counting("gemma2", with(key, static_cast<double>(static_cast<float>(scale))), none),
              IsEmpty());
  EXPECT_THAT(counting("gemma2", with(key, scale * 1.000001), none), ElementsAre(key));
}

// What would break: YaRN, or factors of long contexts, whose original context is the model's where
// the file states none.
TEST(Networks, TheContextCountsWhereRotationsDependOnIt) {
  const std::string original = "qwen2.rope.scaling.original_context_length";
  const std::string context = "qwen2.context_length";
  EXPECT_THAT(counting("qwen2-yarn", with(context, int64_t{512}), [](EditedModel&) {}), IsEmpty());
  const auto shorter = [&](EditedModel& edited) {
    edited.metadata.erase(original);
    edited.metadata[context] = int64_t{512};
  };
  EXPECT_THAT(counting("qwen2-yarn", shorter, without(original)), ElementsAre(context));
  EXPECT_THAT(counting("qwen2-yarn", without(original), with(original, int64_t{640})), IsEmpty());
}

// What would break: a window that a file asks for in vain, or the temperature and the rotated
// layers of Llama 4, for which its files have defaults.
TEST(Networks, WhatOnlyAFolderSaysCounts) {
  const auto honoured = [](EditedModel& edited) {
    edited.metadata["llama.attention.sliding_window"] = int64_t{4};
    edited.metadata["assay.honours_sliding_window"] = true;
  };
  const auto none = [](EditedModel&) {};
  EXPECT_THAT(counting("llama3", honoured, none),
              ElementsAre("assay.honours_sliding_window", "llama.attention.sliding_window"));
  EXPECT_THAT(counting("llama4", with("llama4.attention.temperature_scale", 0.0), none),
              ElementsAre("llama4.attention.temperature_scale"));
  static const bool kRotated[] = {true, true, false, true};
  static const bool kDefault[] = {true, true, true, false};
  const auto layers = [](const bool(&flags)[4]) {
    return GgufArray{GgufNumbers<bool>(std::as_bytes(std::span(flags)))};
  };
  const std::string key = "assay.rotary_layers";
  EXPECT_THAT(counting("llama4", with(key, layers(kRotated)), none), ElementsAre(key));
  EXPECT_THAT(counting("llama4", with(key, layers(kDefault)), none), IsEmpty());
}

// What would break: two networks that are told apart by no key alone, or of which Assay cannot read
// one, in parity.
TEST(Networks, WhereNothingSaysWhichKeyMattersAllCount) {
  const std::string key = "falcon.mine";
  const auto lacks = [&](const std::string& tensor) {
    return [&, tensor](EditedModel& edited) {
      edited.metadata[key] = 1.0;
      edited.remove(tensor);
    };
  };
  const auto none = [](EditedModel&) {};
  EXPECT_THAT(counting("falcon-40b", with(key, 1.0), none), IsEmpty());
  EXPECT_THAT(counting("falcon-40b", lacks("blk.0.attn_norm_2.weight"), none), ElementsAre(key));
  const auto unread = [&](EditedModel& edited) {
    edited.metadata[key] = 1.0;
    edited.metadata["falcon.attention.clamp_kqv"] = 1.0;
  };
  EXPECT_THAT(counting("falcon-40b", unread, none), ElementsAre("falcon.attention.clamp_kqv", key));
}

}  // namespace
}  // namespace assay
