// The Python package has the names from model/checkpoint.cc, and the networks of architecture.cc
// with their modules of hf_names.cc, in files that are generated from them.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/architecture.h"
#include "model/checkpoint.h"
#include "model/hf_names.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

const std::string kFolder = source_path("python/assay_tap/");

std::string list_of(Checkpoint first, Checkpoint last) {
  std::string names;
  for (int i = static_cast<int>(first); i <= static_cast<int>(last); ++i) {
    names += fmt::format("    \"{}\",\n", checkpoint_op(static_cast<Checkpoint>(i)));
  }
  return names;
}

std::string names() {
  return "\"\"\"The checkpoints in the order in which a network computes them.\n\n"
         "Those of a layer, and those after all layers; the embedding comes first. Generated from\n"
         "model/checkpoint.cc: do not edit, run ASSAY_GENERATE=1 model_test.\n\"\"\"\n\n"
         "LAYER = (\n" +
         list_of(Checkpoint::kAltupProj, Checkpoint::kOutput) + ")\nLAST = (\n" +
         list_of(Checkpoint::kFinalNorm, Checkpoint::kLogits) + ")\n";
}

std::string_view kind_name(OpKind kind) {
  switch (kind) {
    case OpKind::kEmbedding:
      return "embedding";
    case OpKind::kNorm:
      return "norm";
    case OpKind::kLinear:
      return "linear";
    case OpKind::kRope:
      return "rope";
    case OpKind::kHeads:
      return "heads";
    case OpKind::kIndex:
      return "index";
    case OpKind::kAttention:
      return "attention";
    case OpKind::kConv:
      return "conv";
    case OpKind::kDelta:
      return "delta";
    case OpKind::kSsm:
      return "ssm";
    case OpKind::kActivation:
      return "activation";
    case OpKind::kAdd:
      return "add";
    case OpKind::kSelect:
      return "select";
    case OpKind::kWeigh:
      return "weigh";
    case OpKind::kSpread:
      return "spread";
    case OpKind::kExpertLinear:
      return "expert_linear";
    case OpKind::kMix:
      return "mix";
    case OpKind::kCutoff:
      return "cutoff";
    case OpKind::kStreams:
      return "streams";
    case OpKind::kStreamLinear:
      return "stream_linear";
  }
  return "";
}

std::string_view place_name(LayerPlace place) {
  constexpr std::string_view kNames[] = {"", "first", "last", "only"};
  return kNames[static_cast<size_t>(place)];
}

// The items, each with a comma, as many a line as fit.
std::string lines_of(const std::vector<std::string>& items) {
  constexpr size_t kColumns = 112;
  std::string text;
  std::string line;
  for (const std::string& item : items) {
    if (line.size() + item.size() >= kColumns) {
      text += fmt::format("       {}\n", line);
      line.clear();
    }
    line += fmt::format(" {},", item);
  }
  return fmt::format("{}       {}\n", text, line);
}

std::string layer_text(const HfModel& model, std::span<const OpSpec> layer) {
  std::vector<std::string> ops;
  for (const OpSpec& op : layer) {
    std::vector<std::string_view> inputs;
    for (const Checkpoint input : op.inputs()) inputs.push_back(checkpoint_op(input));
    ops.push_back(fmt::format("(\"{}\", \"{}\", \"{}\", \"{}\", \"{}\")", checkpoint_op(op.out),
                              kind_name(op.kind), fmt::join(inputs, " "), op.tensor,
                              hf_module(model, op)));
  }
  return lines_of(ops);
}

// `layer_name` gives the name of a layer's text in LAYERS.
std::string model_text(const HfModel& model, const Architecture& architecture,
                       const std::function<std::string(std::string)>& layer_name) {
  std::vector<std::string> items = {
      fmt::format("\"architecture\": \"{}\"", model.architecture),
      fmt::format("\"layer\": LAYERS[\"{}\"]", layer_name(layer_text(model, architecture.layer))),
      fmt::format("\"layers\": \"{}\"", model.layers)};
  for (const std::string_view tensor :
       {"token_embd", "position_embd", "output_norm", "output", "per_layer_token_embd",
        "per_layer_model_proj", "per_layer_proj_norm"}) {
    const std::string_view own = tensor == "output_norm" ? architecture.output_norm : tensor;
    const std::string_view module = hf_module(model, own);
    if (!module.empty()) items.push_back(fmt::format("\"{}\": \"{}\"", tensor, module));
  }
  if (!model.experts_architecture.empty()) {
    items.push_back(fmt::format("\"experts_architecture\": \"{}\"", model.experts_architecture));
  }
  std::string variants;
  for (const LayerVariant& variant : architecture.variants) {
    std::string conditions;
    const auto add = [&](const char* kind, std::string_view name) {
      if (!name.empty()) conditions += fmt::format("(\"{}\", \"{}\"), ", kind, name);
    };
    add("key", variant.key);
    add("with", hf_module(model, variant.tensor));
    add("with", hf_module(model, variant.also));
    add("without", hf_module(model, variant.without));
    add("place", place_name(variant.place));
    variants += fmt::format("(({}), LAYERS[\"{}\"]),", conditions,
                            layer_name(layer_text(model, variant.ops)));
  }
  if (!variants.empty()) items.push_back(fmt::format("\"variants\": ({})", variants));
  if (has_checkpoint(architecture, Checkpoint::kQRope)) {
    items.push_back(fmt::format("\"rotation\": \"{}\"", model.rotation));
  }
  std::string scales;
  for (const HfScale& scale : model.scales) {
    if (scale.of_input || scale.tensor == "token_embd" || scale.tensor == "output") continue;
    const std::string_view part =
        scale.part == Checkpoint::kOutput ? std::string_view() : checkpoint_op(scale.part);
    scales += fmt::format("(\"{}\", \"{}\", {}, \"{}\", {}), ", scale.tensor, scale.key,
                          scale.index, part, scale.of_part);
  }
  if (!scales.empty()) items.push_back(fmt::format("\"scales\": ({})", scales));
  const std::pair<std::string_view, bool> properties[] = {
      {"halves_to_adjacent", architecture.position == PositionKind::kRotary &&
                                 architecture.rope_pairing != model.rope_pairing},
      {"fused_by_kv_head", model.fused_by_kv_head},
      {"grouped_value_heads", architecture.grouped_value_heads},
      {"rotated_to_halves", model.rotated_to_halves},
      {"rotated_alone", model.rotated_alone},
      {"rotates_keys_first", model.rotates_keys_first},
      {"rotated_by_tokens", model.rotated_by_tokens},
      {"heads_first", model.heads_first},
      {"index_adjacent", has_checkpoint(architecture, Checkpoint::kIndexed) &&
                             architecture.index_pairing == RopePairing::kAdjacent},
      {"router_gives_scores", model.router_gives_scores},
      {"one_norm_module", model.one_norm_module},
      {"transposed", model.transposed},
      {"norm_plus_one", model.norm_plus_one}};
  for (const auto& [name, holds] : properties) {
    if (holds) items.push_back(fmt::format("\"{}\": True", name));
  }
  return fmt::format("    \"{}\": {{\n{}    }},\n", model.model_type, lines_of(items));
}

