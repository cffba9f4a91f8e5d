#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/checkpoint.h"

namespace assay {

// What an op does with its inputs.
enum class OpKind : uint8_t {
  kEmbedding,   // of tokens, and of positions where they are learned; or a layer's own, of tokens
  kNorm,        // of one input, whole or a head at a time, with a weight for each element, if
                // it names a tensor
  kLinear,      // weight · input, plus a bias
  kRope,        // turns each head by the rotary angles of its token
  kHeads,       // each head of parts of its inputs: its own part of the first, and what all heads
                // share of the second
  kIndex,       // the positions that attention may see: those with the highest scores, by queries,
                // weights of their heads, and keys
  kAttention,   // of queries, keys and values, at the positions of a kIndex where it reads one
  kConv,        // the first input times a sum over a few positions up to its own, an element at a
                // time: of the product of the second and the third, with weights. Of one input,
                // the network's activation of that sum of it
  kDelta,       // the gated delta rule of queries, keys and values in one, and of its two gates
  kSsm,         // the state space model of Mamba-2, of values, keys and queries in one, and of the
                // steps of its heads; of four inputs that of Mamba, of values, steps, keys and
                // queries
  kActivation,  // of up, times a function of the gate where there is one
  kAdd,         // of two inputs, the first the residual stream; times a number, its own or one
                // in a tensor, if it names one that the file has
  kSelect,      // the ids of the experts with the highest scores
  kWeigh,       // the weights of those experts; or of the shared one, by its score alone
  kSpread,      // the first input times the weight of each of the token's experts
  kExpertLinear,  // as kLinear, by the matrices of each token's experts, one after the other
  kMix,           // the sum of the experts' results, times their weights where it reads these
  kCutoff,   // what lies above the mean of a row by more than so many deviations, less that; else 0
  kStreams,  // a step of several residual streams: StreamStep
  kStreamLinear,  // as kLinear, of each stream behind the first by a matrix of its own
};

// Whether an op reads inputs at earlier positions, too: those from first_read_back() on.
constexpr bool reads_back(OpKind kind) {
  return kind == OpKind::kAttention || kind == OpKind::kIndex || kind == OpKind::kConv ||
         kind == OpKind::kDelta || kind == OpKind::kSsm;
}

// Whether what it reads of earlier positions is a state that a call carries on.
constexpr bool has_state(OpKind kind) {
  return kind == OpKind::kDelta || kind == OpKind::kSsm;
}

// A step of several residual streams, which stand one after the other in a row (AltUp: Baykal et
// al. 2023; Gemma 3n). Only the first goes through attention and feed-forward.
enum class StreamStep : uint8_t {
  kFirst,    // the first stream, times weights where the op names a tensor
  kJoin,     // a stream, and further ones behind it that are scaled to its magnitude
  kPredict,  // each stream, and all of them times coefficients
  kCorrect,  // each, and times 1 + a coefficient how far the second input is from the first stream
  kSpread,   // each but the first, and the second input
  kMerge,    // the mean of the first, and of the second input, scaled to its magnitude
};

// How the scores of experts become weights: a softmax over all of them, a sigmoid of each, a
// softmax over those that are used, or for each of two a softmax over the expert itself and those
// behind it whose scores are near (SparseMixer-v2: Liu et al. 2024).
enum class Gating : uint8_t { kSoftmax, kSigmoid, kSoftmaxOfUsed, kSparseMixer };

enum class NormKind : uint8_t { kRms, kLayer };

// A function of each element, times up where there is a gate.
enum class ActivationKind : uint8_t {
  kSilu,           // x / (1 + e^-x)
  kGeluTanh,       // GELU in its tanh form
  kGelu,           // x Phi(x), by the error function
  kRelu,           // max(x, 0)
  kReluSquared,    // max(x, 0)^2
  kClampedSwiglu,  // gated: x / (1 + e^-1.702x) (up + 1), x up to 7 and up from -7 to 7
  kXielu,          // above 0 x (alpha_p x + beta), else alpha_n (e^min(x, eps) - 1 - x) + beta x
  kSigmoid,        // 1 / (1 + e^-x)
  kTanh,
  kSoftCap,  // cap tanh(x / cap)
  kClip,     // x, but from -cap to cap
};

// Which two elements of a head a rotary angle turns: 2i and 2i + 1 (llama), or
// i and i + rotary_dim / 2.
enum class RopePairing : uint8_t { kAdjacent, kHalves };

// The hyperparameters that the size of a tensor is one of.
enum class Width : uint8_t {
  kHidden,    // embedding_length
  kQ,         // n_heads * head_dim
  kKv,        // n_kv_heads * head_dim
  kValues,    // n_kv_heads * value_dim
  kAttended,  // n_heads * value_dim
  kHead,      // head_dim
  kQLatent,   // q_lora_rank
  kKvLatent,  // kv_lora_rank
  kKvA,       // kKvLatent, and rotary_dim
  kKvB,       // n_heads * (head_dim - rotary_dim + value_dim)
  kInner,     // feed_forward_length
  kVocab,
  kHeads,         // n_heads
  kExperts,       // expert_count
  kUsed,          // expert_used_count
  kExpertInner,   // kUsed * expert_feed_forward_length
  kExpertHidden,  // kUsed * embedding_length
  kShared,        // expert_shared_feed_forward_length
  kOne,           // 1
  kGatedQ,        // 2 kQ
  // Of linear attention, DeltaShape: queries, keys and values; values; their heads; one head.
  kLinearQkv,
  kLinearValues,
  kLinearHeads,
  kLinearGates,  // 2 kLinearHeads
  kLinearHead,
  kSsmRank,  // of Mamba: what the steps are a product of; and a key
  kSsmKey,
  kPle,  // embedding_length_per_layer_input
  // Of several residual streams: their number, its square; all of them, those behind the first.
  kStreamCount,
  kStreamPairs,
  kStreams,
  kOtherStreams,
  kLaurel,    // how many numbers LAuReL's products pass
  kSsmGroup,  // values of the heads that read one key head, of kSsm
  // Of kIndex: all heads of the queries; one; how many heads; how many positions it chooses.
  kIndexQ,
  kIndexHead,
  kIndexHeads,
  kIndexed,
};

// Whether it has a part for each of a token's experts.
constexpr bool is_of_used_experts(Width width) {
  return width == Width::kExpertInner || width == Width::kExpertHidden;
}

// Whether a model file has a tensor.
enum class Presence : uint8_t { kNever, kOptional, kAlways };

// What the names of most tensors end in.
inline constexpr std::string_view kWeightSuffix = ".weight";

// Whose bias an op of has_state() reads beside its own tensor, which has no ".weight" in its name.
// Where it has a weight, that is a product's that computes the steps.
inline constexpr std::string_view kStepTensor = "ssm_dt";
// And a kSsm this one, which has none either.
inline constexpr std::string_view kSkipTensor = "ssm_d";

// One op of a layer. As input, Checkpoint::kOutput stands for what enters the layer, and kEmbedding
// for what enters the first. Keys and values that no op of the layer computes are those of an
// earlier one, and so are the positions of a kIndex.
struct OpSpec {
  OpKind kind = OpKind::kNorm;
  Checkpoint out = Checkpoint::kOutput;
  Width width = Width::kHidden;  // of the output
  std::array<Checkpoint, 4> in = {};
  int n_inputs = 1;
  // The tensor in the file, without "blk.N." and ".weight". Products of a layer that name the same
  // tensor share it: it has the rows of the first, then those of the next. Of kAttention: sinks. Of
  // kSelect: numbers that are added to the scores only to choose by them; the name ends in ".bias".
  // Of kWeigh: one of each expert, by which its weights are multiplied.
  std::string_view tensor = {};
  Presence bias = Presence::kNever;
  // Of what a kNorm normalizes at a time: all, each head, or the first part of a wider input.
  Width norm_width = Width::kHidden;
  bool weight_per_head = false;           // of a kNorm of heads: each head has weights of its own
  bool if_present = false;                // only in layers whose tensor the file has
  double own_eps = 0.0;                   // of a kNorm, whatever the file says; 0: the file's
  std::optional<NormKind> own_norm = {};  // of a kNorm that is of another kind than the others
  // Of a kActivation, whatever the file says. What a kNorm of two inputs gives is multiplied by
  // that of the second; with `gate_first`, what it is given.
  std::optional<ActivationKind> own_activation = {};
  bool gate_first = false;

