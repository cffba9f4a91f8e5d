#pragma once

#include <set>
#include <string>
#include <vector>

namespace assay {

// The globs of `assay import --skip`: what they match is left out, and each has to match something.
class SkipGlobs {
 public:
  explicit SkipGlobs(const std::vector<std::string>& globs)
      : globs_(globs), unused_(globs.begin(), globs.end()) {}

  bool match(const std::string& name);

  // Throws Error that names a glob that matched nothing of `path`.
  void check_used(const std::string& path) const;

 private:
  std::vector<std::string> globs_;
  std::set<std::string> unused_;
};

}  // namespace assay
