#include "assay/compare/policy_names.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>

#include "assay/compare/checkpoint_order.h"
#include "assay/compare/log_probabilities.h"
#include "assay/compare/name_map.h"
#include "base/error.h"
#include "base/letters_apart.h"
#include "model/checkpoint.h"

namespace assay {
namespace {

constexpr std::string_view kLayer = "layer_";
constexpr int kMostLayers = 256;      // models have 126 at most
constexpr size_t kNearlyTheSame = 2;  // letters apart

bool matches(const std::string& glob, const std::string& name) {
  return fnmatch(glob.c_str(), name.c_str(), 0) == 0;
}

// The layer of a glob such as "layer_12_*"; nothing where it is not said in digits.
std::optional<int> layer_of(std::string_view glob) {
  if (!glob.starts_with(kLayer)) return std::nullopt;
  int layer = 0;
  const char* end = glob.data() + glob.size();
  const auto [stop, error] = std::from_chars(glob.data() + kLayer.size(), end, layer);
  const bool is_layer = error == std::errc() && layer >= 0 && stop != end && *stop == '_';
  return is_layer ? std::optional(layer) : std::nullopt;
}

bool matches_in_layer(const std::string& glob, int layer) {
  for (int i = 0; i < kCheckpoints; ++i) {
    if (matches(glob, checkpoint_name(static_cast<Checkpoint>(i), layer))) return true;
  }
  return false;
}

// Whether a network may have a checkpoint that the glob matches, whatever its architecture and
// however many layers it has.
bool may_be_checkpoint(const std::string& glob) {
  if (is_plain_name(glob)) return parse_checkpoint_name(glob).known || is_logits_name(glob);
  if (matches(glob, std::string(kLogProbabilitiesName))) return true;
  if (const std::optional<int> only = layer_of(glob)) return matches_in_layer(glob, *only);
  for (int layer = 0; layer < kMostLayers; ++layer) {
    if (matches_in_layer(glob, layer)) return true;
  }
  return false;
}

// With `text` in the place of each wildcard.
std::string instance_of(const std::string& glob, std::string_view text) {
  std::string name;
  for (size_t i = 0; i < glob.size(); ++i) {
    const size_t end = glob[i] == '[' ? glob.find(']', i + 1) : std::string::npos;
    if (glob[i] == '*') {
      name += text;
    } else if (glob[i] == '?' || end != std::string::npos) {
      name += '0';
      if (end != std::string::npos) i = end;
    } else if (glob[i] != '\\') {
      name += glob[i];
    }
  }
  return name;
}

struct Nearest {
  std::string name;
  size_t letters = std::numeric_limits<size_t>::max();  // apart
};

// The checkpoint whose name, in a layer or without it, is nearest to the letters of a glob.
Nearest nearest_to(const std::string& glob) {
  std::string letters = instance_of(glob, "");
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto first = std::ranges::find_if(letters, is_digit);
  const std::string layer(first, std::find_if_not(first, letters.end(), is_digit));
  Nearest nearest;
  const auto try_name = [&](std::string_view form, std::string name) {
    const size_t apart = letters_apart(letters, form);
    if (apart < nearest.letters) nearest = {std::move(name), apart};
  };
  for (int i = 0; i < kCheckpoints; ++i) {
    const auto checkpoint = static_cast<Checkpoint>(i);
    const std::string op(checkpoint_op(checkpoint));
    const std::string name = is_in_layer(checkpoint) ? fmt::format("layer_N_{}", op) : op;
    try_name(op, name);
    if (is_in_layer(checkpoint)) try_name(fmt::format("{}{}_{}", kLayer, layer, op), name);
  }
  return nearest;
}

// Whether it has a character that no name of Assay's has, as names of modules do.
bool has_other_characters(const std::string& glob) {
  return std::ranges::any_of(instance_of(glob, "0"), [](char c) {
    return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_';
  });
}

bool is_of_another_engine(const std::string& glob, const Nearest& nearest) {
  const size_t near = std::min(kNearlyTheSame, instance_of(glob, "").size() / 4);
  if (has_other_characters(glob) && nearest.letters > near) return true;
  return std::ranges::any_of(std::array{"0", "", "layer_0_"}, [&](const char* text) {
    return NameMap::is_known_name(instance_of(glob, text));
  });
}

// Whether the logs are of an engine that has names of its own for what is in its layers: any name
// may be one of them.
bool has_own_names(const std::vector<std::string>& names) {
  bool unknown = false;
  for (const std::string& name : names) {
    const CheckpointName parsed = parse_checkpoint_name(name);
    if (parsed.known && parsed.layer >= 0) return false;
    unknown = unknown || !(parsed.known || is_logits_name(name));
  }
  return unknown;
}

}  // namespace

void check_policy_names(const Policy& policy, const std::vector<std::string>& names) {
  const std::vector<std::string> unused = policy.unused_globs(names);
  if (unused.empty() || has_own_names(names)) return;
  for (const std::string& glob : unused) {
    if (policy.is_written_by_floors() && is_plain_name(glob)) continue;
    if (may_be_checkpoint(glob)) continue;
    const Nearest nearest = nearest_to(glob);
    if (is_of_another_engine(glob, nearest)) continue;
    throw Error(fmt::format("'{}' matches no checkpoint of either log, nor any that a network has",
                            printable(glob, 60)),
                policy.path(),
                fmt::format("the nearest is {}: correct the glob, or leave it out", nearest.name));
  }
}

}  // namespace assay
