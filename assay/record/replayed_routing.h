#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/model_config.h"
#include "engine/session.h"

namespace assay {

// The experts that a reference chose: the records layer_N_experts of its log.
class ReplayedRouting : public ExpertSource {
 public:
  // Throws Error if the model has no experts, or if such a record does not hold as many different
  // ids of its experts as it uses.
  ReplayedRouting(const std::string& path, const ModelConfig& config);

  // Throws Error if the log's header names other tokens than these, at a position that both have.
  void check_tokens(std::span<const int32_t> tokens) const;

  // Throws Error if any layer has no choice at one of the positions first, first + 1, ...
  void check_positions(int64_t first, int64_t count) const;

  void choose(int layer, int64_t first_token_idx, int64_t n_tokens, int32_t* ids) override;

 private:
  std::string path_;
  std::vector<int64_t> tokens_;                                 // of the header
  std::map<int, std::map<int64_t, std::vector<int32_t>>> ids_;  // by layer and position
};

}  // namespace assay
