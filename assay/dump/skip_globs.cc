#include "assay/dump/skip_globs.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include "base/error.h"

namespace assay {

bool SkipGlobs::match(const std::string& name) {
  bool any = false;
  for (const std::string& glob : globs_) {
    if (fnmatch(glob.c_str(), name.c_str(), 0) != 0) continue;
    any = true;
    unused_.erase(glob);
  }
  return any;
}

void SkipGlobs::check_used(const std::string& path) const {
  if (unused_.empty()) return;
  throw Error(fmt::format("'{}' matches no tensor of {}", printable(*unused_.begin(), 80), path),
              "--skip", "give globs of the names that it has");
}

}  // namespace assay
