#include "assay/log/checkpoint_set.h"

#include <fnmatch.h>

#include <algorithm>

#include "base/error.h"

namespace assay {
namespace {

constexpr const char* kHint = "give logits, layers, ops, or globs such as 'layer_0_*,logits'";

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace

CheckpointSet::CheckpointSet(std::string_view text) {
  for (std::string_view rest = text;;) {
    const size_t comma = rest.find(',');
    const std::string_view item = trimmed(rest.substr(0, comma));
    if (item.empty())
      throw Error("'" + std::string(text) + "' has an empty item", "checkpoints", kHint);
    if (item == "layers") {
      globs_.insert(globs_.end(), {"embedding", "layer_*_output", "logits"});
    } else if (item == "ops") {
      globs_.emplace_back("*");
    } else {
      globs_.emplace_back(item);
    }
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
}

bool CheckpointSet::matches(const std::string& checkpoint) const {
  return std::any_of(globs_.begin(), globs_.end(), [&](const std::string& glob) {
    return fnmatch(glob.c_str(), checkpoint.c_str(), 0) == 0;
  });
}

}  // namespace assay
