#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// Which checkpoints to log: the value of --checkpoints and ASSAY_LOG_CHECKPOINTS.
class CheckpointSet {
 public:
  // `text`: comma-separated names of sets and shell globs. Sets: `logits`, which
  // may be called `logprobs`; `layers` (embedding, every layer_N_output, logits); `ops` (all).
  // Throws Error if it or an item is empty. `where` names the flag or variable in messages.
  explicit CheckpointSet(std::string_view text, std::string where = "--checkpoints");

  bool matches(const std::string& checkpoint) const;
  const std::string& text() const { return text_; }

  // Throws Error if an item, other than a set, matches none of `names`: a typing error. The message
  // begins with `what`, such as "the model has no".
  void check(const std::vector<std::string>& names, const std::string& what) const;
  // The same for items that are a single name, including `logits`, but not for globs.
  void check_named(const std::vector<std::string>& names, const std::string& what) const;

 private:
  void check_each(std::span<const std::string> globs, const std::vector<std::string>& names,
                  const std::string& what) const;

  std::string text_;
  std::string where_;
  std::vector<std::string> globs_;
  size_t of_sets_ = 0;  // the first globs_ are those of sets
  std::vector<std::string> named_;
};

}  // namespace assay