  bool bare = false;  // of a kNorm: files have its tensor without ".weight" in its name
  // What the tensor's name ends in, of a kNorm or kWeigh.
  std::string_view suffix = kWeightSuffix;
  bool over_root = false;   // of a kNorm: its weights are divided by the root of their number
  bool over_width = false;  // or by that number
  // Of a kNorm: what it normalises is divided by the root of embedding_length before.
  bool input_over_root = false;
  // The tensor is in front of the layers: it has the rows, or columns, of each layer, one after the
  // other; a norm's is that of all.
  bool of_model = false;
  float scale = 1.0F;                    // of a kAdd: its sum is multiplied by it
  StreamStep step = StreamStep::kFirst;  // of a kStreams

  // Whether it is called so: "attn_q", or "ffn_gate_inp.scale" where it does not end in ".weight".
  std::string tensor_name() const {
    return std::string(tensor) + (suffix == kWeightSuffix ? "" : std::string(suffix));
  }
  // What the weights of a kNorm are a vector of.
  Width weight_width() const { return weight_per_head ? width : norm_width; }
  std::span<const Checkpoint> inputs() const { return {in.data(), static_cast<size_t>(n_inputs)}; }
  bool operator==(const OpSpec&) const = default;
};

// Whether it is the state space model of Mamba, whose steps are a product by kStepTensor.
constexpr bool has_step_product(const OpSpec& op) {
  return op.kind == OpKind::kSsm && op.n_inputs == 4;
}

// The number of the first input that an op of reads_back() reads at earlier positions; those behind
// it are read there, too, but for the positions of a kIndex, which are the query's own.
constexpr int first_read_back(const OpSpec& op) {
  if (op.kind == OpKind::kIndex) return 2;
  return has_state(op.kind) || op.n_inputs == 1 ? 0 : 1;
}

// The op of a layer that computes `checkpoint`; null if it has none.
const OpSpec* find_spec(std::span<const OpSpec> layer, Checkpoint checkpoint);

// The size of the first input of a layer's op.
Width input_width(std::span<const OpSpec> layer, const OpSpec& op);

// What an op of a network of `n_layers` such layers reads, in the order of OpSpec::in; keys and
// values that the layer does not compute are those of layer `kv_layer`, the positions of a kIndex
// those of `index_layer`. Empty for embeddings, and for what the network does not compute.
std::vector<OpPlace> inputs_of(std::span<const OpSpec> layer, int n_layers, OpPlace op,
                               int kv_layer = -1, int index_layer = -1);

// The layer without the op that computes `checkpoint`: who read a rotation or norm reads its input;
// who read a product does without it.
std::vector<OpSpec> without_op(std::span<const OpSpec> layer, Checkpoint checkpoint);

}  // namespace assay
