#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace assay {

// Why a log of `tokens` shows too little of what an engine computes to tell whether that depends on
// anything; empty where it shows enough. It has to hold a whole output, all values or a sketch, at
// each token: logits, logprobs, or the checkpoint `last_layer` (empty where that is not known). And
// the output has to be another one in `other_log`, the log of `other_tokens`: a constant is
// invariant whatever the engine does. Throws Error if a log cannot be read.
std::string too_little_logged(const std::string& log, const std::vector<int32_t>& tokens,
                              const std::string& other_log,
                              const std::vector<int32_t>& other_tokens,
                              const std::string& last_layer);

}  // namespace assay
