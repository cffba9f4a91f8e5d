#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/tokenizer/tokenizer.h"

namespace assay {

// The ids of a prompt, with what the file asks to be put around it. Throws Error if `tokenizer` is
// null, which it is where the file at `model_path` has no vocabulary, or if there are no ids.
std::vector<int32_t> encode_prompt(const std::string& prompt, const Tokenizer* tokenizer,
                                   const std::string& model_path);

// A flag for each of `n_vocab` ids: whether a sampler may choose it. All, where there is no
// tokenizer to tell.
std::vector<bool> choosable_tokens(const Tokenizer* tokenizer, int64_t n_vocab);

}  // namespace assay
