#pragma once

#include <span>
#include <string_view>

namespace assay {

// A published model by the name that Assay gives it, and the part of its config.json that shapes
// it.
struct Preset {
  std::string_view name;
  std::string_view json;
};

std::span<const Preset> presets();

}  // namespace assay
