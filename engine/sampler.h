#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace assay {

struct SamplerOptions {
  double temperature = 0.0;  // 0: greedy, the highest logit; ties go to the lowest id
  int64_t top_k = 0;         // 0: off
  double top_p = 1.0;        // 1: off
  uint64_t seed = 0;
};

// Chooses the next token from logits. Not greedy: the top_k highest, of these the fewest whose
// probabilities reach top_p (Holtzman et al. 2020), then one at random by softmax(logit /
// temperature). The same seed gives the same tokens on every machine.
class Sampler {
 public:
  // Throws Error if an option is out of range.
  explicit Sampler(const SamplerOptions& options);

  // `choosable` has a flag for each id that may be chosen (padding rows of the vocabulary may not);
  // ids beyond its end may not be chosen either. Throws Error if a choosable logit is not a number
  // or nothing can be chosen.
  int32_t sample(std::span<const float> logits, const std::vector<bool>& choosable);

 private:
  using Candidate = std::pair<float, int32_t>;  // logit, id

  int32_t draw(std::vector<Candidate>& candidates);

  SamplerOptions options_;
  std::mt19937_64 random_;
};

}  // namespace assay
