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
    for (auto part : {embedding_mistakes(), norm_mistakes(), linear_mistakes(), rope_mistakes(),
                      attention_mistakes(), feed_forward_mistakes(), residual_mistakes(),
                      output_mistakes(), number_mistakes()}) {
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

bool concerns(const Mistake& mistake, Checkpoint checkpoint) {
  const KernelHooks& edit = mistake.edit;
  const OpKind kind = kind_of(checkpoint);
  return mistake.change || edit.after || (kind == OpKind::kEmbedding && edit.get_rows) ||
         (kind == OpKind::kNorm && edit.norm) || (kind == OpKind::kLinear && edit.matmul) ||
         (kind == OpKind::kRope && edit.rope) || (kind == OpKind::kAttention && edit.attention) ||
         (kind == OpKind::kActivation && edit.activate) || (kind == OpKind::kAdd && edit.add);
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
