#include "assay/log/checkpoint_set.h"

#include <fnmatch.h>

#include <algorithm>
#include <utility>

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

CheckpointSet::CheckpointSet(std::string_view text, std::string where)
    : text_(text), where_(std::move(where)) {
  for (std::string_view rest = text;;) {
    const size_t comma = rest.find(',');
    const std::string_view item = trimmed(rest.substr(0, comma));
    if (item.empty()) throw Error("'" + std::string(text) + "' has an empty item", where_, kHint);
    const auto add_set = [this](const std::vector<std::string>& globs) {
      globs_.insert(globs_.begin(), globs.begin(), globs.end());
      of_sets_ += globs.size();
    };
    if (item != "layers" && item != "ops" && item.find_first_of("*?[\\") == item.npos) {
      named_.emplace_back(item);
    }
    if (item == "logits" || item == "logprobs") {
      add_set({"logits", "logprobs"});
    } else if (item == "layers") {
      add_set({"embedding", "layer_*_output", "logits", "logprobs"});
    } else if (item == "ops") {
      add_set({"*"});
    } else {
      globs_.emplace_back(item);
    }
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
}

void CheckpointSet::check(const std::vector<std::string>& names, const std::string& what) const {
  check_each(std::span(globs_).subspan(of_sets_), names, what);
}

void CheckpointSet::check_named(const std::vector<std::string>& names,
                                const std::string& what) const {
  check_each(named_, names, what);
}

void CheckpointSet::check_each(std::span<const std::string> globs,
                               const std::vector<std::string>& names,
                               const std::string& what) const {
  for (const std::string& glob : globs) {
    const bool any = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return fnmatch(glob.c_str(), name.c_str(), 0) == 0;
    });
    if (!any) throw Error(what + " checkpoint '" + printable(glob, 60) + "'", where_, kHint);
  }
}

bool CheckpointSet::matches(const std::string& checkpoint) const {
  return std::any_of(globs_.begin(), globs_.end(), [&](const std::string& glob) {
    return fnmatch(glob.c_str(), checkpoint.c_str(), 0) == 0;
  });
}

}  // namespace assay
