#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/hf/config.h"
#include "engine/hf/json_object.h"
#include "model/op.h"

namespace assay {

// In layer_types: a convolution in the place of attention.
inline constexpr std::string_view kConvLayer = "conv";

// What config.json says about the tensors that layers of some networks have and others do without.
// `config` has the shape, the experts and the residual already. Throws Error that names the key if
// it asks for a tensor that the architecture does not have.
HfParts read_parts(const ConfigObject& object, const HfConfig& config);

// Whether transformers takes the embedding as output matrix where config.json does not say.

// Whether the layer has the tensor, of those that an architecture's layers or their variants name
// (OpSpec::tensor), by what config.json says; nothing where it does not say.
std::optional<bool> stated_part(const HfConfig& config, int64_t layer, std::string_view tensor);

// The same, where each layer has what config.json does not say.
bool has_part(const HfConfig& config, int64_t layer, std::string_view tensor);

// Whether the op has a bias, likewise.
bool has_bias(const HfConfig& config, const OpSpec& op);

// Whether the layer has the op's module, but for another op: shared_mlp is the feed-forward of
// layers without experts, and the shared expert of others.
bool is_of_other_layers(const HfConfig& config, const OpSpec& op, int64_t layer);

}  // namespace assay
