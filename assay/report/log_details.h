#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "assay/compare/comparison.h"
#include "assay/log/record.h"

namespace assay {

// The largest logits that both logs have at a token, largest first.
struct TopLogits {
  int64_t token_idx = 0;  // in the reference
  std::vector<TopValue> ref;
  std::vector<TopValue> got;
};

// Of the records named `logits`, read from the logs again: at most `max_tokens` tokens, those first
// where the two choose different tokens, then evenly over the text; sorted by token. Empty where
// the comparison has no logs. Throws Error if they cannot be read any more.
std::vector<TopLogits> top_logits(const Comparison& comparison, size_t max_tokens);

struct TokenTime {
  int64_t token_idx = 0;
  double seconds = 0;  // since 1970
};

// When the last record of each token was logged that had a step of its own (`phase`, or after the
// header's prompt), and of the one before; tokens of one pass tell how fast logging is. At most
// `max_tokens` tokens, evenly over the text, sorted by token. Empty where records have no `ts`, and
// where nothing says which tokens had a step. Throws Error like top_logits().
std::vector<TokenTime> decode_times(const LogIndex& log, size_t max_tokens);

// Seconds since 1970 of "2025-10-07T19:47:11Z", with or without a fraction of a second and with or
// without an offset from UTC. Empty for other forms.
std::optional<double> parse_time(std::string_view text);

}  // namespace assay
