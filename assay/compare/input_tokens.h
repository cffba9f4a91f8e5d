#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "assay/compare/comparison.h"
#include "assay/compare/log_index.h"
#include "assay/compare/split.h"

namespace assay {

// How many tokens one of two logs may have before the other's first.
inline constexpr int64_t kMaxShift = 16;

// How many tokens must be the same where one of two logs has tokens before the other's first.
inline constexpr size_t kMinTokensInCommon = 3;

// Whether both headers name the tokens of their prompts.
bool have_tokens(const LogIndex& ref, const LogIndex& got);

// Whether one header names the token at `token_idx` of the reference, and the prompt of the other
// ends before it.
bool is_named_by_one(const LogIndex& ref, const LogIndex& got, int64_t token_idx, int64_t offset);

// What the headers say of different inputs, where got's token_idx is `offset` ahead of the
// reference's: other tokens at a position that both have or, where tokens are not known, another
// prompt. Empty if nothing. Lists that begin alike are numbered otherwise, and are no difference.
std::string other_input(const LogIndex& ref, const LogIndex& got, int64_t offset);

// Throws Error if the headers say so with the positions as they are.
void check_same_input(const LogIndex& ref, const LogIndex& got);

// The offset (got's token_idx minus ref's) under which the tokens that the headers name are the
// same, where they are not as they stand: one of the two has tokens before the other's first, as
// when an engine leaves BOS out. Nothing if there is none, or if too few tokens would be in common.
std::optional<int64_t> left_out_offset(const LogIndex& ref, const LogIndex& got);

// Whether what the reference computes at `token_idx` is of other tokens than what is compared with
// it: one of the two has tokens before the other's first, or one up to there is another.
bool have_other_context(const LogIndex& ref, const LogIndex& got, const Alignment& alignment,
                        int64_t token_idx);

// The tokens that the headers name, where got's token_idx is `offset` ahead of the reference's.
KnownTokens known_tokens(const LogIndex& ref, const LogIndex& got, int64_t offset);

}  // namespace assay
