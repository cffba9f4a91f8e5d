#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "assay/golden/manifest.h"
#include "assay/log/record.h"

namespace assay {

// Holds what a manifest states of the choices in a golden log, `greedy`, `greedy_gaps`,
// `argmax_min_gap` and `argmax_margin`, to the log's logits: to all their values or to their
// summary. What no record shows is not held.
class StatedChoices {
 public:
  // `n_prompt`: tokens of the log's prompt. `padding_ids` are never chosen.
  StatedChoices(const GoldenLog& log, int64_t n_prompt, std::span<const int32_t> padding_ids)
      : log_(log), n_prompt_(n_prompt), padding_ids_(padding_ids) {}

  // Takes the next record of the log. Returns what the manifest states otherwise; empty if nothing.
  std::string take(const Record& record);

  // After all records: what the manifest states otherwise of the smallest gap, alone or as a share
  // of the norm; empty if nothing.
  std::string check_smallest() const;

 private:
  std::string check_greedy(const Record& record) const;
  std::string check_greedy_gap(const Record& record) const;
  bool is_padding(int64_t id) const;
  int64_t step_of(const Record& record) const { return record.token_idx - (n_prompt_ - 1); }
  bool is_greedy_step(int64_t step) const { return 0 <= step && step < std::ssize(log_.greedy); }
  std::vector<TopValue> largest_allowed(const Record& record, size_t count) const;
  void take_margins(const Record& record, std::span<const TopValue> top);
  std::string check_gap() const;
  std::string check_margin() const;

  const GoldenLog& log_;
  int64_t n_prompt_;
  std::span<const int32_t> padding_ids_;
  double gap_ = std::numeric_limits<double>::infinity();  // the smallest of those that are known
  bool knows_all_gaps_ = true;
  double largest_ = 0;  // magnitude of the logits that the gaps are between
  double margin_ = std::numeric_limits<double>::infinity();  // the smallest that is known
  double margin_rounding_ = 0;                               // what floats cost it, at most
  bool knows_all_margins_ = true;
  int64_t greedy_steps_ = 0;  // of which the log has a record
};

}  // namespace assay
