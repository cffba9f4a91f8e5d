#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/mistakes/kernel_hooks.h"
#include "assay/mistakes/needs.h"

namespace assay::reference {
struct AttentionVariant;
}

// The catalogue of mistakes that engines make. Each is one edit of an op's call, or of its result,
// which is put around the engine's kernels to inject it, and around the reference kernels on logged
// inputs to recompute what an engine with it would log.
namespace assay::mistakes {

enum class FaultGroup : uint8_t {
  kTokens,
  kEmbedding,
  kNorm,
  kLinear,
  kRotary,
  kCache,
  kAttention,
  kFeedForward,
  kResidual,
  kOutput,
  kNumbers,
  kQuantised,
  kSampling,
};

std::string_view group_name(FaultGroup group);

// A mistake as `assay mutate` injects it: with one value of its parameter, at one op.
struct Injected {
  std::string name = {};  // "rope-pairing"
  FaultGroup group = FaultGroup::kTokens;
  std::string what = {};                   // what the engine does wrongly, in a line
  Checkpoint at = Checkpoint::kEmbedding;  // whose call is edited, where it must be found
  UnsupportedReason unsupported_reason = any_model;
  std::function<double(const OpContext&)> parameter = {};
  std::vector<Checkpoint> also = {};  // further ops of the layer whose calls are edited
  bool in_every_layer = false;
  // The kernels are right, and called with wrong weights or hyperparameters: tests of single
  // kernels cannot see it.
  bool in_arguments = false;
  bool before_bias = false;  // of a change of a product's result
  // A wrong reading of a type's blocks, wherever the model has one: what the bytes of a whole
  // matrix are taken for. `at` is not read.
  std::optional<TensorType> type = {};
  std::function<void(std::span<std::byte> matrix)> misread = {};
  // What no edit of a call does; gives the layer where it is found.
  std::function<int(Model&)> edit_model = {};
};

// A result of an op as it is with a mistake; empty if it cannot have that.
using Change = std::function<Matrix(const Network&, const Matrix& right, double parameter)>;

struct Mistake {
  std::string cause = {};  // its name in "causes" of the JSON; empty: a comparison names none
  // What the engine does, as "rotates ..."; takes the parameter where there is one. Empty if the
  // mistake is only injected.
  std::function<std::string(const Network&, double parameter)> text = {};
  // Of it in all that a layer adds to the residual stream, as what "layer_1" does; where empty,
  // `text` of each.
  std::function<std::string(double parameter)> text_of_layer = {};
  // The one hook for the calls of the ops that can have it, or `after` for any op's result,
  KernelHooks edit = {};
  // or what it makes of any op's result, from nothing else.
  Change change = {};
  std::function<bool(const Network&, Op)> possible = {};  // of ops of its kind; empty: always
  // Values of the parameter to try, ascending; empty if it has none. None beyond the first and the
  // last is a mistake that an engine makes.
  std::function<std::vector<double>(const Network&)> grid = {};
  bool refine = false;         // values between those of the grid are possible
  bool generic = false;        // one that any op can have: tried after those of the op itself
  bool together = false;       // made in all ops of a family or in none
  bool of_all_layers = false;  // and so never in a single one
  // Its ops' calls are of all positions from 0 on, or are left as they are.
  bool reads_all_positions = false;
  // What an attention gives at a position may be of later ones.
  bool reads_ahead = false;
  std::vector<Injected> faults = {};
};

// All of them; those of one op in the order in which a search tries them.
const std::vector<Mistake>& mistake_catalogue();

// The mistake's edit. `before_bias`: its change is one of a product without its bias.
KernelHooks hooks_of(const Mistake& mistake, bool before_bias = false);

// Whether the mistake's edit is one of calls that compute the op.
bool concerns(const Mistake& mistake, const Network& network, Op op);
// Whether it is, and the op can have the mistake.
bool is_possible(const Mistake& mistake, const Network& network, Op op);
// Those of the checkpoint's ops, one a layer or outside of the layers, that can.
std::vector<Op> possible_ops(const Mistake& mistake, const Network& network, Checkpoint checkpoint);

// Its parts, by subject.
std::vector<Mistake> embedding_mistakes();
std::vector<Mistake> norm_mistakes();
std::vector<Mistake> norm_weight_mistakes();
std::vector<Mistake> norm_number_mistakes();
std::vector<Mistake> block_mistakes();
std::vector<Mistake> linear_mistakes();  // with those of blocks
std::vector<Mistake> rope_mistakes();    // with those of its scaling
std::vector<Mistake> rope_scaling_mistakes();
std::vector<Mistake> attention_mistakes();  // with those of scores, masks and the cache
std::vector<Mistake> cache_mistakes();
std::vector<Mistake> score_mistakes();
std::vector<Mistake> alibi_mistakes();
std::vector<Mistake> mask_mistakes();
std::vector<Mistake> clip_mistakes();  // of queries, keys and values
std::vector<Mistake> conv_mistakes();
std::vector<Mistake> linear_attention_mistakes();  // with those of attention that has a gate
std::vector<Mistake> ssm_mistakes();               // of Mamba-2
std::vector<Mistake> mixer_mistakes();             // of Mamba-2 beside attention
std::vector<Mistake> fused_mistakes();
std::vector<Mistake> stream_mistakes();  // of several residual streams, LAuReL and cutoffs
std::vector<Mistake> index_mistakes();   // of the positions that attention sees
std::vector<Mistake> layer_mistakes();
std::vector<Mistake> layer_embedding_mistakes();
std::vector<Mistake> feed_forward_mistakes();
std::vector<Mistake> expert_mistakes();
std::vector<Mistake> parallel_mistakes();
std::vector<Mistake> rounded_sum_mistakes();  // of rotations and of the residual stream
std::vector<Mistake> residual_mistakes();
std::vector<Mistake> multiplier_mistakes();  // several left out at once
std::vector<Mistake> output_mistakes();
std::vector<Mistake> number_mistakes();

// An attention that is called otherwise.
KernelHooks called(std::function<void(AttentionCall&, double parameter)> edit);
// The naive attention in another way, for what no kernel does; of an engine's calls too.
KernelHooks varied(std::function<void(reference::AttentionVariant&, const OpContext&)> edit);
// Of a mistake with a single sentence.
std::function<std::string(const Network&, double)> plainly(std::string text);
// Of an injected mistake with one value of its parameter.
std::function<double(const OpContext&)> with(double parameter);
// The same values for each network.
std::function<std::vector<double>(const Network&)> among(std::vector<double> values);
// `count` values from `low` to `high` in equal ratios.
std::vector<double> ratios(double low, double high, int count);

}  // namespace assay::mistakes
