#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace assay {

// What a log of `tokens` shows of an engine, beside the log of other tokens.
struct OutputShown {
  // Why it is too little to tell whether what the engine computes depends on anything; empty where
  // it is enough: a whole output, all values or a sketch, at each token, and another one for the
  // other tokens. A constant is invariant whatever the engine does.
  std::string too_little;
  std::string checkpoint = {};  // the output: logits, logprobs, or the last layer's
  // How far the other tokens' is from it: relative L2, root mean square over the positions of other
  // tokens; infinite where only one of the two is infinite somewhere, as by a top-k mask. So little
  // is too little where repeats are as far from each other.
  double of_others = 0.0;
};

// last_layer: the checkpoint that is the output where there are no logits; empty where that is not
// known. Throws Error if a log cannot be read.
OutputShown output_shown(const std::string& log, const std::vector<int32_t>& tokens,
                         const std::string& other_log, const std::vector<int32_t>& other_tokens,
                         const std::string& last_layer);

// What the header of a log says of other tokens than those that its engine was given: "names other
// tokens than it was given: 7 at position 3, and not 12". Empty where it says nothing of the kind,
// is of several sequences, or cannot be read.
std::string other_tokens_of(const std::string& log, const std::vector<int32_t>& tokens);

// What a log lacks since its engine was stopped as it wrote: "a.jsonl:9: the last line is cut off
// and was left out". Empty where it lacks nothing so, or cannot be read.
std::string cut_line_of(const std::string& log);

}  // namespace assay
