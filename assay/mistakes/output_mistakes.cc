#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "assay/mistakes/mistake.h"
#include "assay/mistakes/number_text.h"
#include "assay/mistakes/rotation.h"
#include "kernels/half.h"

// Of any op's output: scales, layouts, shifts, roundings.
namespace assay::mistakes {
namespace {

Mistake of_result(std::string cause, std::string text, Change change) {
  return {.cause = std::move(cause),
          .text = plainly(std::move(text)),
          .change = std::move(change),
          .generic = true};
}

Matrix multiplied_output(const Network&, const Matrix& right, double by) {
  return map(right, [f = static_cast<float>(by)](float x) { return f * x; });
}

std::vector<Mistake> scale_mistakes() {
  Mistake sign = of_result("sign", "has the opposite sign",
                           [](const Network& network, const Matrix& right, double) {
                             return multiplied_output(network, right, -1);
                           });
  sign.faults = {{.name = "sign",
                  .group = FaultGroup::kLinear,
                  .what = "the product has the wrong sign",
                  .at = Checkpoint::kAttnOut,
                  .before_bias = true}};
  Mistake scale{
      .cause = "scale",
      .text = [](const Network&,
                 double by) { return fmt::format("is multiplied by {}", number_unlike(by, 1, 5)); },
      .change = multiplied_output,
      .grid = among(ratios(1e-3, 1e3, 31)),
      .refine = true,
      .generic = true,
      .faults = {{"scaled", FaultGroup::kLinear, "V is 2 % too large", Checkpoint::kV, any_model,
                  with(1.02)},
                 {"logits-scaled", FaultGroup::kOutput, "logits are divided by 2",
                  Checkpoint::kLogits, any_model, with(0.5)}}};
  return {std::move(sign), std::move(scale)};
}

// In what is done to logits after their product.
std::vector<Mistake> logit_mistakes() {
  const auto scaled = [](std::function<float(float)> edit) -> KernelHooks {
    return {.scale = [edit = std::move(edit)](const OpContext&, AddCall call, Kernels& kernels) {
      call.scale = edit(call.scale);
      kernels.run(call);
    }};
  };
  const auto has_factor = [](const ModelConfig& config) { return config.logit_factor() != 1.0F; };
  const auto has_cap = [](const ModelConfig& config) { return config.logit_soft_cap > 0.0F; };
  const auto of_logits = [](const std::function<bool(const ModelConfig&)>& has) {
    return [has](const Network& network, Op op) {
      return op.checkpoint == Checkpoint::kLogits && network.model != nullptr &&
             has(network.model->config());
    };
  };
  const auto fault = [](const char* name, const char* what, UnsupportedReason reason) -> Injected {
    return {.name = name,
            .group = FaultGroup::kOutput,
            .what = what,
            .at = Checkpoint::kLogits,
            .unsupported_reason = std::move(reason),
            .in_arguments = true};
  };
  const UnsupportedReason needs_factor = needs("logit scale", has_factor);
  Injected other_cap = fault("logit-softcap-of-scores", "the logits are capped as the scores are",
                             needs("two soft caps", [has_cap](const ModelConfig& config) {
                               return has_cap(config) && config.attention_soft_cap > 0.0F &&
                                      config.attention_soft_cap != config.logit_soft_cap;
                             }));
  other_cap.parameter = [](const OpContext& context) {
    return static_cast<double>(context.network.model->config().attention_soft_cap);
  };
  return {
      {.cause = "logit_scale",
       .text = plainly("leaves the scale of the logits out"),
       .edit = scaled([](float) { return 1.0F; }),
       .possible = of_logits(has_factor),
       .faults = {fault("logit-scale-missing", "the logits are not scaled", needs_factor)}},
      {.cause = "logit_scale",
       .text = plainly("divides the logits by their scale where it multiplies, or the reverse"),
       .edit = scaled([](float factor) { return 1.0F / factor; }),
       .possible = of_logits(has_factor),
       .faults = {fault("logit-scale-inverted",
                        "the logits are divided by their scale, or the reverse", needs_factor)}},
      {.cause = "logit_scale",
       .text = plainly("applies the scale of the logits twice"),
       .edit = scaled([](float factor) { return factor * factor; }),
       .possible = of_logits(has_factor)},
      {.cause = "logit_softcap",
       .text = plainly("does not cap the logits"),
       .edit = {.cap = [](const OpContext&, const ActivateCall& call,
                          Kernels&) { std::copy_n(call.x, call.count, call.out); }},
       .possible = of_logits(has_cap),
       .faults = {fault("logit-softcap-missing", "the logits are not capped",
                        needs("cap of the logits", has_cap))}},
      {.cause = "logit_softcap",
       .text = plainly("multiplies the logits by the tanh that is to multiply their cap"),
       .edit = {.cap =
                    [](const OpContext&, const ActivateCall& call, Kernels&) {
                      for (int64_t i = 0; i < call.count; ++i) {
                        call.out[i] = call.x[i] * std::tanh(call.x[i] / call.cap);
                      }
                    }},
       .possible = of_logits(has_cap),
       .faults = {fault("logit-softcap-of-logits", "the logits are multiplied by their tanh",
                        needs("cap of the logits", has_cap))}},
      {.cause = "logit_softcap",
       .text =
           [](const Network& network, double cap) {
             const double right = network.model->config().logit_soft_cap;
             return fmt::format("is capped at {} in place of {}", number_unlike(cap, right),
                                number_unlike(right, cap));
           },
       .edit = {.cap =
                    [](const OpContext& context, ActivateCall call, Kernels& kernels) {
                      call.cap = static_cast<float>(context.parameter);
                      kernels.run(call);
                    }},
       .possible = of_logits(has_cap),
       .grid = among({1, 2, 3, 5, 10, 15, 20, 30, 50, 80, 100}),
       .refine = true,
       .faults = {other_cap}},
      {.cause = "logit_softcap",
       .text = [](const Network&, double cap) { return fmt::format("is capped at {:.4g}", cap); },
       .change =
           [](const Network&, const Matrix& right, double cap) {
             return map(right,
                        [c = static_cast<float>(cap)](float x) { return c * std::tanh(x / c); });
           },
       .possible = of_logits([has_cap](const ModelConfig& config) { return !has_cap(config); }),
       .grid = among({5, 10, 15, 20, 30, 50, 100}),
       .refine = true}};
}

// out[i * b + j] = right[j * a + i]: [b, a] written as [a, b].
Matrix turned(const Matrix& right, int64_t a, int64_t b) {
  Matrix out(right.rows, right.columns);
  for (int64_t t = 0; t < out.rows; ++t) {
    for (int64_t i = 0; i < a; ++i) {
      for (int64_t j = 0; j < b; ++j) out.row(t)[i * b + j] = right.row(t)[j * a + i];
    }
  }
  return out;
}

Matrix moved_heads(const Network& network, const Matrix& right, double by) {
  Matrix out = right;
  const int64_t columns = right.columns;
  const int64_t dim = network.dim_of_head(columns);
  const int64_t shift = (static_cast<int64_t>(by) * dim % columns + columns) % columns;
  for (int64_t t = 0; t < out.rows; ++t) {
    std::rotate_copy(right.row(t), right.row(t) + columns - shift, right.row(t) + columns,
                     out.row(t));
  }
  return out;
}

Matrix reversed_heads(const Network& network, const Matrix& right, double) {
  Matrix out = right;
  const int64_t dim = network.dim_of_head(right.columns);
  for (int64_t t = 0; t < out.rows; ++t) {
    for (int64_t head = 0; head + dim <= out.columns; head += dim) {
      const float* from = right.row(t) + out.columns - dim - head;
      std::copy(from, from + dim, out.row(t) + head);
    }
  }
  return out;
}

bool has_heads(const Network& network, Op op) {
  constexpr Checkpoint kOfHeads[] = {
      Checkpoint::kQ,     Checkpoint::kK,         Checkpoint::kV,         Checkpoint::kQRope,
      Checkpoint::kKRope, Checkpoint::kQRopeNorm, Checkpoint::kKRopeNorm, Checkpoint::kAttn};
  return network.head_dim > 1 &&
         std::find(std::begin(kOfHeads), std::end(kOfHeads), op.checkpoint) != std::end(kOfHeads);
}

bool is_rotated(const Network& network, Op op) {
  return (op.checkpoint == Checkpoint::kQ || op.checkpoint == Checkpoint::kK) &&
         network.head_dim > 2 && network.rotary();
}

// Rows of adjacent pairs as they are where a converter permutes them for `n_heads` heads, which the
// tensor has not.
Matrix permuted_for(const Network& network, const Matrix& right, double n_heads) {
  const auto count = static_cast<int64_t>(n_heads);
  if (count * network.head_dim == right.columns || right.columns % (2 * count) != 0) return {};
  Matrix out = turned_heads(network, right, true);
  const int64_t width = right.columns / count;
  for (int64_t first = 0; first < right.columns; first += width) {
    Matrix head(out.rows, width);
    for (int64_t t = 0; t < out.rows; ++t) std::copy_n(out.row(t) + first, width, head.row(t));
    head = turned(head, width / 2, 2);
    for (int64_t t = 0; t < out.rows; ++t) std::copy_n(head.row(t), width, out.row(t) + first);
  }
  return out;
}

std::string needs_rotated_product(const Model& model) {
  const std::string reason = needs_rotary(model);
  return reason.empty() ? needs_query_product(model) : reason;
}

bool is_permuted(const Network& network, Op op) {
  return is_rotated(network, op) && network.rope &&
         network.rope->pairing == RopePairing::kAdjacent && network.rope->first_turned == 0 &&
         network.n_kv_heads > 0 && network.n_heads > network.n_kv_heads;
}

// Query heads as [group, kv heads] where they are [kv heads, group], or the other way round.
Matrix regrouped(const Network& network, const Matrix& right, bool group_first) {
  const int64_t n_kv = network.n_kv_heads;
  const int64_t group = network.n_heads / n_kv;
  const int64_t dim = right.columns / network.n_heads;
  Matrix out(right.rows, right.columns);
  for (int64_t t = 0; t < out.rows; ++t) {
    for (int64_t kv = 0; kv < n_kv; ++kv) {
      for (int64_t i = 0; i < group; ++i) {
        const int64_t by_kv = (kv * group + i) * dim;
        const int64_t by_group = (i * n_kv + kv) * dim;
        std::copy_n(right.row(t) + (group_first ? by_kv : by_group), dim,
                    out.row(t) + (group_first ? by_group : by_kv));
      }
    }
  }
  return out;
}

bool has_groups(const Network& network, Op op) {
  return has_heads(network, op) && op.checkpoint != Checkpoint::kK &&
         op.checkpoint != Checkpoint::kKRope && op.checkpoint != Checkpoint::kKRopeNorm &&
         op.checkpoint != Checkpoint::kV && network.n_kv_heads > 1 &&
         network.n_heads > network.n_kv_heads && network.n_heads % network.n_kv_heads == 0;
}

std::vector<Mistake> layout_mistakes() {
  std::vector<Mistake> mistakes = {
      of_result("head_order",
                "lays heads and their elements out the other way round ([dim, heads])",
                [](const Network& network, const Matrix& right, double) {
                  const int64_t dim = network.dim_of_head(right.columns);
                  return turned(right, dim, right.columns / dim);
                }),
      of_result("head_order", "takes [dim, heads] for [heads, dim]",
                [](const Network& network, const Matrix& right, double) {
                  const int64_t dim = network.dim_of_head(right.columns);
                  return turned(right, right.columns / dim, dim);
                }),
      of_result("head_order", "puts the heads in reverse order", reversed_heads),
      {.cause = "head_order",
       .text =
           [](const Network&, double by) {
             return fmt::format("puts head h at the place of head h{:+.0f}", by);
           },
       .change = moved_heads,
       .grid = among({-2, -1, 1, 2}),
       .generic = true}};
  mistakes[0].faults = {{"heads-interleaved", FaultGroup::kAttention,
                         "heads are joined as [head_dim, n_heads]", Checkpoint::kAttn}};
  for (Mistake& mistake : mistakes) mistake.possible = has_heads;
  for (const bool to_halves : {true, false}) {
    mistakes.push_back(
        of_result("rope_pairing",
                  to_halves ? "has the rows in the order of rotary halves, not of adjacent pairs"
                            : "has the rows in the order of adjacent pairs, not of rotary halves",
                  [to_halves](const Network& network, const Matrix& right, double) {
                    return turned_heads(network, right, to_halves);
                  }));
    mistakes.back().possible = is_rotated;
  }
  mistakes.back().faults = {
      {.name = "q-rows-permuted",
       .group = FaultGroup::kLinear,
       .what = "rows of Q from pairs to halves: the permutation of the file is done twice",
       .at = Checkpoint::kQ,
       .unsupported_reason = needs_rotated_product,
       .in_arguments = true,
       .before_bias = true}};
  for (const bool to_halves : {true, false}) {
    mistakes.push_back(of_result(
        "rope_pairing",
        to_halves ? "has rows that were put from adjacent pairs into rotary halves twice"
                  : "has rows that were put from rotary halves into adjacent pairs twice more",
        [to_halves](const Network& network, const Matrix& right, double) {
          return turned_heads(network, turned_heads(network, right, to_halves), to_halves);
        }));
    mistakes.back().possible = [](const Network& network, Op op) {
      return is_rotated(network, op) && network.head_dim > 4;  // two turns of 4 are none
    };
  }
  for (const bool group_first : {true, false}) {
    mistakes.push_back(of_result(
        "head_order",
        group_first ? "has its heads as [group, kv heads] in place of [kv heads, group]"
                    : "has its heads as if they were [group, kv heads] and not [kv heads, group]",
        [group_first](const Network& network, const Matrix& right, double) {
          return regrouped(network, right, group_first);
        }));
    mistakes.back().possible = has_groups;
  }
  mistakes.push_back(
      {.cause = "rope_pairing",
       .text =
           [](const Network&, double count) {
             return fmt::format("has rows that were permuted for {:.0f} heads", count);
           },
       .change = permuted_for,
       .possible = is_permuted,
       .grid =
           [](const Network& network) {
             const int64_t group = network.n_heads / network.n_kv_heads;
             return std::vector{static_cast<double>(group), static_cast<double>(network.n_heads)};
           },
       .generic = true});
  return mistakes;
}

enum class ElementEdge : uint8_t { kWrap, kZero, kKeep };

Matrix moved_elements(const Matrix& right, int64_t shift, ElementEdge edge) {
  if (std::abs(shift) >= right.columns) return {};
  Matrix out = right;
  for (int64_t t = 0; t < out.rows; ++t) {
    for (int64_t i = 0; i < out.columns; ++i) {
      const int64_t from = i - shift;
      const bool inside = from >= 0 && from < out.columns;
      if (!inside && edge == ElementEdge::kKeep) continue;
      const int64_t wrapped = (from + out.columns) % out.columns;
      out.row(t)[i] = inside || edge == ElementEdge::kWrap ? right.row(t)[wrapped] : 0;
    }
  }
  return out;
}

// Each row becomes that of the token `parameter` positions before it, where there is one.
void move_tokens(const OpContext& context, OpResult result) {
  const std::vector<int64_t>& positions = context.inputs.positions;
  const std::vector<float> right(result.values, result.values + result.n_rows * result.width);
  for (int64_t t = 0; t < result.n_rows; ++t) {
    const int64_t wanted =
        positions[static_cast<size_t>(t)] - static_cast<int64_t>(context.parameter);
    const auto from = std::find(positions.begin(), positions.end(), wanted);
    if (from == positions.end()) continue;
    std::copy_n(right.begin() + (from - positions.begin()) * result.width, result.width,
                result.row(t).begin());
  }
}

std::vector<Mistake> element_shift_mistakes() {
  std::vector<Mistake> mistakes;
  for (const ElementEdge edge : {ElementEdge::kWrap, ElementEdge::kZero, ElementEdge::kKeep}) {
    mistakes.push_back(
        {.cause = "row_shift",
         .text = [](const Network&,
                    double by) { return fmt::format("writes element i to element i{:+.0f}", by); },
         .change = [edge](
                       const Network&, const Matrix& right,
                       double by) { return moved_elements(right, static_cast<int64_t>(by), edge); },
         // Those of experts are rather their order: see expert_order.
         .possible =
             [](const Network&, Op op) {
               return op.checkpoint != Checkpoint::kExpertWeights &&
                      op.checkpoint != Checkpoint::kRouter;
             },
         .grid = among({-32, -16, -8, -4, -3, -2, -1, 1, 2, 3, 4, 8, 16, 32}),
         .generic = true});
  }
  mistakes[0].faults = {{.name = "rows-off-by-one",
                         .group = FaultGroup::kLinear,
                         .what = "rows of V are one too late",
                         .at = Checkpoint::kV,
                         .parameter = with(-1),
                         .in_arguments = true,
                         .before_bias = true},
                        {"logits-off-by-one", FaultGroup::kOutput, "logits stand one id too late",
                         Checkpoint::kLogits, any_model, with(1)}};
  mistakes.push_back({.cause = "token_shift",
                      .text =
                          [](const Network&, double by) {
                            return fmt::format("gives the result of the token {:.0f} position{} {}",
                                               std::abs(by), std::abs(by) > 1 ? "s" : "",
                                               by > 0 ? "before" : "after");
                          },
                      .edit = {.after = move_tokens},
                      .grid = among({-3, -2, -1, 1, 2, 3}),
                      .generic = true,
                      .faults = {{"token-shift", FaultGroup::kLinear,
                                  "each token but the first has the result of the one before",
                                  Checkpoint::kAttnOut, any_model, with(1)}}});
  return mistakes;
}

float cut_bf16(float x) {
  return float_from_bits(float_bits(x) & 0xFFFF0000U);
}
float cut_f16(float x) {
  return std::abs(x) < 0x1p-14F ? kF16Rounding.round(x)
                                : float_from_bits(float_bits(x) & 0xFFFFE000U);
}
// Eight bits for each of `block` elements, scaled by the largest of them.
// `stored`: the factor is rounded to f16 before it is divided by.
Matrix round_blocks(const Matrix& x, int64_t block, bool stored) {
  Matrix out = x;
  for (int64_t first = 0; first < std::ssize(x.values); first += block) {
    const auto begin = out.values.begin() + first;
    const auto end = out.values.begin() + std::min<int64_t>(first + block, std::ssize(out.values));
    float largest = 0;
    for (auto at = begin; at != end; ++at) largest = std::max(largest, std::abs(*at));
    if (largest == 0) continue;
    const float d = kF16Rounding.round(largest / 127);
    for (auto at = begin; at != end; ++at) {
      *at = d == 0 ? 0 : std::round(*at / (stored ? d : largest / 127)) * d;
    }
  }
  return out;
}

struct TensorRounding {
  const char* text;
  std::function<Matrix(const Matrix&)> round;
  std::vector<Injected> of_inputs = {};
};

std::vector<TensorRounding> tensor_roundings() {
  constexpr FaultGroup kLinear = FaultGroup::kLinear;
  const auto each = [](float (*f)(float)) { return [f](const Matrix& x) { return map(x, f); }; };
  const auto blocks = [](int64_t size, bool stored) {
    return [=](const Matrix& x) { return round_blocks(x, size, stored); };
  };
  return {
      {"f16",
       each(kF16Rounding.round),
       {{"inputs-f16", kLinear, "inputs are rounded to float16", Checkpoint::kAttnOut}}},
      {"bf16",
       each(kBf16Rounding.round),
       {{"inputs-bf16", kLinear, "inputs are rounded to bfloat16", Checkpoint::kFfnOut}}},
      {"bf16, cutting the low half off", each(cut_bf16)},
      {"f16's mantissa, cutting the low bits off", each(cut_f16)},
      {kFp8Roundings[0].type, each(kFp8Roundings[0].round)},
      {kFp8Roundings[1].type, each(kFp8Roundings[1].round)},
      {"8 bits in blocks of 32 (Q8_0)", blocks(32, false)},
      // As llama.cpp does before it multiplies by quantised weights.
      {"8 bits in blocks of 32 (Q8_0)",
       blocks(32, true),
       {{"inputs-q8", kLinear, "inputs are quantised to 8 bits, 32 with a scale", Checkpoint::kV}}},
      {"8 bits in blocks of 256 (Q8_K)", blocks(256, false)},
      {"8 bits a token", [](const Matrix& x) { return round_blocks(x, x.columns, false); }}};
}

Mistake input_rounding(const TensorRounding& rounding) {
  return {
      .cause = "rounding",
      .text = plainly(fmt::format("rounds its input to {}", rounding.text)),
      .edit = {.matmul =
                   [round = rounding.round](const OpContext&, MatmulCall call, Kernels& kernels) {
                     Matrix x(call.n_tokens, call.w.columns);
                     std::copy_n(call.x, x.values.size(), x.values.begin());
                     x = round(x);
                     call.x = x.values.data();
                     kernels.run(call);
                   }},
      .generic = true,
      .faults = rounding.of_inputs};
}

}  // namespace

std::vector<Mistake> output_mistakes() {
  std::vector<Mistake> mistakes = logit_mistakes();
  for (auto part : {scale_mistakes(), layout_mistakes(), element_shift_mistakes()}) {
    for (Mistake& mistake : part) mistakes.push_back(std::move(mistake));
  }
  for (const TensorRounding& rounding : tensor_roundings()) {
    mistakes.push_back(of_result("rounding", fmt::format("rounds its result to {}", rounding.text),
                                 [round = rounding.round](const Network&, const Matrix& right,
                                                          double) { return round(right); }));
    mistakes.push_back(input_rounding(rounding));
  }
  return mistakes;
}

}  // namespace assay::mistakes
