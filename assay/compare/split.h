#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "assay/compare/comparison.h"

namespace assay {

// What is known of the tokens of two logs, at positions of the reference.
struct KnownTokens {
  // Tokens of the prompt, as the reference's header says; 0 where it does not. The judged log may
  // not say otherwise: what it calls generated would be excused.
  int64_t n_prompt = 0;
  std::vector<int64_t> got;  // those that the judged log's header names
  int64_t got_first = 0;     // the position of the first of them

  std::optional<int64_t> got_at(int64_t token_idx) const {
    int64_t index = 0;
    if (__builtin_sub_overflow(token_idx, got_first, &index)) return std::nullopt;
    if (index < 0 || index >= std::ssize(got)) return std::nullopt;
    return got[static_cast<size_t>(index)];
  }
};

// Where two greedy generations went on with different tokens, in results sorted by token and as the
// network computes.
//
// They part before position p, which is not in the prompt, if the argmax of the logits before p
// differs, between candidates that are level within the error or in a record that fails, the token
// that the judged log's header may name at p is not the reference's choice, and the first
// checkpoint of the network that both have at p (the embedding, if it is logged) is off by more
// than its tolerance and kOtherToken, although all its records before p passed, but for the logits
// that chose. Where the tokens were forced on both, that checkpoint passes, and there is no split.
// Where that checkpoint is not the embedding and the end of the prompt is unknown, the split is
// not `seen`.
std::optional<Split> find_split(const Comparison& comparison, const KnownTokens& tokens);

// rel_l2 of the first checkpoint above which the token is another one. Embeddings of two tokens are
// about as far apart as they are long; rounding, quantised or not, is below a tenth.
inline constexpr double kOtherToken = 0.1;

}  // namespace assay
