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

std::span<const Preset> presets();

}  // namespace assay
