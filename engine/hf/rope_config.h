#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/hf/config.h"
#include "engine/hf/json_object.h"

namespace assay {

// What a config.json says about the rotation.
struct RopeConfig {
  int64_t dimensions = 0;
  std::map<std::string_view, double> numbers;  // by the keys of GGUF
  std::string_view scaling;                    // rope.scaling.type; empty: none
  int64_t original_context_length = 0;         // 0: not stated
  std::optional<bool> yarn_whole_pairs;
  std::map<std::string, std::vector<float>> factors;  // as HfConfig::rope_factors
  // Pairs for time, height and width in images: rope.dimension_sections.
  std::vector<int32_t> sections = {11, 11, 10, 0};
};

// The base of each layer, 0 of those that are not rotated, where config.json may list them and
// does; else empty.
std::vector<double> bases_of_layers(const ConfigObject& object, const HfConfig& config);

// Reads rope_parameters, as transformers 5 writes it, or rope_theta and rope_scaling. `config` has
// the shape already. Throws Error that names the key at fault.
RopeConfig read_rope_config(const ConfigObject& object, const HfConfig& config);

}  // namespace assay
