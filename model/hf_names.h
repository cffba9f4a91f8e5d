#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "model/architecture.h"
#include "model/op.h"

namespace assay {

// Where transformers (Hugging Face) holds a tensor of a model file.
struct HfName {
  std::string_view tensor;  // OpSpec::tensor_name(), or a name outside of the layers: "token_embd"
  std::string_view module;  // path in transformers' model; within a layer, from that layer on
};

// What sliding_window in config.json is for, where there are no layer_types.
enum class HfWindow : uint8_t {
  kNone,      // nothing, with them as well
  kAll,       // all layers
  kFlagged,   // with use_sliding_window, the layers from max_window_layers on
  kEven,      // with use_sliding_window, layers 0, 2, ... before max_window_layers
  kSome,      // the layers that the architecture's files have it for
  kListed,    // no layer
  kChunked,   // it is attention_chunk_size, of the layers that are rotated
  kSixths,    // all but the first and every sixth; or sliding_window_size and a position more
  kFifths,    // all but every fifth
  kFourths,   // all but the first and every fourth from it on
  kPrefixed,  // all but every nth, counted anew behind the leading layers without experts
};

// How published files have the experts of a layer.
enum class HfExperts : uint8_t {
  kEach,           // mlp.experts.N.gate_proj and so on
  kNumbered,       // block_sparse_moe.experts.N.w1 and so on
  kFeedForward,    // feed_forward.experts.N.w1 and so on
  kOfFeedForward,  // feed_forward.experts.N.gate_proj and so on
  kMixer,          // mixer.experts.N.up_proj and mixer.experts.N.down_proj, without gates
  kTogether,       // one tensor of all, with those of gate and then of up
  kOfLayer,        // the same, as experts.gate_up_proj and experts.down_proj
  kStacked,        // the same, as mlp.experts.gate_up_proj and mlp.experts.down_proj
  kInterleaved,    // the same, [inputs, outputs] of each, with the outputs of gate and up in turn
  kTransposed,  // feed_forward.experts, [inputs, outputs] of each, with those of gate, then of up
  kStackedEither,  // as kStacked, or [inputs, outputs] of each where that is another shape
  kOfBlock,        // as kStacked, as block_sparse_moe.experts.gate_up_proj and so on
  kOfRows,         // ffn.experts.mlp.w1 and so on, the rows of all experts, the last transposed
};

// How config.json says which experts a token uses, and what their weights are.
enum class HfRouting : uint8_t {
  kOwn,         // as the architecture does
  kSoftmax,     // n_routed_experts, by a softmax; in groups where topk_method says so; never
                // normalised
  kNormalised,  // n_routed_experts, by a softmax; normalised where norm_topk_prob says so
  kSigmoid,     // n_routed_experts in groups, by a sigmoid
  kStepped,     // moe_num_experts, by a softmax, in the layers of a range and a step
  kHunyuan,     // num_experts, by a softmax; numbers of layers may be lists
  kLlama4,      // num_local_experts, by a sigmoid, in every nth layer or those of a list
  kMixer,       // num_local_experts, by SparseMixer
  kPrefixed,    // num_experts, behind the leading layers, by a softmax of those used or a sigmoid
};

// A number of config.json by which transformers multiplies what a module gives, or is given. GGUF
// files have it in the module's weights.
struct HfScale {
  std::string_view tensor;
  const char* key;
  int index = -1;         // in the key's list; -1: it is no list
  bool of_input = false;  // otherwise of what the module gives
  // Of the part of the module that this op is; kOutput: of all.
  Checkpoint part = Checkpoint::kOutput;
  int of_part = 0;  // of kSsmXbc: 1, 2 and 3 are its values, B and C; 0: of all
};

// A kind of transformers' models: where its modules are, and how their weights differ from those of
// a GGUF file.
struct HfModel {
  std::string_view model_type;                      // in config.json
  std::string_view architecture;                    // general.architecture of its GGUF files
  std::string_view experts_architecture = {};       // the same of those with experts, if another
  std::string_view layers = "model.layers";         // the list of the layers
  std::span<const HfName> names = {};               // that differ from what most have
  RopePairing rope_pairing = RopePairing::kHalves;  // which rows of q and k it rotates together
  // A module of q, k and v together has, for each key-value head, its queries, then k, then v, and
  // in linear attention then the gate of v. Others have all of q, then k, then v.
  bool fused_by_kv_head = false;
  // The function in transformers' source that rotates q and k; what it gives may be in halves where
  // it takes neighbours.
  std::string_view rotation = "apply_rotary_pos_emb";
  bool rotated_to_halves = false;
  bool rotated_alone = false;  // that function is given q, then k, as [tokens, heads, head_dim]
  bool rotates_keys_first = false;  // and k before q
  bool rotated_by_tokens = false;   // that function is given both as [tokens, heads, head_dim]
  bool heads_first = false;         // norms of q and k are given [heads, tokens, head_dim]
  bool transposed = false;          // weights of linear modules are [inputs, outputs]
  // The weight of a norm is this much less than in a GGUF file, but for norms that are gated.
  bool norm_plus_one = false;
  bool one_norm_module = false;  // the last norm's module computes that of the embedding, too
  bool norm_modules = false;  // norms of heads with weights of their own are modules of their own
  HfExperts experts = HfExperts::kEach;
  HfWindow window = HfWindow::kNone;
  HfRouting routing = HfRouting::kOwn;
  int64_t n_dense_layers = 0;       // the first, where config.json can say it by a list alone
  bool dense_by_older_key = false;  // or by first_k_dense_replace
  int64_t first_position = 0;       // the row of learned positions that is position 0
  double norm_eps = 0.0;            // of norms, where config.json does not say it; else 0
  bool windowed_sinks = false;      // layers with a window have sinks, and no others
  // Published layers without experts have a norm of the result of a feed-forward, too, which
  // nothing reads.
  bool unread_post_norm = false;
  bool choice_bias = false;      // the choice of experts has a bias
  bool choice_bias_row = false;  // which is a matrix of one row
  // What published files have in the place of "model." before the names of tensors.
  std::string_view stored_model = {};
  bool ignores_sections = false;   // positions in images, which its GGUF files of text do not state
  std::string_view left_out = {};  // tensors whose names start so are none of the network's
  // Whether the last layer has no window, whatever layer_types says.
  bool last_without_window = false;
  // Whether use_bidirectional_attention may be "vision", which is of positions in images alone.
  bool sees_ahead_in_images = false;
  // Whether position_embedding_type has to be "rope" where queries and keys are to be rotated.
  bool rotates_by_name = false;
  // Whether the heads of Mamba-2 are as wide together as the model, times `expand`.
  bool inner_is_expanded = false;
  // Whether the network reads time_step_min, and not only its training.
  bool bounds_steps = false;
  // Whether layers have a feed-forward, shared_mlp, beside their experts or alone, whose gate is
  // one module with what it multiplies.
  bool shared_mlp = false;
  std::span<const HfScale> scales = {};
  // Its files say gelu under hidden_act and mean the form with tanh.
  bool gelu_is_tanh = false;
  bool stretched_base = false;  // a dynamic scaling may have alpha, which stretches the base
  // Whether partial_rotary_factor is a part of all of a head whose end alone is rotated.
  bool share_of_whole_head = false;
  double rope_base = 0.0;   // of kinds that read nothing else of rotations than rotary_dim; else 0
  bool rotary_dim = false;  // rotary_dim may stand in the place of partial_rotary_factor
  bool router_gives_scores =
      false;  // its module gives the chosen experts' weights, then the logits
  bool adds_in_feed_forward = false;  // the module of a feed-forward adds the residual stream
  // Scalings of rotations have short_mscale and long_mscale, which multiply cosines and sines.
  bool own_mscales = false;
  bool nested_config = false;   // some keys stand in attn_config and ffn_config
  bool shared_indexer = false;  // layers may see the positions that an earlier one has chosen
};

std::span<const HfModel> hf_models();

// The kind of this model_type; null if there is none.
const HfModel* find_hf_model(std::string_view model_type);

// The architectures of its GGUF files, of which the last has all layers that the others have.
std::vector<const Architecture*> architectures_of(const HfModel& model);

// The paths of a tensor's module, of which a model has at most one.
std::vector<std::string_view> hf_modules(const HfModel& model, std::string_view tensor);

// Of a tensor alone; empty if that kind of model has none of its own.
std::string_view hf_module(const HfModel& model, std::string_view tensor);

// The path of the module that computes an op of a layer, alone or with the next parts of it: q, k
// and v may be one module in transformers and three tensors in a file, and the other way round. Of
// a kConv, the module that has its weights.
std::string_view hf_module(const HfModel& model, const OpSpec& op);

}  // namespace assay
