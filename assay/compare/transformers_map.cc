#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "assay/compare/name_map.h"
#include "model/architecture.h"
#include "model/hf_names.h"

// The map of transformers' modules, of which outputs are hooked: what each computes in each
// architecture follows from model/hf_names.cc and the ops of its layer.
namespace assay {
namespace {

// Pattern and what it stands for, as the fields of a rule after its name.
using Rule = std::pair<std::string, std::string>;

constexpr const char* kNoCheckpoint = "\"to\": null";

class Rules {
 public:
  void add(const std::string& name, const std::string& fields, std::string_view architecture) {
    const Rule rule{name, fields};
    auto& architectures = architectures_[rule];
    if (architectures.empty()) order_.push_back(rule);
    architectures.insert(std::string(architecture));
  }

  // Of a module that holds others, which is what its last part is; no checkpoint where that differs
  // from layer to layer, as in Nemotron-H's mixers.
  void add_parent(const std::string& name, const std::string& fields,
                  std::string_view architecture) {
    const auto [place, added] = parents_.try_emplace({name, std::string(architecture)}, fields);
    if (!added && place->second != fields) place->second = kNoCheckpoint;
  }

  // Adds them.
  void put_parents() {
    for (const auto& [place, fields] : parents_) add(place.first, fields, place.second);
    parents_.clear();
  }

  std::string json() const {
    std::string text;
    for (const Rule& rule : order_) {
      text += fmt::format("{{\"name\": \"{}\", {}, \"arch\": [\"{}\"]}},\n", rule.first,
                          rule.second, fmt::join(architectures_.at(rule), "\", \""));
    }
    return text;
  }

