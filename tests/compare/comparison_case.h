#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "assay/compare/compare_logs.h"
#include "tests/compare/log_files.h"

namespace assay {

// Two logs, given as text, and their comparison.
class ComparisonTest : public LogFiles {
 protected:
  Comparison compare(const std::string& ref, const std::string& got) {
    return compare_logs(put("ref.jsonl", ref), put("got.jsonl", got), options_);
  }
  Verdict verdict(const std::vector<float>& ref, const std::vector<float>& got) {
    const Comparison comparison = compare(line("logits", 0, ref), line("logits", 0, got));
    EXPECT_EQ(comparison.pass, comparison.verdict <= Verdict::kTieFlip && comparison.failed == 0);
    EXPECT_EQ(comparison.first_divergence.has_value(), comparison.failed > 0);
    return comparison.verdict;
  }
  std::string failure(const std::string& ref, const std::string& got) {
    return error_of([&] { compare(ref, got); });
  }

  static std::vector<float> waves(int n, int seed = 0) {
    std::vector<float> values;
    for (int i = 0; i < n; ++i) values.push_back(std::sin(static_cast<float>(i * 7 + seed * 131)));
    return values;
  }

  CompareOptions options_;
};

// The rest of a line whose tensor has 1000 elements and this at each place of its sketch.
inline std::string sketch_of(int value) {
  const std::vector<int> sketch(kSketchSize, value);
  return fmt::format(",\"n\":1000,\"sketch\":[{}]", fmt::join(sketch, ","));
}

}  // namespace assay
