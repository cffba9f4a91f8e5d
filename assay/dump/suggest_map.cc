#include "assay/dump/suggest_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>

#include "assay/dump/foreign_names.h"
#include "assay/log/json_text.h"
#include "model/architecture.h"
#include "model/hf_names.h"

namespace assay {
namespace {

struct Target {
  Checkpoint checkpoint = Checkpoint::kOutput;
  std::string part = {};  // as in a map
  bool hf_rows = true;    // rows of Q and K are in transformers' order
};
using Targets = std::vector<Target>;
// By module: within the layers from the layer on, which is "" itself; else by its whole path.
using Modules = std::map<std::string, Targets, std::less<>>;

struct KnownModel {
  Modules in_layer;
  Modules outside;
};

// "model.layers.{N}.mlp" of model.layers.7.mlp, "blk{N}/attn_norm" of blk7/attn_norm.
std::string with_layer_left_open(const std::string& name) {
  if (const auto digits = find_layer_digits(name)) {
    return name.substr(0, digits->begin) + "{N}" + name.substr(digits->end);
  }
  for (size_t at = 0; at < name.size();) {
    const size_t end = std::min(name.find('.', at), name.size());
    const std::string_view part(name.data() + at, end - at);
    if (at > 0 && !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos) {
      return name.substr(0, at) + "{N}" + name.substr(end);
    }
    at = end + 1;
  }
  return name;
}

// The modules of one of the model's kinds of layers.
Modules modules_of_layer(const HfModel& model, std::span<const OpSpec> layer) {
  Modules modules;
  modules[""] = {{Checkpoint::kOutput}};
  for (const OpSpec& op : layer) {
    const std::string module(hf_module(model, op));
    if (!module.empty() && op.kind != OpKind::kConv) modules[module].push_back({op.out});
    // The block that ends with this product.
    const size_t dot = module.rfind('.');
    const bool ends = op.out == Checkpoint::kAttnOut || op.out == Checkpoint::kFfnOut;
    if (ends && dot != std::string::npos) modules[module.substr(0, dot)] = {{op.out}};
  }
  for (auto& [module, targets] : modules) {
    if (targets.size() < 2) continue;
    const bool is_attention = targets.size() == 3 && targets[0].checkpoint == Checkpoint::kQ;
    for (size_t i = 0; i < targets.size(); ++i) {
      targets[i].part =
          is_attention ? std::string(1, "qkv"[i]) : fmt::format("{}/{}", i + 1, targets.size());
    }
    // Such rows are no part that a map can name.
    if (is_attention && model.fused_by_kv_head) targets.clear();
  }
  return modules;
}

KnownModel modules_of(const HfModel& model) {
  KnownModel known;
  const auto add_outside = [&](std::string_view tensor, Checkpoint checkpoint) {
    known.outside[std::string(hf_module(model, tensor))] = {{checkpoint}};
  };
  add_outside("token_embd", Checkpoint::kEmbedding);
  add_outside("output", Checkpoint::kLogits);
  const std::vector<const Architecture*> architectures = architectures_of(model);
  if (architectures.empty()) return known;
  const Architecture* architecture = architectures.back();
  add_outside(architecture->output_norm, Checkpoint::kFinalNorm);
  known.in_layer = modules_of_layer(model, architecture->layer);
  for (const LayerVariant& variant : architecture->variants) {
    known.in_layer.merge(modules_of_layer(model, variant.ops));
  }
  return known;
}

// "hidden_states.{N}": a number that no layer is said to have.
bool is_numbered_otherwise(const std::string& pattern) {
  return pattern.ends_with("{N}") &&
         !find_layer_digits(pattern.substr(0, pattern.size() - 3) + "0");
}

const Targets* find(const KnownModel& model, const std::string& pattern) {
  if (is_numbered_otherwise(pattern)) return nullptr;
  const size_t layer = pattern.find("{N}");
  if (layer != std::string::npos) {
    const std::string bare = bare_name(pattern.substr(layer + 3));
    // Elsewhere than in GPT-2 it may be the attention before its product.
    if (bare == "attn" && pattern.find("h.{N}.") == std::string::npos) return nullptr;
    const auto found = model.in_layer.find(pattern.substr(std::min(layer + 4, pattern.size())));
    if (found != model.in_layer.end()) return &found->second;
    // Written with other separators.
    for (const auto& [module, targets] : model.in_layer) {
      if (bare == bare_name(module)) return &targets;
    }
    return nullptr;
  }
  for (const auto& [module, targets] : model.outside) {
    if (module.empty()) continue;
    const bool same = pattern == module || pattern.ends_with("." + module) ||
                      ("." + module).ends_with("." + pattern);
    if (same) return &targets;
  }
  return nullptr;
}

// What other engines call so.
Targets find_foreign(const std::string& pattern) {
  if (is_numbered_otherwise(pattern)) return {};
  const size_t layer = pattern.find("{N}");
  const std::vector<ForeignTarget> found =
      layer == std::string::npos ? foreign_targets_outside(pattern)
                                 : foreign_targets_in_layer(pattern.substr(layer + 3));
  Targets targets;
  for (const ForeignTarget& each : found) {
    targets.push_back({each.checkpoint, std::string(each.part), each.hf_rows});
  }
  return targets;
}

// Of the model's modules, else of any engine's.
Targets find_anywhere(const KnownModel& model, const std::string& pattern) {
  const Targets* targets = find(model, pattern);
  return targets != nullptr ? *targets : find_foreign(pattern);
}

std::string checkpoint_text(Checkpoint checkpoint) {
  const std::string op(checkpoint_op(checkpoint));
  return is_in_layer(checkpoint) ? "layer_{N}_" + op : op;
}

void append_rule(std::string& text, const std::string& name, const Target* target,
                 std::string_view more = {}) {
  text += text.ends_with("[") ? "\n" : ",\n";
  text += "{\"name\": ";
  append_json_string(text, name);
  text += ", \"to\": ";
  if (target == nullptr) {
    text += "null}";
    return;
  }
  append_json_string(text, checkpoint_text(target->checkpoint));
  if (!target->part.empty()) text += fmt::format(", \"part\": \"{}\"", target->part);
  text += more;
  text += '}';
}

}  // namespace

bool is_checkpoint(std::string_view name) {
  constexpr std::string_view kLayer = "layer_";
  if (!name.starts_with(kLayer)) return find_checkpoint(name, false).has_value();
  name.remove_prefix(kLayer.size());
  const size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
  return digits > 0 && digits < name.size() && name[digits] == '_' &&
         find_checkpoint(name.substr(digits + 1), true).has_value();
}

SuggestedMap suggest_map(const std::vector<DumpedName>& names) {
  std::map<std::string, int64_t> widths;  // of each pattern
  std::vector<std::string> patterns;      // in the order of the dump
  for (const DumpedName& name : names) {
    if (is_checkpoint(name.name)) continue;
    const std::string pattern = with_layer_left_open(name.name);
    if (widths.emplace(pattern, name.width).second) patterns.push_back(pattern);
  }
  KnownModel best;
  const HfModel* best_model = nullptr;
  int64_t most = -1;
  for (const HfModel& model : hf_models()) {
    const KnownModel known = modules_of(model);
    const auto count = std::count_if(patterns.begin(), patterns.end(), [&](const auto& pattern) {
      return find(known, pattern) != nullptr;
    });
    if (count <= most) continue;
    most = count;
    best = known;
    best_model = &model;
  }
  // The width of the residual stream, by most of what has it.
  const auto has_width = [](const Targets& targets) {
    return targets.size() == 1 && has_model_width(targets.front().checkpoint);
  };
  std::map<int64_t, int> votes;
  for (const std::string& pattern : patterns) {
    if (has_width(find_anywhere(best, pattern))) ++votes[widths[pattern]];
  }
  const auto width = std::max_element(
      votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  SuggestedMap map;
  map.json = "{\"rules\": [";
  for (const std::string& pattern : patterns) {
    const Targets targets = find_anywhere(best, pattern);
    const bool of_model = has_width(targets);
    if (targets.empty() || (of_model && widths[pattern] != width->first)) {
      map.unknown.push_back(pattern);
      append_rule(map.json, pattern, nullptr);
      continue;
    }
    ++map.known;
    // vLLM has it in models of any kind.
    const bool may_be_llama =
        best_model->architecture == "llama" || pattern.ends_with("self_attn.qkv_proj");
    for (const Target& target : targets) {
      const bool turned =
          may_be_llama && target.hf_rows &&
          (target.checkpoint == Checkpoint::kQ || target.checkpoint == Checkpoint::kK);
      // The rows of Q and K have another order in the GGUF files of this architecture alone.
      if (turned) {
        append_rule(map.json, pattern, &target, R"(, "rows": "halves", "arch": ["llama"])");
      }
      append_rule(map.json, pattern, &target, turned ? R"(, "arch": ["!llama"])" : "");
    }
  }
  map.json += "\n]}\n";
  return map;
}

}  // namespace assay
