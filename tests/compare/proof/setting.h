#pragma once

#include <cstdint>
#include <cstdlib>

namespace assay::proof {

// The number in the environment variable `name`, or `otherwise`.
inline uint64_t setting(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace assay::proof
