#include "assay/report/garbage_group.h"

#include <fmt/format.h>

#include "base/count_of.h"
#include "base/error.h"

namespace assay {

std::string ranges_text(const std::vector<int64_t>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] <= numbers[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += fmt::format("{}", numbers[i]);
    if (numbers[last] != numbers[i]) text += fmt::format("-{}", numbers[last]);
    i = last + 1;
  }
  return text;
}

void GarbageGroup::add(int64_t token) {
  ++added;
  if (tokens.empty() || tokens.back() != token) tokens.push_back(token);
}

std::string GarbageGroup::tokens_text() const {
  return fmt::format("{} {}", plural(tokens.size() == 1, "token"),
                     printable(ranges_text(tokens), 60));
}

std::string GarbageGroup::text(int64_t values) const {
  return fmt::format("{} at {}", count_of(values, "value"), tokens_text());
}

void append_garbage(const std::string& checkpoint, int64_t token_idx, const Garbage& garbage,
                    JsonObject& object) {
  object.member("checkpoint", checkpoint);
  object.member("token_idx", token_idx);
  object.member("index", garbage.index == kUnknownIndex ? std::nullopt
                                                        : std::optional<int64_t>(garbage.index));
  object.member("value", garbage.value);
  object.member("reason", garbage_reason_name(garbage.reason));
}

}  // namespace assay
