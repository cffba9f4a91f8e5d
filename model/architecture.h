#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/op.h"

namespace assay {

// Where a network has positions: in rotations, in its embedding, or in the attention's scores.
enum class PositionKind : uint8_t { kRotary, kLearned, kAlibi };

// What becomes of attention.sliding_window: kIgnored where engines ignore it in such files.
enum class SlidingWindow : uint8_t { kIgnored, kHonoured };

// Which layers are rotated.
enum class Rotated : uint8_t {
  kAll,
  kWindowed,         // those with a window, if any have one
  kWindowedOrDense,  // and the leading ones without experts
};

// What rope.scaling.yarn_log_multiplier, of YaRN, does: it scales the attention's scores
// (DeepSeek), divides the factor of cos and sin (Ministral 3), or both (Mistral Small 4).
enum class YarnLog : uint8_t { kRefused, kOfScores, kOfAngles, kOfBoth };

constexpr bool scales_scores(YarnLog log) {
  return log == YarnLog::kOfScores || log == YarnLog::kOfBoth;
}

// What a file says of its experts: no more than their number, whether their weights are normalised
// to a sum of 1, or how they are scored, scaled and grouped, too.
enum class RoutingKeys : uint8_t { kCount, kNormalised, kAll };

// Factors that some networks have, and the keys under which their files state them.
enum class Multiplier : uint8_t {
  kEmbedding,  // of the embedding
  kAttention,  // of the attention's scores, in the place of 1 / sqrt(head_dim)
  kResidual,   // of what is added to the residual stream
  kLogits,     // of the logits, or what they are divided by
};
inline constexpr std::array<std::string_view, 4> kMultiplierKeys = {
    "embedding_scale", "attention.scale", "residual_scale", "logit_scale"};

constexpr unsigned bit(Multiplier multiplier) {
  return 1U << static_cast<unsigned>(multiplier);
}
inline constexpr unsigned kAllMultipliers = 15;

// Which layer one is among all.
enum class LayerPlace : uint8_t { kAny, kFirst, kLast, kOnly };

// Another layer than the usual one, taken where all that is stated here holds.
struct LayerVariant {
  std::span<const OpSpec> ops;
  std::string_view tensor = {};   // the file has this tensor of the layer, by its name without
                                  // "blk.N." and ".weight"
  std::string_view also = {};     // and this one
  std::string_view without = {};  // it lacks this one
  std::string_view key = {};      // this key is true in it
  LayerPlace place = LayerPlace::kAny;  // it is the first, the last, or the only one
};

// Which position a pair of a head is rotated by, as rope.dimension_sections counts them: in an
// image each token has three. Those of text are equal, so that text does not need them.
enum class RopeSections : uint8_t {
  kNone,
  kInTurn,  // the pairs of the three in turn
  kJoined,  // those of each together
};

// All that tells one architecture from another. Engine, comparison, causes and faults read this
// table; none of them asks for an architecture by name. What most have is the default.
struct Architecture {
  std::string_view name;  // general.architecture in the model file
  std::span<const OpSpec> layer;
  std::span<const LayerVariant> variants = {};   // the first that applies takes its place
  std::string_view output_norm = "output_norm";  // the last norm's tensor
  NormKind norm = NormKind::kRms;
  bool norm_by_eps = false;                 // or of the other kind, where files state its eps
  bool norm_bias = true;                    // of the last norm, where it is a LayerNorm
  bool plain_output_norm = false;           // which has no weights, nor has that of the embedding
  Presence output_bias = Presence::kNever;  // of the output matrix
  ActivationKind activation = ActivationKind::kSilu;
  PositionKind position = PositionKind::kRotary;
  RopePairing rope_pairing = RopePairing::kHalves;  // read only where position is kRotary
  // Which elements of a head of kIndex an angle turns; the first rotary_dim of each are turned.
  RopePairing index_pairing = RopePairing::kHalves;
  bool rope_backwards = false;   // by the negative of each angle
  bool rotated_end = false;      // the last rotary_dim elements of a head are turned, not the first
  bool rope_freqs = false;       // may hold rope_freqs.weight, which divides the frequencies
  bool rope_long_short = false;  // may hold rope_factors_long.weight and rope_factors_short.weight
  SlidingWindow sliding_window = SlidingWindow::kIgnored;
  int64_t default_window = 0;  // where the file states none
  bool needs_window = false;   // a file that states it may not state 0
  bool chunked = false;        // AttentionShape::chunked
  int window_period = 0;       // every nth layer has no window; 0: all have it
  int unrotated_period = 0;    // every nth layer is not rotated; 0: all are
  Rotated rotated = Rotated::kAll;
  int attention_period = 0;  // every nth layer has full attention, others linear, where the file
                             // does not say which; 0: the file does not say so
  bool grouped_value_heads = false;  // DeltaShape::grouped
  bool own_feed_forwards = false;    // the width of a feed-forward may be a layer's own
  // Files may state a cutoff of each layer's activation, in deviations: what the first layers have
  // where they do not, and how many these are; and altup.num_inputs (Gemma 3n). 0: none.
  double default_cutoff = 0.0;
  int64_t default_cutoff_layers = 0;
  int64_t default_streams = 0;
  // per_layer_token_embd may lack the last tokens, which have the first one's row.
  bool short_layer_table = false;
  bool eps_of_other_norm = false;  // files may state the eps of a norm as that of the other kind
  bool windowed_heads = false;     // layers with a window may have heads of another size and number
  bool value_lengths = false;      // a head's values may be of another length than its keys
  bool value_scale = false;        // may have attention.value_scale
  bool local_rope = false;         // layers with a window have a base of their own, and no scaling
  double local_rope_base = 0.0;    // the default of that base; 0: as the others
  unsigned multipliers = 0;        // which of kMultiplierKeys it honours, as bits
  bool logits_times = false;       // kLogits multiplies; otherwise it divides
  // MiniCPM's factors where the file states none: of the embedding, that of what is added to the
  // stream times the root of the layers, and the width at which logits are not divided. 0: 1.
  double default_embedding_scale = 0.0;
  double default_depth_scale = 0.0;
  double default_logits_width = 0.0;
  bool embedding_root = false;      // the embedding is multiplied by the root of its width
  bool embedding_norm = false;      // it is normalised, with token_embd_norm
  double default_alibi_bias = 0.0;  // attention.max_alibi_bias, where the file states none
  int64_t wide_scale_layers = 0;    // with so many layers, scores are scaled by width / heads
  bool attention_root = true;       // scores are divided by the root of head_dim, else by 1
  bool yarn_whole_pairs = true;     // YaRN's borders are rounded outwards to whole pairs
  YarnLog yarn_log_multiplier = YarnLog::kRefused;
  bool temperature = false;  // may have attention.temperature_scale
  // The same where the file states none, and its span: of layers alone that are not rotated, and of
  // positions counted from 1 (Llama 4). 0: as `temperature` says.
  double default_temperature = 0.0;
  int64_t default_temperature_span = 0;
  // Norms of rotated q and k without weights are in files with another number of experts than this,
  // where the file does not say whether.
  int64_t unnormed_experts = -1;
  bool rope_alpha = false;  // rope.scaling.alpha stretches the base
  RopeSections rope_sections = RopeSections::kNone;
  bool rope_switch = false;          // rope.scaling.finetuned says whether there is a rotation
  bool rope_pattern = false;         // attention.rope_pattern says of which layers
  Gating gating = Gating::kSoftmax;  // of experts, unless the file says otherwise: routing_keys
  bool normalise_weights = true;     // of experts, likewise
  RoutingKeys routing_keys = RoutingKeys::kCount;
  // Where no key says how wide experts are, a token's few are as wide as feed_forward_length
  // together, and so is the shared one.
  bool experts_split_ffn = false;
  std::string_view choice_bias_suffix = ".bias";  // of the tensor that kSelect reads
  bool shared_as_expert = false;  // where no key says how wide the shared one is: as each of them
  // What is added to the sum by which experts' weights are divided.
  double added_to_weights_sum = 0.0;
  double router_jitter = 0.0;  // Routing::jitter, where the file does not say
  // Caps of the attention's scores and of the logits: whether it has them, and the defaults.
  bool soft_caps = false;
  double attention_soft_cap = 0.0;
  double logit_soft_cap = 0.0;
};

// The ops of one layer of a file: of the first variant that applies, without ops whose tensor is
// not there. `has_tensor` takes a name as LayerVariant has it, `is_true` a key; `place` is kAny of
// one between others.
std::vector<OpSpec> layer_ops(const Architecture& architecture,
                              const std::function<bool(std::string_view)>& has_tensor,
                              const std::function<bool(std::string_view)>& is_true,
                              LayerPlace place = LayerPlace::kAny);

// The place of layer `number` of so many.
constexpr LayerPlace place_of(int64_t number, int64_t n_layers) {
  if (n_layers == 1) return LayerPlace::kOnly;
  if (number == 0) return LayerPlace::kFirst;
  return number + 1 == n_layers ? LayerPlace::kLast : LayerPlace::kAny;
}

// The layer without its rotations.
std::vector<OpSpec> without_rotation(std::span<const OpSpec> layer);

// The ops of a layer that has rotary embeddings and a gate, as most have.
std::span<const OpSpec> common_layer();

// What computes a checkpoint; the same in all layers that have it, but for those of the
// feed-forward where there are experts, and keys and values of latent attention.
OpKind kind_of(Checkpoint checkpoint);

// Whether a model of this architecture has this checkpoint in its forward pass.
bool has_checkpoint(const Architecture& architecture, Checkpoint checkpoint);

// Whether its Mamba may have norms without weights.
bool has_plain_ssm_norms(const Architecture& architecture);

// Whether any of its layers has no feed-forward.
bool has_layers_without_feed_forward(const Architecture& architecture);

// Whether any of its layers may have a feed-forward without experts.
bool has_dense_feed_forward(const Architecture& architecture);

// Whether a model of this architecture may compute the checkpoint of its first layer (or of another
// one), or kEmbedding, from tokens alone: the same wherever equal tokens follow each other, as a
// convolution over few of them is, or the state of linear attention once it no longer changes.
bool depends_on_tokens_alone(const Architecture& architecture, Checkpoint checkpoint,
                             bool is_first = true);

// The layer without weightless norms of rotated q and k, or of the parts of a state space model.
std::vector<OpSpec> without_plain_qk_norms(std::span<const OpSpec> layer);
std::vector<OpSpec> without_plain_ssm_norms(std::span<const OpSpec> layer);

// The layer whose activation has no cutoff, or whose queries, keys and values are not clipped.
std::vector<OpSpec> without_cutoff(std::span<const OpSpec> layer);
std::vector<OpSpec> without_clips(std::span<const OpSpec> layer);

// Whether it is a norm of q or k, before or behind the rotation.
constexpr bool is_norm_of_qk(Checkpoint checkpoint) {
  return checkpoint == Checkpoint::kQNorm || checkpoint == Checkpoint::kKNorm ||
         checkpoint == Checkpoint::kQRopeNorm || checkpoint == Checkpoint::kKRopeNorm;
}

// Whether it is a norm of what the steps of Mamba are computed from, or of its B or C.
constexpr bool is_ssm_norm(Checkpoint checkpoint) {
  return checkpoint == Checkpoint::kSsmDtNorm || checkpoint == Checkpoint::kSsmBNorm ||
         checkpoint == Checkpoint::kSsmCNorm;
}

// Whether a module of transformers gives it with heads in a dimension of their own.
constexpr bool is_norm_of_heads(Checkpoint checkpoint) {
  return is_norm_of_qk(checkpoint) || checkpoint == Checkpoint::kVNorm;
}

// Whether all architectures that have the checkpoint have one row of embedding_length elements a
// token there, without heads; of several residual streams kOutput has one of them all.
bool has_model_width(Checkpoint checkpoint);

// All that Assay knows.
std::span<const Architecture> architectures();

// The architecture of this name; null if Assay does not know it.
const Architecture* find_architecture(std::string_view name);

// The names of all architectures, for messages: "llama, qwen2, ...".
std::string architecture_names();

}  // namespace assay
