#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/mistakes/mistake.h"
#include "engine/model.h"
#include "engine/sampler.h"
#include "engine/tokenizer/vocabulary.h"

namespace assay {

using mistakes::FaultGroup;
using mistakes::KernelHooks;
using mistakes::OpContext;
using mistakes::OpResult;

// Where a fault must be found: at a checkpoint, or in the tokens before and after the network.
struct FaultPlace {
  enum class Kind : uint8_t { kCheckpoint, kPromptTokens, kGeneratedTokens };
  Kind kind = Kind::kCheckpoint;
  Checkpoint checkpoint = Checkpoint::kEmbedding;
  int layer = 0;

  // "layer_1_q_rope", "prompt tokens", "generated tokens".
  std::string name() const;
};

// What a fault is put into.
struct FaultSite {
  Model& model;   // edited in place
  int layer = 0;  // no meaning to faults of the whole model
};

// What a fault does to one model.
struct Injection {
  FaultPlace found_at = {};
  KernelHooks hooks = {};
  std::function<bool(const OpSite&)> applies = {};         // which calls they are for; empty: all
  std::function<double(const OpContext&)> parameter = {};  // that they read
  // Kernels are called with wrong arguments: a shadow is called with the same.
  bool in_arguments = false;
  // Change the ids before the network sees them.
  std::function<void(std::vector<int32_t>& tokens)> tokens = {};
  // In the place of Sampler::sample.
  std::function<int32_t(Sampler&, std::span<const float> logits,
                        const std::vector<bool>& choosable)>
      sample = {};
  std::function<void(SamplerOptions&)> sampler_options = {};
};

// One mistake that engines make.
struct Fault {
  std::string name = {};  // "rope-pairing"
  FaultGroup group = FaultGroup::kTokens;
  std::string what = {};   // what the engine does wrongly, in a line
  std::string cause = {};  // its name among a comparison's causes; empty: it has none
  // Whether it can be put into one layer alone; if not, it is in all or outside.
  bool in_one_layer = true;
  // Why the model cannot have it: "it has no rotary embedding". Empty: it can.
  std::function<std::string(const Model&)> unsupported_reason = {};
  // Edits the model's weights and hyperparameters, and says what else is to be done.
  std::function<Injection(const FaultSite&)> inject = {};
  // As those of Injected.
  std::optional<TensorType> type = {};
  std::function<void(std::span<std::byte> matrix)> misread = {};
  // A fault in the sampling, which no model is needed for: `sample` and `sampler_options`.
  std::function<Injection()> sampling = {};
  // Edits the vocabulary, where the fault is in the tokenizer.
  std::function<void(Vocabulary&)> edit_vocabulary = {};
};

}  // namespace assay
