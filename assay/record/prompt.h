#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/tokenizer/tokenizer.h"

namespace assay {

// The ids of a prompt, with the special tokens that the file asks for. Throws Error if `tokenizer`
// is null, because the file at `model_path` has no vocabulary, or if there are no ids.
std::vector<int32_t> encode_prompt(const std::string& prompt, const Tokenizer* tokenizer,
                                   const std::string& model_path);

// A flag for each of `n_vocab` ids: whether a sampler may choose it. All of them without a
// tokenizer.
std::vector<bool> choosable_tokens(const Tokenizer* tokenizer, int64_t n_vocab);

}  // namespace assay
