#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "tests/causes/faulty_logs.h"

namespace assay {

// What a log holds of logits.
enum class LogitsForm : uint8_t { kAll, kHeadAndSketch, kTop20 };

// Keeps the logits of each token.
class LogitsProbe : public Probe {
 public:
  bool wants(Checkpoint checkpoint, int) override { return checkpoint == Checkpoint::kLogits; }
  void observe(Checkpoint, int, int64_t, int64_t n_tokens, int64_t width,
               const float* values) override {
    for (int64_t t = 0; t < n_tokens; ++t) {
      rows.emplace_back(values + t * width, values + (t + 1) * width);
    }
  }

  std::vector<std::vector<float>> rows;
};

// Logs of nothing but logits, and of the prompt's tokens.
class LogitsLogs : public FaultyLogs {
 protected:
  using Logits = std::vector<std::vector<float>>;

  static Logits logits_of(const Model& model, Kernels& kernels) {
    Session session(model, kernels, {.capacity = 64});
    LogitsProbe probe;
    session.eval(tokens_, &probe);
    return std::move(probe.rows);
  }

  std::string log(const Logits& logits, const std::string& name, LogitsForm form,
                  bool with_tokens = true) {
    return log(logits, name, form, with_tokens ? tokens_ : std::vector<int32_t>());
  }

  // `named`: the tokens of the header.
  std::string log(const Logits& logits, const std::string& name, LogitsForm form,
                  const std::vector<int32_t>& named) {
    const std::string path = folder_ + "/" + name;
    LogOptions options;
    options.team = name;
    options.sketch = form == LogitsForm::kHeadAndSketch;
    if (form == LogitsForm::kAll) options.head_values = kAllValues;
    LogWriter writer(path, options);
    LogHeader header;
    header.tokens.assign(named.begin(), named.end());
    writer.write_header(header);
    std::string lines;
    for (int64_t t = 0; t < std::ssize(logits); ++t) {
      const std::vector<float>& row = logits[static_cast<size_t>(t)];
      if (form == LogitsForm::kTop20) {
        lines += top_20(t, row);
      } else {
        writer.write("logits", t, row);
      }
    }
    writer.close();
    std::ofstream(path, std::ios::app) << lines;
    return path;
  }

  // As servers give them.
  static std::string top_20(int64_t token_idx, const std::vector<float>& row) {
    std::vector<size_t> ids(row.size());
    std::iota(ids.begin(), ids.end(), size_t{0});
    std::ranges::stable_sort(ids, [&](size_t a, size_t b) { return row[a] > row[b]; });
    const double largest = row[ids[0]];
    double sum = 0;
    for (const float logit : row) sum += std::exp(static_cast<double>(logit) - largest);
    std::string pairs;
    for (size_t i = 0; i < 20; ++i) {
      const double value = static_cast<double>(row[ids[i]]) - largest - std::log(sum);
      pairs += fmt::format("{}[{},{:.7g}]", i > 0 ? "," : "", ids[i], value);
    }
    return fmt::format(
        "{{\"checkpoint\":\"logprobs\",\"token_idx\":{},\"dtype\":\"f32\",\"shape\":[1,{}],"
        "\"values\":[],\"top\":[{}]}}\n",
        token_idx, row.size(), pairs);
  }

  inline static const std::vector<int32_t> tokens_ = {
      1, 45, 120, 7, 201, 33, 90, 250, 16, 77, 150, 64, 99, 43, 12, 13, 14, 15, 16, 17, 18, 19};
};

}  // namespace assay
