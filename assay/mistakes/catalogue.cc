#include <algorithm>
#include <cmath>
#include <utility>

#include "assay/mistakes/mistake.h"

namespace assay::mistakes {
namespace {

void change_rows(const Change& change, const OpContext& context, float* values, int64_t n_rows,
                 int64_t width) {
  Matrix right(n_rows, width);
  std::copy_n(values, right.values.size(), right.values.begin());
  const Matrix changed = change(context.network, right, context.parameter);
  std::copy(changed.values.begin(), changed.values.end(), values);
}

}  // namespace

const std::vector<Mistake>& mistake_catalogue() {
  static const std::vector<Mistake> catalogue = [] {
    std::vector<Mistake> all;
    for (auto part : {embedding_mistakes(),
                      layer_embedding_mistakes(),
                      norm_mistakes(),
                      norm_weight_mistakes(),
                      norm_number_mistakes(),
                      linear_mistakes(),
                      rope_mistakes(),
                      attention_mistakes(),
                      clip_mistakes(),
                      conv_mistakes(),
                      linear_attention_mistakes(),
                      ssm_mistakes(),
                      mixer_mistakes(),
                      index_mistakes(),
                      feed_forward_mistakes(),
                      expert_mistakes(),
                      residual_mistakes(),
                      multiplier_mistakes(),
                      parallel_mistakes(),
                      fused_mistakes(),
                      layer_mistakes(),
                      rounded_sum_mistakes(),
                      stream_mistakes(),
                      output_mistakes(),
                      number_mistakes()}) {
      for (Mistake& mistake : part) all.push_back(std::move(mistake));
    }
    return all;
  }();
  return catalogue;
}

KernelHooks hooks_of(const Mistake& mistake, bool before_bias) {
  if (!mistake.change) return mistake.edit;
  if (!before_bias) {
    return {.after = [change = mistake.change](const OpContext& context, OpResult result) {
      change_rows(change, context, result.values, result.n_rows, result.width);
    }};
  }
  return {.matmul = [change = mistake.change](const OpContext& context, MatmulCall call,
                                              Kernels& kernels) {
    const float* bias = call.bias;
    call.bias = nullptr;
    kernels.run(call);
    change_rows(change, context, call.out, call.n_tokens, call.w.rows);
    for (int64_t i = 0; i < call.n_tokens * call.w.rows && bias != nullptr; ++i) {
      call.out[i] += bias[i % call.w.rows];
    }
  }};
}

bool concerns(const Mistake& mistake, const Network& network, Op op) {
  const KernelHooks& edit = mistake.edit;
  const OpKind kind = network.kind_of(op);
  if (kind == OpKind::kSelect) return static_cast<bool>(edit.select);  // gives ids, not numbers
  if (kind == OpKind::kIndex) return static_cast<bool>(edit.index);    // and this positions
  if (mistake.change || edit.after) return true;
  switch (kind) {
    case OpKind::kEmbedding:
      return edit.get_rows || edit.scale || (edit.heads && is_in_layer(op.checkpoint)) ||
             (edit.norm && network.ends_with_norm(op));
    case OpKind::kNorm:
      return edit.norm || (edit.activate && network.has_own_activation(op));
    case OpKind::kLinear:
      return edit.matmul || (op.checkpoint == Checkpoint::kLogits && (edit.scale || edit.cap));
    case OpKind::kExpertLinear:
    case OpKind::kStreamLinear:
      return static_cast<bool>(edit.matmul);
    case OpKind::kCutoff:
      return static_cast<bool>(edit.cutoff);
    case OpKind::kStreams:
      return static_cast<bool>(edit.streams);
    case OpKind::kRope:
      return static_cast<bool>(edit.rope);
    case OpKind::kHeads:
      return static_cast<bool>(edit.heads);
    case OpKind::kAttention:
      return static_cast<bool>(edit.attention);
    case OpKind::kConv:
      return edit.conv || (edit.activate && network.has_own_activation(op));
    case OpKind::kDelta:
      return static_cast<bool>(edit.delta);
    case OpKind::kSsm:
      return static_cast<bool>(edit.ssm);
    case OpKind::kActivation:
      return static_cast<bool>(edit.activate);
    case OpKind::kAdd:
      return edit.add || (edit.scale && network.scale_at(op) != 1.0F);
    case OpKind::kWeigh:
      return static_cast<bool>(edit.weigh);
    case OpKind::kSpread:
      return static_cast<bool>(edit.spread);
    case OpKind::kMix:
      return static_cast<bool>(edit.mix);
    case OpKind::kSelect:
    case OpKind::kIndex:
      break;
  }
  return false;
}

bool is_possible(const Mistake& mistake, const Network& network, Op op) {
  return concerns(mistake, network, op) &&
         (!mistake.possible || mistake.possible(network.at(op), op));
}

std::vector<Op> possible_ops(const Mistake& mistake, const Network& network,
                             Checkpoint checkpoint) {
  std::vector<Op> ops;
  if (!is_in_layer(checkpoint)) ops.push_back({checkpoint, -1});
  for (int layer = 0; layer < network.n_layers && is_in_layer(checkpoint); ++layer) {
    if (find_spec(network.layer(layer), checkpoint) != nullptr) ops.push_back({checkpoint, layer});
  }
  std::erase_if(ops, [&](Op op) { return !is_possible(mistake, network, op); });
  return ops;
}

std::function<std::string(const Network&, double)> plainly(std::string text) {
  return [text = std::move(text)](const Network&, double) { return text; };
}

std::function<double(const OpContext&)> with(double parameter) {
  return [parameter](const OpContext&) { return parameter; };
}

std::function<std::vector<double>(const Network&)> among(std::vector<double> values) {
  return [values = std::move(values)](const Network&) { return values; };
}

std::vector<double> ratios(double low, double high, int count) {
  std::vector<double> values;
  values.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) values.push_back(low * std::pow(high / low, i / (count - 1.0)));
  return values;
}

std::string_view group_name(FaultGroup group) {
  switch (group) {
    case FaultGroup::kTokens:
      return "tokens";
    case FaultGroup::kEmbedding:
      return "embedding";
    case FaultGroup::kNorm:
      return "norm";
    case FaultGroup::kLinear:
      return "linear";
    case FaultGroup::kRotary:
      return "rotary";
    case FaultGroup::kCache:
      return "kv cache";
    case FaultGroup::kAttention:
      return "attention";
    case FaultGroup::kFeedForward:
      return "feed-forward";
    case FaultGroup::kResidual:
      return "residual";
    case FaultGroup::kOutput:
      return "output";
    case FaultGroup::kNumbers:
      return "numbers";
    case FaultGroup::kQuantised:
      return "quantised";
    case FaultGroup::kSampling:
      return "sampling";
  }
  return {};
}

}  // namespace assay::mistakes
