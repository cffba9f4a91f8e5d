#pragma once

#include <cstdlib>
#include <string>

namespace assay::testing_support {

// Where scripts/fetch.sh puts what it fetched.
inline std::string cache_folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (!variable("ASSAY_CACHE").empty()) return variable("ASSAY_CACHE");
  if (!variable("XDG_CACHE_HOME").empty()) return variable("XDG_CACHE_HOME") + "/assay";
  return variable("HOME") + "/.cache/assay";
}

// Real weights; the file is there after scripts/fetch.sh smollm2.
inline std::string smollm2_path() {
  return cache_folder() + "/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
}

}  // namespace assay::testing_support
