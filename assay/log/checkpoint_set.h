#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace assay {

// Which checkpoints to log: the value of --checkpoints and ASSAY_LOG_CHECKPOINTS.
class CheckpointSet {
 public:
  // `text`: comma-separated names of sets and shell globs. Sets: `logits`; `layers` (embedding,
  // every layer_N_output, logits); `ops` (all). Throws Error if it is empty or an item is.
  explicit CheckpointSet(std::string_view text);

  bool matches(const std::string& checkpoint) const;

 private:
  std::vector<std::string> globs_;
};

}  // namespace assay
