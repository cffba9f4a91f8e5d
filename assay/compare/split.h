#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "assay/compare/comparison.h"

namespace assay {

// What is known of the tokens of two logs, at positions of the reference.
struct KnownTokens {
  int64_t n_prompt = 0;  // tokens that both were given; 0 where that is not known
  std::function<std::optional<int64_t>(int64_t token_idx)> ref;
  std::function<std::optional<int64_t>(int64_t token_idx)> got;
};

// Where two greedy generations went on with different tokens, in results sorted by token and as the
// network computes.
//
// They part at position p if both tokens at p are known and differ; or if the argmax of the logits
// before p differs, p is not in the prompt, and the first checkpoint of the network that both have
// at p (the embedding, if it is logged) is off by more than its tolerance and kOtherToken, although
// all its records before p passed, but for the logits that chose. Where the tokens were forced on
// both, that checkpoint passes, and there is no split. Where that checkpoint is not the embedding
// and nobody knows where the prompt ends, the split is not `seen`.
std::optional<Split> find_split(const Comparison& comparison, const KnownTokens& tokens);

// rel_l2 of the first checkpoint above which the token is another one. Embeddings of two tokens are
// about as far apart as they are long; rounding, quantised or not, is below a tenth.
inline constexpr double kOtherToken = 0.1;

}  // namespace assay
