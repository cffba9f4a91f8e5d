#pragma once

#include <span>
#include <string_view>

namespace assay {

// A published model, by Assay's name for it, with the part of its config.json that defines its
// shape.
struct Preset {
  std::string_view name;
  std::string_view json;
};

// All, hybrid ones last.
std::span<const Preset> presets();

// Those whose layers are not all of attention: linear attention, Mamba-2, convolutions.
std::span<const Preset> hybrid_presets();

}  // namespace assay
