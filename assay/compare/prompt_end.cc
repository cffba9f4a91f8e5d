#include "assay/compare/prompt_end.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "assay/compare/evidence.h"
#include "assay/compare/input_tokens.h"

namespace assay {
namespace {

bool is_beginning(const std::vector<int64_t>& tokens, const std::vector<int64_t>& of) {
  return tokens.size() < of.size() && std::equal(tokens.begin(), tokens.end(), of.begin());
}

}  // namespace

std::string hold_prompt_end(const LogIndex& ref, const LogIndex& got, Comparison& comparison) {
  if (!have_tokens(ref, got) || comparison.alignment.offset != 0) return {};
  const bool got_goes_on = is_beginning(ref.header()->tokens, got.header()->tokens);
  if (!got_goes_on && !is_beginning(got.header()->tokens, ref.header()->tokens)) return {};
  const LogIndex& shorter = got_goes_on ? ref : got;
  const LogIndex& longer = got_goes_on ? got : ref;
  if (!shorter.header()->sampling.empty()) return {};
  const auto is_contradicted = [&](const RecordResult& result) {
    const int64_t next = result.token_idx + 1;
    if (!result.of_ref || next < std::ssize(shorter.header()->tokens)) return false;
    if (next >= std::ssize(longer.header()->tokens)) return false;
    const auto& choice = got_goes_on ? result.metrics.argmax_ref : result.metrics.argmax_got;
    return choice && *choice != longer.header()->tokens[static_cast<size_t>(next)];
  };
  const auto found = std::ranges::find_if(comparison.results, is_contradicted);
  if (found == comparison.results.end()) return {};
  const int64_t token_idx = found->token_idx + 1;
  const int64_t choice =
      got_goes_on ? found->metrics.argmax_ref.value() : found->metrics.argmax_got.value();
  for (RecordResult& result : comparison.results) {
    if (result.token_idx < token_idx || result.evidence != Evidence::kPartial) continue;
    result.evidence = Evidence::kUnproven;
    result.status = Verdict::kIncomplete;
    result.reason = kOtherInput;
  }
  return fmt::format(
      "the header of {} names token {} at position {}, where the prompt of {} has ended and its "
      "logits choose {}: name the same tokens in both headers",
      longer.path(), longer.header()->tokens[static_cast<size_t>(token_idx)], token_idx,
      shorter.path(), choice);
}

}  // namespace assay
