#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/probe.h"

namespace assay::testing_support {

// Keeps every checkpoint of every token, whole.
class Recorder : public Probe {
 public:
  bool wants(Checkpoint, int) override { return true; }
  void observe(Checkpoint checkpoint, int layer, int64_t first_token_idx, int64_t n_tokens,
               int64_t width, const float* values) override {
    for (int64_t t = 0; t < n_tokens; ++t) {
      auto& kept = records[{checkpoint_name(checkpoint, layer), first_token_idx + t}];
      EXPECT_TRUE(kept.empty()) << "observed twice";
      kept.assign(values + t * width, values + (t + 1) * width);
    }
  }

  std::map<std::pair<std::string, int64_t>, std::vector<float>> records;
};

}  // namespace assay::testing_support
