// Records made from values, for tests of one stage of a comparison.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "assay/log/record.h"
#include "assay/log/sketch.h"

namespace assay {

inline Record record(std::vector<float> values, const std::string& checkpoint = "logits") {
  Record made;
  made.checkpoint = checkpoint;
  made.n = static_cast<int64_t>(values.size());
  made.shape = {1, made.n};
  made.values = std::move(values);
  return made;
}

// What a log of heads holds of `whole`.
inline Record head_of(const Record& whole, size_t head, bool summary, bool sketch) {
  Record made = whole;
  made.values.resize(head);
  if (summary) made.summary = summarize(whole.values);
  if (sketch) made.sketch = compute_sketch(whole.values);
  return made;
}

inline std::vector<float> random_values(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

// A summary that tells nothing; a test sets what it is about.
inline Summary silent_summary() {
  Summary summary;
  summary.min = summary.max = summary.mean = summary.l2 = std::nan("");
  summary.counts_nonfinite = false;
  return summary;
}

}  // namespace assay
