#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "assay/log/checkpoint_set.h"

namespace assay {

// The part of two logs that is compared: positions of tokens, as the reference counts them, and
// checkpoints.
class Selection {
 public:
  // "5", "5..20" (both ends included), "5..", "..20", or several of these with commas between them.
  // Throws Error.
  void set_tokens(const std::string& text, const std::string& where);
  // As --checkpoints of `assay run`: logits, layers, ops, or globs. Throws Error.
  void set_checkpoints(const std::string& text, const std::string& where);

  // Throws Error if none of the checkpoints of either log is one that was asked for,
  // NothingInCommon if one that was asked for by its name is missing in one of the two.
  void check_checkpoints(const std::vector<std::string>& ref, const std::vector<std::string>& got,
                         const std::string& ref_path, const std::string& got_path) const;

  // Throws Error if a range has none of the reference's positions.
  void check_tokens(const std::set<int64_t>& ref, const std::string& ref_path) const;

  bool has_token(int64_t token_idx) const;
  bool has_checkpoint(const std::string& name) const;
  bool is_all() const { return ranges_.empty() && !checkpoints_; }
  bool is_of_tokens() const { return !ranges_.empty(); }
  bool is_of_checkpoints() const { return checkpoints_.has_value(); }

 private:
  struct Range {
    int64_t first;
    int64_t last;
    std::string text;
  };
  std::vector<Range> ranges_;  // none: all
  std::optional<CheckpointSet> checkpoints_;
};

}  // namespace assay
