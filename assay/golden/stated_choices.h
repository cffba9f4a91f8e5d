#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "assay/golden/manifest.h"
#include "assay/log/record.h"

namespace assay {

// Holds what a manifest states of the choices in a golden log, `greedy`, `greedy_gaps` and
// `argmax_min_gap`, to the log's logits: to all their values or to the largest ones of their
// summary. What no record shows is not held.
class StatedChoices {
 public:
  // `n_prompt`: tokens of the log's prompt. `padding_ids` are never chosen.
  StatedChoices(const GoldenLog& log, int64_t n_prompt, std::span<const int32_t> padding_ids)
      : log_(log), n_prompt_(n_prompt), padding_ids_(padding_ids) {}

  // Takes the next record of the log. Returns what the manifest states otherwise; empty if nothing.
  std::string take(const Record& record);

  // After all records: what the manifest states otherwise of the smallest gap; empty if nothing.
  std::string check_gap() const;

 private:
  std::string check_greedy(const Record& record) const;
  std::string check_greedy_gap(const Record& record) const;
  bool is_padding(int64_t id) const;

  const GoldenLog& log_;
  int64_t n_prompt_;
  std::span<const int32_t> padding_ids_;
  double gap_ = std::numeric_limits<double>::infinity();  // the smallest of those that are known
  bool knows_all_gaps_ = true;
  double largest_ = 0;  // magnitude of the logits that the gaps are between
};

}  // namespace assay
