#pragma once

#include <cstdlib>
#include <string>

namespace assay {

// An environment variable's value; empty where it is not set.
inline std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace assay
