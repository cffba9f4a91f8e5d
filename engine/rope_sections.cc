#include "engine/rope_sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "model/hyperparameter_keys.h"

namespace assay {

bool is_turned_in_text(const std::vector<int64_t>& sections, RopeSections kind, int64_t pair) {
  const int64_t all = std::accumulate(sections.begin(), sections.end(), int64_t{0});
  if (all == 0 || kind == RopeSections::kNone) return true;
  const int64_t place = pair % all;
  return kind == RopeSections::kJoined ? place < all - sections[3]
                                       : place < 3 * sections[static_cast<size_t>(place % 3)];
}

std::vector<float> divisors_of_sections(const ConfigKeys& keys, RopeSections kind,
                                        int64_t rotary_dim) {
  constexpr std::string_view kKey = hyperparameter::kRopeSections;
  constexpr int64_t kMaxPairs = 65536;
  constexpr float kNotTurned = 1e30F;  // so little that no float shows it
  const GgufValue* value = keys.find(kKey);
  if (value == nullptr || kind == RopeSections::kNone) return {};
  std::vector<int64_t> sections(4);
  if (std::holds_alternative<GgufArray>(*value)) {
    sections = keys.gguf().get_ints(keys.full(kKey));
  } else {
    std::ranges::fill(sections, keys.integer(kKey, 0));
  }
  const bool in_range =
      std::ranges::all_of(sections, [](int64_t pairs) { return pairs >= 0 && pairs <= kMaxPairs; });
  if (sections.size() != 4 || !in_range) keys.reject(kKey, "is not four numbers of pairs");
  if (keys.gguf().get_bool(hyperparameter::own::kTurnsAllPairs, false)) return {};
  std::vector<float> divisors(static_cast<size_t>(rotary_dim / 2), 1.0F);
  bool any = false;
  for (int64_t pair = 0; pair < rotary_dim / 2; ++pair) {
    if (is_turned_in_text(sections, kind, pair)) continue;
    divisors[static_cast<size_t>(pair)] = kNotTurned;
    any = true;
  }
  return any ? divisors : std::vector<float>();
}

}  // namespace assay
