#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace assay {

// The tokens that the engine of a reference log evaluated.
struct FollowedTokens {
  std::vector<int32_t> prompt;        // of the log's header
  std::vector<int32_t> continuation;  // those after it, up to the last position that has a record
  std::optional<std::string> prompt_text;
  std::vector<std::string> warnings;  // a truncated last line
};

// Reads them from the log at `path`. A token after the prompt is the one that the reference's
// logits at the position before it choose: the greatest of all values, or the greatest by their
// summary or `top`, among the ids that are `choosable` (a flag for each id of the vocabulary). So
// the reference must have chosen greedily.
//
// Throws Error if the log has no header with tokens, or records of several sequences; if a token
// cannot be determined, because the logits before it are not logged or not sufficient; or if an id
// is not in the vocabulary.
FollowedTokens read_followed_tokens(const std::string& path, const std::vector<bool>& choosable);

}  // namespace assay
