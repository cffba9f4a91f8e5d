#pragma once

#include <cstdlib>
#include <string>

namespace assay {

// An environment variable's value; empty where it is not set.
inline std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Where scripts/fetch.sh puts what it fetches, and what else is kept between runs: ASSAY_CACHE, or
// assay/ in the user's cache folder.
inline std::string cache_folder() {
  const std::string own = environment("ASSAY_CACHE");
  if (!own.empty()) return own;
  const std::string users = environment("XDG_CACHE_HOME");
  if (!users.empty()) return users + "/assay";
  const std::string home = environment("HOME");
  return (home.empty() ? std::string("/tmp") : home + "/.cache") + "/assay";
}

}  // namespace assay
