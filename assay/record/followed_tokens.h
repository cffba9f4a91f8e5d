#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

namespace assay {

// The tokens of one sequence that the engine of a reference log evaluated.
struct FollowedTokens {
  std::string sequence;
  std::vector<int32_t> prompt;        // of the log's header
  std::vector<int32_t> continuation;  // those after it, up to the last position that has a record

  int64_t positions() const { return std::ssize(prompt) + std::ssize(continuation); }
};

struct FollowedLog {
  std::vector<FollowedTokens> sequences;  // in the header's order; at least one
  std::optional<std::string> prompt_text;
  std::vector<std::string> warnings;  // a truncated last line
};

// Reads them from the log at `path`, or from what llama-perplexity --kl-divergence-base wrote. A
// token after the prompt is the one that the reference's logits at the position before it choose:
// the greatest of all values, or the greatest by their summary or `top`, among the ids that are
// `choosable` (a flag for each id of the vocabulary). So the reference must have chosen greedily.
//
// `bos`: what llama.cpp puts in the place of the first token of each of that file's chunks, -1 if
// it puts none; nothing where it is not known, and taken from the file as base_logprobs.h says.
//
// Throws Error if the log's header does not have the tokens of each sequence; if a token cannot be
// determined, because the logits before it are not logged or not sufficient; or if an id is not in
// the vocabulary.
FollowedLog read_followed_tokens(const std::string& path, const std::vector<bool>& choosable,
                                 std::optional<int64_t> bos = {});

}  // namespace assay
