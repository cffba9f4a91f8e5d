#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/fused_layer.h"
#include "engine/kv_cache.h"
#include "engine/model.h"
#include "engine/probe.h"
#include "kernels/fused.h"

namespace assay {

// The forward pass of a single token by fused kernels, about five launches a layer. What is
// launched is recorded once and replayed for every further token; where a probe wants to see what
// is computed, the same kernels are launched one by one, and write down what they hold in between.
class Decoder {
 public:
  // Null if `kernels` have no fused ones, or none that take this model. All must outlive it.
  static std::unique_ptr<Decoder> make(const ModelConfig& config, const Weights& weights,
                                       Kernels& kernels, KvCache& kv,
                                       const std::vector<float>& rope_factors);

  // Evaluates a token whose position follows those in the cache. `probe` may be null. The logits
  // stand in logits() if they are asked for or the probe wants them.
  void evaluate(int32_t token, int64_t position, Probe* probe, bool with_logits);

  // As evaluate() with logits and without a probe, and chooses the next token as a greedy Sampler
  // does; nothing if that would throw, and then logits() has the logits. Begins with the chosen
  // token, if the cache has room for it, before it is known here: what is computed of a token that
  // is not asked for next is overwritten.
  std::optional<int32_t> evaluate_and_choose(int32_t token, int64_t position);

  // To be called when keys and values of the cache are changed by others.
  void forget_next() { next_.reset(); }

  // The ids that may be chosen, from here on; none before.
  void set_choosable(const std::vector<bool>& choosable);

  // Valid after evaluate().
  const float* logits() const { return logits_.data(); }

 private:
  enum class End : uint8_t { kLayers, kLogits, kChoice };

  Decoder(const ModelConfig& config, const Weights& weights, Kernels& kernels, KvCache& kv,
          const std::vector<float>& rope_factors);

  static bool is_common(const ModelConfig& config, const Weights& weights);
  static bool takes(const ModelConfig& config, const Weights& weights, const FusedKernels& fused);

  struct Next {
    int32_t token;
    int64_t position;
    bool operator==(const Next&) const = default;
  };

  void place(int32_t token, int64_t position);
  void place_angles(int64_t position);
  void begin_step(int64_t position);
  // Keys that the token at `position` sees, and what its recording has room for.
  int64_t visible_keys(int64_t position) const;
  int64_t key_capacity(int64_t position) const;
  void replay(int64_t position, End end);
  // `keys`: what attention has room for, as key_capacity() says.
  void launch(int64_t keys, End end);
  void launch_layer(int layer, int64_t keys, Probe* probe);
  void launch_qkv(const FusedGroup& group, int layer, Probe* probe);
  void launch_residual(const FusedGroup& group, int layer, Probe* probe);
  void launch_activation(const FusedGroup& group, int layer, Probe* probe);
  void launch_logits(Probe* probe);

  FusedNorm fused(const Norm& norm) const;
  const float* value(const OpSpec& op) const;
  // Whether the probe wants a checkpoint: then where it is written, else null.
  float* probe_buffer(Probe* probe, Checkpoint checkpoint, int layer);
  void observe(Probe* probe, Checkpoint checkpoint, int layer, const float* values, int64_t width);

  const ModelConfig& config_;
  const Weights& weights_;
  FusedKernels& fused_;
  Memory& memory_;
  KvCache& kv_;
  const std::vector<float>& rope_factors_;
  std::vector<FusedGroup> groups_;
  AttentionShape shape_;
  FusedToken token_;
  int64_t position_ = 0;

  Buffer<int32_t> state_;    // id, position
  Buffer<float> angles_;     // those of position p in row p % kAngles
  int64_t first_angle_ = 0;  // positions whose angles are there
  int64_t end_of_angles_ = 0;
  int32_t* choices_ = nullptr;  // [kChoices]
  std::optional<Next> next_;    // the token that is under way
  Buffer<float> x_;             // the residual stream
  Buffer<float> q_;
  Buffer<float> attn_;
  Buffer<float> act_;
  Buffer<float> logits_;
  Buffer<std::byte> attention_scratch_;
  Buffer<std::byte> choice_scratch_;
  Buffer<uint8_t> choosable_;
  // What only a probe sees, allocated when one does.
  std::array<Buffer<float>, kCheckpoints> probe_buffers_;
  std::vector<float> host_values_;
  std::map<std::pair<int64_t, End>, std::unique_ptr<Recording>> recordings_;
};

}  // namespace assay
