#include "model/hf_modules.h"

#include <algorithm>
#include <string>

#include "model/hf_names.h"

namespace assay {
namespace {

const HfName* find_name(std::span<const HfName> names, std::string_view tensor) {
  const auto found = std::find_if(names.begin(), names.end(),
                                  [&](const HfName& name) { return name.tensor == tensor; });
  return found == names.end() ? nullptr : &*found;
}

// Of q, k and v, which a file may have in one tensor, the tensor of their own.
std::string_view of_attention(const OpSpec& op) {
  if (op.out == Checkpoint::kQ && op.tensor != "attn_q_b") return "attn_q";
  if (op.out == Checkpoint::kK) return "attn_k";
  return op.out == Checkpoint::kV ? "attn_v" : "";
}

}  // namespace

std::vector<std::string_view> hf_modules(const HfModel& model, std::string_view tensor) {
  std::vector<std::string_view> modules;
  const auto add = [&](std::span<const HfName> names) {
    for (const HfName& name : names) {
      if (name.tensor.substr(0, name.tensor.find('/')) == tensor) modules.push_back(name.module);
    }
  };
  add(model.names);
  if (find_name(model.names, tensor) == nullptr) add(module_names::kNames);
  return modules;
}

std::string_view hf_module(const HfModel& model, std::string_view tensor) {
  const HfName* name = find_name(model.names, tensor);
  if (name == nullptr) name = find_name(module_names::kNames, tensor);
  return name == nullptr ? "" : name->module;
}

std::string_view hf_module(const HfModel& model, const OpSpec& op) {
  if (op.kind == OpKind::kMix) {
    return is_of_shared_expert(op.out) ? std::string_view()
                                       : hf_module(model, module_names::kMixture);
  }
  if (op.kind != OpKind::kNorm && op.kind != OpKind::kLinear && op.kind != OpKind::kConv) return "";
  // A parameter of a larger module, or a module whose output all layers share.
  if (op.suffix != kWeightSuffix || op.of_model) return "";
  const std::string special = std::string(op.tensor) + "/" + std::string(checkpoint_op(op.out));
  if (const HfName* name = find_name(model.names, special)) return name->module;
  const std::string_view separate = of_attention(op);
  if (separate.empty()) return hf_module(model, op.tensor);
  const std::string_view fused = hf_module(model, "attn_qkv");
  return fused.empty() ? hf_module(model, separate) : fused;
}

}  // namespace assay
