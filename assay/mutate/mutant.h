#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "assay/mutate/fault.h"
#include "assay/mutate/faulty_kernels.h"
#include "engine/session.h"
#include "engine/tokenizer/tokenizer.h"

namespace assay {

// The tokenizer of a file with a fault, if that has one for tokenizers; null if the file has no
// vocabulary. `fault` may be null; `unknown` as for Tokenizer::from_gguf().
std::unique_ptr<Tokenizer> make_faulty_tokenizer(const Gguf& gguf, const Fault* fault,
                                                 std::string* unknown = nullptr);

// A model with a fault in it, and one sequence of tokens on its way through it.
class Mutant {
 public:
  struct Options {
    const Fault* fault = nullptr;   // null: a sound engine
    std::optional<int> layer = {};  // the middle one if not given
    int64_t n_positions = 0;        // to make room for
    SamplerOptions sampler = {};
    KernelShadow shadow = {};
  };

  // `kernels`, of the host, and the fault must outlive it. Throws Error if the model cannot have
  // the fault, or has no such layer.
  Mutant(std::shared_ptr<const Gguf> gguf, Kernels& kernels, const Options& options);

  const Model& model() const { return model_; }

  // Where the fault must be found first.
  const FaultPlace& found_at() const { return injection_.found_at; }

  // Session::eval and Sampler::sample, with the fault.
  std::span<const float> eval(std::span<const int32_t> tokens, Probe* probe);
  int32_t sample(std::span<const float> logits, const std::vector<bool>& choosable);

 private:
  Injection inject(const Options& options);

  Model model_;
  Injection injection_;
  mistakes::Network network_;
  FaultyKernels kernels_;
  Session session_;
  Sampler sampler_;
};

}  // namespace assay
