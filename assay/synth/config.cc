#include "assay/synth/config.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "assay/synth/presets.h"
#include "base/error.h"
#include "base/input_file.h"
#include "engine/hf/parts.h"

namespace assay {
namespace {

// The names of all tensors of layers by which architectures tell their variants apart.
std::vector<GgufTensor> named_tensors(const HfConfig& config) {
  std::vector<GgufTensor> tensors;
  for (int64_t layer = 0; layer < config.n_layers; ++layer) {
    const auto add = [&](std::span<const OpSpec> ops) {
      for (const OpSpec& op : ops) {
        if (op.tensor.empty() || !has_part(config, layer, op.tensor)) continue;
        tensors.push_back({fmt::format("blk.{}.{}.weight", layer, op.tensor), {}, {}, {}});
        // By which the loader knows it.
        if (op.tensor == "laurel_l") {
          tensors.back().dims = {config.embedding_length, config.laurel_rank};
        }
      }
    };
    add(config.architecture->layer);
    for (const LayerVariant& variant : config.architecture->variants) add(variant.ops);
  }
  return tensors;
}

}  // namespace

SynthConfig parse_config(const std::string& json, const std::string& where) {
  SynthConfig config;
  config.json = json;
  config.hf = read_hf_config(json, where);
  if (config.hf.text_part != nullptr) {
    throw Error("is of images and text, and assay synth makes models of text", where,
                "give its text_config as a file of its own");
  }
  GgufContent content;
  content.made = std::exchange(config.hf.made, {});
  content.metadata = std::exchange(config.hf.metadata, {});
  content.tensors = named_tensors(config.hf);
  config.file = std::make_shared<const Gguf>(where, std::move(content));
  config.model = ModelConfig::from_gguf(*config.file);
  config.model.n_vocab = config.hf.n_vocab;
  if (config.model.find(Checkpoint::kExperts) != nullptr && config.hf.n_experts == 0) {
    throw Error("key 'num_experts' is missing", where, kConfigHint);
  }
  return config;
}

SynthConfig load_config(const std::string& name) {
  if (name.ends_with(".json")) {
    return parse_config(read_whole_file(name, kMaxConfigBytes, kConfigHint), name);
  }
  for (const Preset& preset : presets()) {
    if (preset.name == name) return parse_config(std::string(preset.json), name);
  }
  throw Error(fmt::format("'{}' is not a model that Assay knows", printable(name, 80)), {},
              "give a config.json or a name that assay synth --list has");
}

}  // namespace assay
