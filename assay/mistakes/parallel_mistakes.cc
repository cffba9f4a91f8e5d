#include <algorithm>
#include <optional>
#include <utility>

#include "assay/mistakes/mistake.h"

// Which of its streams a layer's feed-forward reads, and where it normalises.
namespace assay::mistakes {
namespace {

// The layer's input for the attention's residual, and the reverse; nothing for what else an op
// reads, nor in a layer without attention.
std::optional<Op> other_stream(const Network& network, Op op) {
  const Op input = network.inputs(op).front();
  const Op residual{Checkpoint::kAttnResidual, op.layer};
  if (find_spec(network.layer(op.layer), residual.checkpoint) == nullptr) return std::nullopt;
  if (input == residual) return layer_input(op);
  if (input == layer_input(op)) return residual;
  return std::nullopt;
}

bool reads_norm(const Network& network, Op op) {
  return network.inputs(op).front().checkpoint == Checkpoint::kAttnNorm;
}

void normalise_other_stream(const OpContext& context, NormCall call, Kernels& kernels) {
  const auto rows = context.inputs.other(*other_stream(context.network, context.op()));
  if (rows && std::ssize(rows->values) == call.n_tokens * call.width) call.x = rows->values.data();
  kernels.run(call);
}

// What the attention's norm gives.
void normalise_for_attention(const OpContext& context, const NormCall& call, Kernels& kernels) {
  const Network& network = context.network;
  const Op op = context.op();
  const auto rows = context.inputs.other(layer_input(op));
  NormCall other = network.norm_call({Checkpoint::kAttnNorm, op.layer});
  if (!rows || std::ssize(rows->values) != call.n_tokens * call.width || other.weight == nullptr) {
    kernels.run(call);
    return;
  }
  other.width = call.width;
  other.n_tokens = call.n_tokens;
  other.x = rows->values.data();
  other.out = call.out;
  other.site = call.site;
  kernels.run(other);
}

// A product of the feed-forward of the other stream, normalised as its input is.
void multiply_other_stream(const OpContext& context, MatmulCall call, Kernels& kernels) {
  const Network& network = context.network;
  const Op op = context.op();
  const bool normed = reads_norm(network, op);
  const auto rows = context.inputs.other(normed ? Op{Checkpoint::kAttnResidual, op.layer}
                                                : *other_stream(network, op));
  Matrix values;
  if (rows && rows->rows == call.n_tokens && rows->columns == call.w.columns) {
    values = normed ? norm(*rows, network.norm_call({Checkpoint::kAttnNorm, op.layer})) : *rows;
    call.x = values.values.data();
  }
  kernels.run(call);
}

bool is_norm_of_stream(const Network& network, Op op) {
  return op.checkpoint == Checkpoint::kFfnNorm && other_stream(network, op).has_value();
}

// Of a sequential layer whose attention has a norm, too.
bool is_norm_after_attention(const Network& network, Op op) {
  return op.checkpoint == Checkpoint::kFfnNorm &&
         network.inputs(op).front().checkpoint == Checkpoint::kAttnResidual &&
         find_spec(network.layer(op.layer), Checkpoint::kAttnNorm) != nullptr;
}

bool is_product_of_stream(const Network& network, Op op) {
  const bool first = op.checkpoint == Checkpoint::kFfnGate || op.checkpoint == Checkpoint::kFfnUp;
  return first && network.kind_of(op) == OpKind::kLinear &&
         (reads_norm(network, op) || other_stream(network, op).has_value());
}

// Layers may have no feed-forward: of the first that has one.
std::string stream_text(const Network& network, double) {
  constexpr const char* kSequential =
      "reads the stream after the attention: sequential in place of parallel";
  for (int layer = 0; layer < network.n_layers; ++layer) {
    for (const Checkpoint first : {Checkpoint::kFfnNorm, Checkpoint::kFfnUp}) {
      if (find_spec(network.layer(layer), first) == nullptr) continue;
      return network.inputs({first, layer}).front().checkpoint != Checkpoint::kAttnResidual
                 ? kSequential
                 : "reads the stream before the attention: parallel in place of sequential";
    }
  }
  return kSequential;
}

bool adds_norm(const Network& network, Op op) {
  const Checkpoint branch = network.inputs(op).back().checkpoint;
  return branch == Checkpoint::kPostAttnNorm || branch == Checkpoint::kPostFfnNorm;
}

// The norm of the branch, of the sum.
void normalise_sum(const OpContext& context, AddCall call, Kernels& kernels) {
  const Network& network = context.network;
  const Op branch = network.inputs(context.op()).back();
  const auto rows = context.inputs.other(network.inputs(branch).front());
  if (rows && std::ssize(rows->values) == call.count) {
    Matrix sum = *rows;
    for (int64_t i = 0; i < call.count; ++i) sum.values[static_cast<size_t>(i)] += call.a[i];
    sum = norm(sum, network.norm_call(branch));
    std::copy(sum.values.begin(), sum.values.end(), call.out);
  } else {
    kernels.run(call);
  }
}

Injected stream_fault(const char* name, const char* what, Checkpoint at, UnsupportedReason reason,
                      std::vector<Checkpoint> also = {}) {
  return {.name = name,
          .group = FaultGroup::kResidual,
          .what = what,
          .at = at,
          .unsupported_reason = std::move(reason),
          .also = std::move(also),
          .in_arguments = true};
}

// One before the attention and one after it.
std::string needs_two_norms(const Model& model) {
  const OpSpec* of_ffn = model.config().find(Checkpoint::kFfnNorm);
  return of_ffn != nullptr && of_ffn->in[0] == Checkpoint::kAttnResidual &&
                 model.config().find(Checkpoint::kAttnNorm) != nullptr
             ? ""
             : "its feed-forward has no norm after the attention";
}

// Of layers whose feed-forward has no norm of its own.
std::string needs_no_ffn_norm(const Model& model) {
  if (model.config().find(Checkpoint::kAttnResidual) == nullptr)
    return "its layers have one branch";
  const bool normed = model.config().find(Checkpoint::kFfnNorm) != nullptr;
  return normed ? "its feed-forward has a norm of its own" : "";
}

}  // namespace

std::vector<Mistake> parallel_mistakes() {
  return {
      {.cause = "parallel_residual",
       .text = stream_text,
       .edit = {.norm = normalise_other_stream},
       .possible = is_norm_of_stream,
       .faults = {stream_fault(
           "ffn-norm-of-other-stream",
           "the feed-forward's norm reads what enters the layer for the attention's "
           "residual, or the reverse",
           Checkpoint::kFfnNorm, any_model)}},
      {.cause = "parallel_residual",
       .text = stream_text,
       .edit = {.matmul = multiply_other_stream},
       .possible = is_product_of_stream,
       .faults = {stream_fault("ffn-of-other-stream",
                               "the feed-forward reads what enters the layer for the attention's "
                               "residual, or the reverse",
                               Checkpoint::kFfnGate, needs_no_ffn_norm, {Checkpoint::kFfnUp})}},
      {.cause = "parallel_residual",
       .text = plainly("gives what the attention's norm gives: one norm for both, parallel in "
                       "place of sequential"),
       .edit = {.norm = normalise_for_attention},
       .possible = is_norm_after_attention,
       .faults = {stream_fault("one-norm-for-both",
                               "the feed-forward reads what the attention's norm gives",
                               Checkpoint::kFfnNorm, needs_two_norms)}},
      {.cause = "norm_order",
       .text = plainly("adds before it normalises: the norm is of the sum"),
       .edit = {.add = normalise_sum},
       .possible = adds_norm,
       .faults = {stream_fault(
           "norm-of-sum", "what is added is normalised after the addition",
           Checkpoint::kAttnResidual,
           needs("norm of what is added to the residual stream", [](const ModelConfig& config) {
             return config.find(Checkpoint::kPostAttnNorm) != nullptr;
           }))}}};
}

}  // namespace assay::mistakes