 private:
  std::vector<Rule> order_;
  std::map<Rule, std::set<std::string>> architectures_;
  std::map<std::pair<std::string, std::string>, std::string> parents_;
};

std::string to(Checkpoint checkpoint) {
  const std::string_view layer = is_in_layer(checkpoint) ? "layer_{N}_" : "";
  return fmt::format("\"to\": \"{}{}\"", layer, checkpoint_op(checkpoint));
}

// Of the ops that one module computes, whose outputs are parts of its own in their order.
std::string part_of(const HfModel& model, const std::vector<const OpSpec*>& ops, size_t i) {
  if (ops.size() == 1) return {};
  if (ops.front()->out != Checkpoint::kQ) {
    return fmt::format(", \"part\": \"{}/{}\"", i + 1, ops.size());
  }
  // No part of rows that follow each other is what one key-value head after another has.
  return model.fused_by_kv_head ? "" : fmt::format(", \"part\": \"{}\"", "qkv"[i]);
}

// What files have in another order of heads or in parts that are not equal, or without its bias.
bool is_of_state(Checkpoint out) {
  constexpr Checkpoint kAll[] = {
      Checkpoint::kLinearQkv, Checkpoint::kLinearZ, Checkpoint::kLinearA, Checkpoint::kLinearB,
      Checkpoint::kLinearBa,  Checkpoint::kSsmXbc,  Checkpoint::kSsmDt,   Checkpoint::kSsmDtIn,
      Checkpoint::kSsmB,      Checkpoint::kSsmC,    Checkpoint::kSsmStep};
  return std::ranges::find(kAll, out) != std::end(kAll);
}

// Whether a number of config.json multiplies what the module gives, which a checkpoint has with it.
bool is_scaled(const HfModel& model, std::string_view tensor) {
  return std::ranges::any_of(model.scales, [&](const HfScale& scale) {
    return scale.tensor == tensor && !scale.of_input;
  });
}

// Whether a module computes the op that is called for another before, whose parameters it shares:
// the router of residual streams, of what the norm before it gives undivided.
bool is_called_twice(Checkpoint out) {
  return out == Checkpoint::kAltupRouter || out == Checkpoint::kCorrectRouter ||
         out == Checkpoint::kAltupNorm || out == Checkpoint::kCorrectNorm;
}

// Of several residual streams, which modules are given and give in another order of dimensions.
bool has_streams(const Architecture& architecture) {
  return has_checkpoint(architecture, Checkpoint::kPredictions);
}

bool is_of_heads(const OpSpec& op) {
  return op.kind == OpKind::kNorm && is_norm_of_heads(op.out);
}

void add_module(const HfModel& model, const Architecture& architecture, const std::string& name,
                const std::vector<const OpSpec*>& ops, Rules& rules) {
  const bool other_rows = architecture.position == PositionKind::kRotary &&
                          architecture.rope_pairing != model.rope_pairing;
  const bool in_parts = ops.size() > 1 && ops.front()->out == Checkpoint::kQ;
  const bool of_halves = ops.front()->out == Checkpoint::kSsmX;
  for (size_t i = 0; i < ops.size(); ++i) {
    const OpSpec& op = *ops[i];
    // Such norms are given heads in a dimension of their own.
    // And what leaves the module of a convolution has not been gated.
    const bool no_rows = (is_of_heads(op) && op.norm_width == Width::kHead) ||
                         (in_parts && model.fused_by_kv_head) || op.kind == OpKind::kConv ||
                         (is_of_state(op.out) && !of_halves) || is_scaled(model, op.tensor) ||
                         (op.out == Checkpoint::kRouter && model.router_gives_scores);
    if (is_called_twice(op.out)) {
      const bool is_norm = op.kind == OpKind::kNorm;
      rules.add(
          name,
          is_norm ? kNoCheckpoint : to(op.out) + (i == 0 ? ", \"take\": 0" : ", \"take\": -1"),
          architecture.name);
      continue;
    }
    std::string fields = no_rows ? kNoCheckpoint : to(op.out) + part_of(model, ops, i);
    const bool of_heads = op.out == Checkpoint::kQ || op.out == Checkpoint::kK || is_of_heads(op);
    if (of_heads && other_rows && !no_rows) fields += ", \"rows\": \"halves\"";
    rules.add(name, fields, architecture.name);
  }
}

// Nothing for one that no other holds.
std::string parent_of(std::string_view module) {
  const size_t end = module.rfind('.');
  return end == std::string_view::npos ? std::string() : std::string(module.substr(0, end));
}

// Whether the layer adds a shared expert of another module to what the experts' module gives.
bool has_shared_beside(const HfModel& model, std::span<const OpSpec> layer,
                       const std::string& parent) {
  return std::ranges::any_of(layer, [&](const OpSpec& op) {
    return op.out == Checkpoint::kSharedOut && !hf_module(model, op).starts_with(parent + ".");
  });
}

// Whether a layer of the architecture that comes before this one has another checkpoint of the
// module: Gemma 4's feed-forward, which is a shared expert where there are others. A name says
// which only with the network; sizes differ then, so that it is not taken for the other unseen.
bool is_something_else_before(const HfModel& model, const Architecture& architecture,
                              const std::string& module, Checkpoint checkpoint) {
  if (!is_of_shared_expert(checkpoint)) return false;
  return std::ranges::any_of(architecture.layer, [&](const OpSpec& op) {
    return op.out != checkpoint && hf_module(model, op) == module;
  });
}

// Whether any other layer has another checkpoint of it, of the same size: experts, beside a shared
// one or alone, and a feed-forward beside experts.
bool is_ambiguous(const HfModel& model, const Architecture& architecture, const std::string& module,
                  const OpSpec& op) {
  if (op.kind != OpKind::kMix && !model.shared_mlp) return false;
  const auto differs = [&](std::span<const OpSpec> layer) {
    const auto is_of_module = [&](const OpSpec& each) { return hf_module(model, each) == module; };
    const auto is_it = [&](const OpSpec& each) { return is_of_module(each) && each.out == op.out; };
    return std::ranges::any_of(layer, is_of_module) && std::ranges::none_of(layer, is_it);
  };
  return differs(architecture.layer) ||
         std::ranges::any_of(architecture.variants, differs, &LayerVariant::ops);
}

void add_layer(const HfModel& model, const Architecture& architecture,
               std::span<const OpSpec> layer, Rules& rules) {
  const std::string path = std::string(model.layers) + ".{N}";
  std::vector<std::string> modules;  // in the order of the ops
  std::map<std::string, std::vector<const OpSpec*>> ops_of;
  for (const OpSpec& op : layer) {
    const std::string module(hf_module(model, op));
    if (module.empty() || is_something_else_before(model, architecture, module, op.out)) continue;
    auto& ops = ops_of[module];
    if (ops.empty()) modules.push_back(module);
    ops.push_back(&op);
  }
  for (const std::string& module : modules) {
    const OpSpec& last = *ops_of.at(module).front();
    const bool is_unclear = is_ambiguous(model, architecture, module, last);
    if (is_unclear) {
      rules.add(path + "." + module, kNoCheckpoint, architecture.name);
    } else {
      add_module(model, architecture, path + "." + module, ops_of.at(module), rules);
    }
    const Checkpoint out = last.out;
    const bool of_ffn = out == Checkpoint::kFfnOut || out == Checkpoint::kRoutedOut;
    const std::string parent = parent_of(module);
    if (parent.empty() || (out != Checkpoint::kAttnOut && !of_ffn)) continue;
    if (of_ffn && model.adds_in_feed_forward) continue;
    const bool is_part_of_ffn =
        has_shared_beside(model, layer, parent) || (is_unclear && last.kind != OpKind::kMix);
    // What multiplies attention stands behind its module.
    const bool is_part = of_ffn ? is_part_of_ffn : is_scaled(model, last.tensor);
    const Checkpoint whole = of_ffn ? Checkpoint::kFfnOut : out;
    rules.add_parent(path + "." + parent, is_part ? kNoCheckpoint : to(whole), architecture.name);
  }
  if (has_streams(architecture)) {
    rules.add(path + ".laurel", to(Checkpoint::kLaurelOut), architecture.name);
  } else {
    rules.add(path, to(Checkpoint::kOutput), architecture.name);
  }
}

void add_outside(const HfModel& model, const Architecture& architecture, Rules& rules) {
  const auto has = [&](Multiplier multiplier) {
    return (architecture.multipliers & bit(multiplier)) != 0;
  };
  const auto add = [&](std::string_view tensor, Checkpoint checkpoint, bool is_all) {
    const bool is_it = is_all && !is_scaled(model, tensor);
    rules.add(std::string(hf_module(model, tensor)), is_it ? to(checkpoint) : kNoCheckpoint,
              architecture.name);
  };
  // What the model does to a module's output by itself makes that no checkpoint.
  const bool learned = architecture.position == PositionKind::kLearned;
  add("token_embd", Checkpoint::kEmbedding,
      !learned && !architecture.embedding_root && !architecture.embedding_norm &&
          !has(Multiplier::kEmbedding));
  if (architecture.embedding_norm && !model.one_norm_module) {
    add("token_embd_norm", Checkpoint::kEmbedding, true);
  }
  if (learned && model.layers.starts_with("transformer.")) {
    rules.add("transformer.drop", to(Checkpoint::kEmbedding), architecture.name);
  }
  if (model.one_norm_module) {
    rules.add(std::string(hf_module(model, architecture.output_norm)),
              to(Checkpoint::kFinalNorm) + ", \"take\": -1", architecture.name);
  } else {
    add(architecture.output_norm, Checkpoint::kFinalNorm, true);
  }
  add("output", Checkpoint::kLogits, !architecture.soft_caps && !has(Multiplier::kLogits));
}

// In models of images or sound and text.
constexpr const char* kOfText = R"json({"prefixes": {
"language_model.lm_head": "lm_head",
"model.language_model.model.": "model.", "model.language_model.": "model.", "language_model.model.": "model.",
"model.text_model.": "model."
}, "rules": [
)json";

// Modules that hold others, or compute nothing that has a name.
constexpr const char* kLeftOut = R"json(
{"regex": "model\\.(language_model|text_model)|language_model(\\.model)?", "to": null},
{"regex": "model\\.(altup_projections|altup_unembed_projections)(\\.[0-9]+)?|model\\.layers\\.[0-9]+\\.altup", "to": null},
{"regex": "transformer\\.blocks\\.[0-9]+\\.(norm_attn_norm|ffn\\.router|ffn\\.experts\\.mlp)", "to": null},
{"regex": "model(\\.rotary_emb|\\.layers|\\.decoder(\\.layers|\\.embed_positions)?)?|gpt_neox(\\.layers)?|transformer(\\.wpe|\\.h)?", "to": null},
{"regex": ".*\\.(act|act_fn|activation_fn|resid_dropout|attn_dropout|attention_dropout|dropout|emb_dropout|rotary_emb|resid_attn_dropout|resid_mlp_dropout|post_attention_dropout|post_mlp_dropout)", "to": null}
]})json";

}  // namespace

std::string transformers_map() {
  Rules rules;
  for (const HfModel& model : hf_models()) {
    for (const Architecture* architecture : architectures_of(model)) {
      add_outside(model, *architecture, rules);
      add_layer(model, *architecture, architecture->layer, rules);
      for (const LayerVariant& variant : architecture->variants) {
        add_layer(model, *architecture, variant.ops, rules);
      }
    }
  }
  rules.put_parents();
  return kOfText + rules.json() + (kLeftOut + 1);
}

}  // namespace assay
