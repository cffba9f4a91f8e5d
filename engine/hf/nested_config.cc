#include "engine/hf/nested_config.h"

#include <fmt/format.h>

#include <string>

#include "base/json_file.h"
#include "engine/hf/config.h"

namespace assay {
namespace {

constexpr char kAttnPart[] = "attn_config";
constexpr char kFfnPart[] = "ffn_config";
constexpr char kNestedBase[] = "rope_theta";
constexpr char kNestedFunction[] = "ffn_act_fn";
constexpr char kWeightNorm[] = "moe_normalize_expert_weights";

// Keys of the two, and what the class takes where one is missing: a whole number, or 0 if it has to
// be stated.
struct NestedKey {
  const char* part;
  const char* key;
  int64_t usual = 0;
};
constexpr NestedKey kNested[] = {
    {kAttnPart, "kv_n_heads", 1},     {kAttnPart, "clip_qkv"},
    {kAttnPart, kNestedBase},         {kFfnPart, "ffn_hidden_size", 3584},
    {kFfnPart, "moe_num_experts", 4}, {kFfnPart, "moe_top_k", 1}};

// transformers (5.23) turns by the base that stands beside attn_config, 10000 where none does;
// published files state that of attn_config alone, which other engines take.
void check_nested_base(const ConfigObject& object, double base) {
  for (const char* name : {"rope_parameters", "rope_scaling"}) {
    const rapidjson::Value* stated = object.find(name);
    if (stated == nullptr) continue;
    const ConfigObject parameters(*stated, fmt::format("{}, {}", object.where(), name));
    if (parameters.find(kNestedBase) != nullptr && parameters.positive({kNestedBase}) != base) {
      parameters.refuse(kNestedBase, fmt::format("is not {}, that of {}", base, kAttnPart));
    }
  }
  if (object.find(kNestedBase) != nullptr && object.positive({kNestedBase}) != base) {
    object.refuse(kNestedBase, fmt::format("is not {}, that of {}", base, kAttnPart));
  }
}

}  // namespace

rapidjson::Document with_nested_keys(const ConfigObject& object, const HfModel& model) {
  rapidjson::Document all;
  auto& allocator = all.GetAllocator();
  all.CopyFrom(object.json(), allocator);
  if (!model.nested_config) return all;
  static const rapidjson::Value kNone(rapidjson::kObjectType);
  const auto part = [&](const char* name) {
    const rapidjson::Value* found = object.find(name);
    return ConfigObject(found == nullptr ? kNone : *found,
                        fmt::format("{}, {}", object.where(), name));
  };
  const auto put = [&](const char* key, rapidjson::Value value) {
    all.RemoveMember(key);
    all.AddMember(rapidjson::StringRef(key), value, allocator);
  };
  const double base = part(kAttnPart).positive({kNestedBase});
  check_nested_base(object, base);
  for (const NestedKey& each : kNested) {
    const ConfigObject of = part(each.part);
    const rapidjson::Value* found = of.find(each.key);
    if (found != nullptr) {
      put(each.key, rapidjson::Value(*found, allocator));
    } else if (each.usual > 0 && !of.states(each.key)) {
      put(each.key, rapidjson::Value(each.usual));
    }
  }
  const ConfigObject feed_forward = part(kFfnPart);
  if (const rapidjson::Value* found = feed_forward.find(kNestedFunction)) {
    const ConfigObject function(*found,
                                fmt::format("{}, {}", feed_forward.where(), kNestedFunction));
    const std::string name = function.text({"name"}, "silu");
    put(kNestedFunction, rapidjson::Value(name.c_str(), allocator));
  }
  const bool unweighed =
      feed_forward.states(kWeightNorm) && feed_forward.find(kWeightNorm) == nullptr;
  if (unweighed || feed_forward.positive({kWeightNorm}, 1.0) != 1.0) {
    feed_forward.refuse(kWeightNorm, "is not 1", "Assay makes the weights of experts add up to 1");
  }
  return all;
}

}  // namespace assay