std::string networks() {
  std::string layers;
  std::string models;
  std::map<std::string, std::string> named;  // the text of a layer -> the first that has it
  for (const HfModel& model : hf_models()) {
    const std::vector<const Architecture*> architectures = architectures_of(model);
    if (architectures.empty()) continue;
    int count = 0;
    models += model_text(model, *architectures.back(), [&](const std::string& layer) {
      const std::string own = count == 0 ? std::string(model.model_type)
                                         : fmt::format("{}, {}", model.model_type, count);
      ++count;
      const auto [at, is_first] = named.emplace(layer, own);
      if (is_first) layers += fmt::format("    \"{}\": (\n{}    ),\n", own, layer);
      return at->second;
    });
  }
  return fmt::format(
      R"("""What transformers' models compute, by config.model_type: modules, and the ops of a layer.

An op is (checkpoint, kind, inputs, tensor of a GGUF file, module within a layer); the input `output` is what enters
the layer. Ops of the same module are parts of its output, in this order. Without a line a property is false:

experts_architecture: the architecture's name where the config lists layers with experts
variants: other layers, (conditions, ops), of which the first that applies is taken. A condition is ("key", an attribute
    of the config that is true), ("with" or "without", a module that the layer has or lacks), or ("place", "first",
    "last" or "only")
rotation: the function in transformers' source that rotates q and k
halves_to_adjacent: rows of a head's q and k that rotate together are half a head apart here, neighbours in a file
rotated_alone: it is given q and then k, as [sequences, tokens, heads, head_dim], and not both
rotates_keys_first: and k before q
rotated_by_tokens: it is given both as [sequences, tokens, heads, head_dim]
rotated_to_halves: it takes neighbours, and gives them half a head apart
fused_by_kv_head: a module of q, k and v has those of each key-value head together
scales: (tensor, attribute of the config, index in it or -1, op or "" for all that the module computes, part of it) of
    what the output of a module is multiplied by; files have it in the module's weights. Parts are the values, B and C
    of Mamba-2, counted from 1, or 0 for all
grouped_value_heads: files have the value heads of linear attention in groups that read one key head, as transformers has
heads_first: norms of q and k are given [heads, tokens, head_dim]
index_adjacent: heads that choose positions are rotated by that function, and not by apply_rotary_pos_emb
router_gives_scores: the output of a router is the chosen experts' weights, and then the logits
one_norm_module: the last norm's module has normalised the embedding before
transposed: weights of linear modules are [inputs, outputs]
norm_plus_one: norms add 1 to their weights

Generated from model/architecture.cc and model/hf_names.cc: do not edit, run ASSAY_GENERATE=1 model_test.
"""

LAYERS = {{
{}}}
MODELS = {{
{}}}
)",
      layers, models);
}

void expect_generated(const std::string& file, const std::string& expected) {
  const std::string path = kFolder + file;
  if (std::getenv("ASSAY_GENERATE") != nullptr) std::ofstream(path) << expected;
  std::ifstream stream(path);
  const std::string text(std::istreambuf_iterator<char>(stream), {});
  EXPECT_EQ(text, expected) << "run ASSAY_GENERATE=1 model_test";
}

TEST(PythonFiles, NamesAreThoseOfTheDescription) {
  expect_generated("names.py", names());
}

TEST(PythonFiles, NetworksAreThoseOfTheDescription) {
  expect_generated("networks.py", networks());
}

// Breaks if a row of hf_names.cc left an op that has weights without a module.
TEST(HfNames, EveryTensorOfADeclaredLayerHasAModule) {
  for (const HfModel& model : hf_models()) {
    for (const Architecture* architecture : architectures_of(model)) {
      for (const OpSpec& op : architecture->layer) {
        const bool has_module =
            !op.of_model &&
            (op.kind == OpKind::kNorm || op.kind == OpKind::kLinear ||
             (op.kind == OpKind::kMix && op.n_inputs > 1 && !is_of_shared_expert(op.out)) ||
             op.kind == OpKind::kConv);
        EXPECT_EQ(hf_module(model, op).empty(), !has_module)
            << model.model_type << " " << checkpoint_op(op.out);
      }
    }
  }
}

}  // namespace
}  // namespace assay
