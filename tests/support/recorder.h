#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/probe.h"

namespace assay::testing_support {

using RecordKey = std::pair<std::string, int64_t>;  // checkpoint, token_idx

// Keeps the checkpoints of tokens, whole: all, or those of `only`.
class Recorder : public Probe {
 public:
  explicit Recorder(std::set<RecordKey> only = {}) : only_(std::move(only)) {
    for (const auto& [checkpoint, token_idx] : only_) names_.insert(checkpoint);
  }

  bool wants(Checkpoint checkpoint, int layer) override {
    return only_.empty() || names_.count(checkpoint_name(checkpoint, layer)) > 0;
  }
  void observe(Checkpoint checkpoint, int layer, int64_t first_token_idx, int64_t n_tokens,
               int64_t width, const float* values) override {
    for (int64_t t = 0; t < n_tokens; ++t) {
      const RecordKey key{checkpoint_name(checkpoint, layer), first_token_idx + t};
      if (!only_.empty() && only_.count(key) == 0) continue;
      auto& kept = records[key];
      EXPECT_TRUE(kept.empty()) << "observed twice";
      kept.assign(values + t * width, values + (t + 1) * width);
    }
  }

  std::map<RecordKey, std::vector<float>> records;

 private:
  std::set<RecordKey> only_;
  std::set<std::string> names_;
};

}  // namespace assay::testing_support
