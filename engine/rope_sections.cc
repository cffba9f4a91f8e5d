#include "engine/rope_sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "model/hyperparameter_keys.h"

namespace assay {

void check_rope_sections(const ConfigKeys& keys, int64_t rotary_dim) {
  constexpr std::string_view kKey = hyperparameter::kRopeSections;
  constexpr int64_t kMaxPairs = 65536;
  const GgufValue* value = keys.find(kKey);
  if (value == nullptr) return;
  std::vector<int64_t> sections(4);
  if (std::holds_alternative<GgufArray>(*value)) {
    sections = keys.gguf().get_ints(keys.full(kKey));
  } else {
    std::ranges::fill(sections, keys.integer(kKey, 0));
  }
  const bool in_range =
      std::ranges::all_of(sections, [](int64_t pairs) { return pairs >= 0 && pairs <= kMaxPairs; });
  if (sections.size() != 4 || !in_range) keys.reject(kKey, "is not four numbers of pairs");
  const int64_t all = std::accumulate(sections.begin(), sections.end(), int64_t{0});
  for (int64_t pair = 0; all > 0 && pair < rotary_dim / 2; ++pair) {
    const int64_t place = pair % all;
    if (place < 3 * sections[static_cast<size_t>(place % 3)]) continue;
    keys.reject(kKey, fmt::format("has no section for pair {} of a head", pair),
                "Assay runs models that rotate all pairs by the position in the text");
  }
}

}  // namespace assay
