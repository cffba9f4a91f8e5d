#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "assay/mistakes/mistake.h"
#include "kernels/reference/dequantize.h"

namespace assay::mistakes {
namespace {

constexpr int64_t kMaxWeights = int64_t{1} << 26;  // of a matrix that is transposed

// The product with the weights and bias of `a` at `b`, and the reverse.
KernelHooks exchanged(Checkpoint a, Checkpoint b) {
  return {.matmul = [a, b](const OpContext& context, MatmulCall call, Kernels& kernels) {
    const Op op = context.op();
    const Linear& own = *context.network.linear(op);
    const Linear& other = *context.network.linear({op.checkpoint == a ? b : a, op.layer});
    // Of an expert the rows that it has in the matrix of all.
    const int64_t first = first_row(own.weight, call.w) - own.first + other.first;
    call.w = other.weight.slice(first, call.w.rows);
    call.bias = other.bias == nullptr ? nullptr : other.bias + first;
    kernels.run(call);
  }};
}

// The weights' numbers read as [columns, rows].
void run_transposed(const OpContext&, MatmulCall call, Kernels& kernels) {
  const int64_t rows = call.w.rows;
  const int64_t columns = call.w.columns;
  std::vector<float> stored(static_cast<size_t>(rows * columns));
  for (int64_t r = 0; r < rows; ++r) {
    dequantize_row(call.w.type, call.w.slice(r, 1).data, columns, stored.data() + r * columns);
  }
  std::vector<float> transposed(stored.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      transposed[static_cast<size_t>(r * columns + c)] = stored[static_cast<size_t>(c * rows + r)];
    }
  }
  call.w = {TensorType::kF32, rows, columns, transposed.data()};
  kernels.run(call);
}

void run_without_last_input(const OpContext&, MatmulCall call, Kernels& kernels) {
  std::vector<float> x(call.x, call.x + call.n_tokens * call.w.columns);
  for (int64_t t = 1; t <= call.n_tokens; ++t) {
    x[static_cast<size_t>(t * call.w.columns - 1)] = 0.0F;
  }
  call.x = x.data();
  kernels.run(call);
}

std::string needs_square_output(const Model& model) {
  const WeightMatrix& matrix = model.layers.front().linear(Checkpoint::kAttnOut).weight;
  return matrix.rows == matrix.columns ? "" : "its attention output matrix is not square";
}

std::string needs_own_output(const Model& model) {
  return model.output.weight.data == model.token_embedding.data ? "its embeddings are tied" : "";
}

Injected without_bias(std::string name, const std::string& of, Checkpoint at) {
  const auto needs_bias = [at](const Model& model) -> std::string {
    const bool biased = model.layers.front().linear(at).bias != nullptr;
    return biased ? "" : "this product has no bias";
  };
  return {.name = std::move(name),
          .group = FaultGroup::kLinear,
          .what = "the bias of " + of + " is left out",
          .at = at,
          .unsupported_reason = needs_bias,
          .in_arguments = true};
}

// Gate, up or both with the weights of the other.
std::vector<Mistake> gate_and_up_mistakes() {
  constexpr Checkpoint kGate = Checkpoint::kFfnGate;
  constexpr Checkpoint kUp = Checkpoint::kFfnUp;
  const auto mistake = [](std::string cause, std::string text, std::vector<Checkpoint> wrong,
                          std::string fault, std::string what) -> Mistake {
    return {.cause = std::move(cause),
            .text = plainly(std::move(text)),
            .edit = exchanged(kGate, kUp),
            .possible =
                [wrong](const Network& network, Op op) {
                  return network.gated() && std::ranges::find(wrong, op.checkpoint) != wrong.end();
                },
            .faults = {{.name = std::move(fault),
                        .group = FaultGroup::kFeedForward,
                        .what = std::move(what),
                        .at = wrong.front(),
                        .unsupported_reason = needs_gate,
                        .also = {wrong.begin() + 1, wrong.end()},
                        .in_arguments = true}}};
  };
  return {
      mistake("gate_up_swapped", "computes gate with the weights of up, and up with those of gate",
              {kGate, kUp}, "gate-up-swapped", "gate and up are taken for each other"),
      mistake("gate_as_up", "computes gate, too, with the weights of up", {kGate}, "gate-as-up",
              "gate has the weights of up, as up has"),
      mistake("up_as_gate", "computes up, too, with the weights of gate", {kUp}, "up-as-gate",
              "up has the weights of gate, as gate has")};
}

bool are_alike(const Linear* k, const Linear* v) {
  return k != nullptr && v != nullptr && k->weight.data != nullptr && v->weight.data != nullptr &&
         k->weight.rows == v->weight.rows && k->weight.columns == v->weight.columns;
}

bool is_like_other_of_k_and_v(const Network& network, Op op) {
  return (op.checkpoint == Checkpoint::kK || op.checkpoint == Checkpoint::kV) &&
         are_alike(network.linear({Checkpoint::kK, op.layer}),
                   network.linear({Checkpoint::kV, op.layer}));
}

std::string needs_like_k_and_v(const Model& model) {
  const bool has = std::ranges::any_of(model.layers, [](const Layer& layer) {
    return are_alike(&layer.linear(Checkpoint::kK), &layer.linear(Checkpoint::kV));
  });
  return has ? "" : "its K and V are no products of like matrices";
}

// Other weights than those of the op.
std::vector<Mistake> exchange_mistakes() {
  return {{.cause = "kv_swapped",
           .text = plainly("has the weights of the other of K and V"),
           .edit = exchanged(Checkpoint::kK, Checkpoint::kV),
           .possible = is_like_other_of_k_and_v,
           .faults = {{.name = "k-v-weights-swapped",
                       .group = FaultGroup::kLinear,
                       .what = "the weights of K and V are taken for each other",
                       .at = Checkpoint::kK,
                       .unsupported_reason = needs_like_k_and_v,
                       .also = {Checkpoint::kV},
                       .in_arguments = true}}},
          {.cause = "gate_up_swapped",
           .text = plainly("takes the parts of the product before a convolution in another order"),
           .edit = exchanged(Checkpoint::kConvB, Checkpoint::kConvC),
           .possible =
               [](const Network&, Op op) {
                 return op.checkpoint == Checkpoint::kConvB || op.checkpoint == Checkpoint::kConvC;
               },
           .faults = {{.name = "conv-gates-swapped",
                       .group = FaultGroup::kLinear,
                       .what = "the two gates of a convolution are taken for each other",
                       .at = Checkpoint::kConvB,
                       .unsupported_reason = needs_conv,
                       .also = {Checkpoint::kConvC},
                       .in_arguments = true}}},
          {.cause = "output_tied",
           .text = plainly("multiplies by the embeddings in place of the output matrix"),
           .edit = {.matmul =
                        [](const OpContext& context, MatmulCall call, Kernels& kernels) {
                          const WeightMatrix& all = context.network.model->token_embedding;
                          const WeightMatrix& own =
                              context.network.linear({Checkpoint::kLogits, -1})->weight;
                          call.w = all.slice(first_row(own, call.w), call.w.rows);
                          kernels.run(call);
                        }},
           .possible =
               [](const Network& network, Op op) {
                 return op.checkpoint == Checkpoint::kLogits && network.model != nullptr &&
                        needs_own_output(*network.model).empty();
               },
           .faults = {{.name = "output-tied",
                       .group = FaultGroup::kOutput,
                       .what = "the embeddings are the output matrix, where the file has one",
                       .at = Checkpoint::kLogits,
                       .unsupported_reason = needs_own_output,
                       .in_arguments = true}}}};
}

template <class Call>
void run_without_bias(const OpContext&, Call call, Kernels& kernels) {
  call.bias = nullptr;
  kernels.run(call);
}

std::string needs_norm_bias(const Model& model) {
  const bool biased = model.layers.front().norm(Checkpoint::kAttnNorm).bias != nullptr;
  return biased ? "" : "its norms have no bias";
}

// Of products, of norms, and of all of them.
Mistake bias_mistake() {
  return {
      .cause = "bias_missing",
      .text = plainly("leaves the bias out"),
      .edit = {.matmul = run_without_bias<MatmulCall>, .norm = run_without_bias<NormCall>},
      .possible = [](const Network& network, Op op) { return network.has_bias(op); },
      .faults = {
          without_bias("bias-q-missing", "Q", Checkpoint::kQ),
          without_bias("bias-v-missing", "V", Checkpoint::kV),
          without_bias("bias-attn-out-missing", "the attention's output", Checkpoint::kAttnOut),
          without_bias("bias-ffn-down-missing", "the feed-forward's output", Checkpoint::kFfnOut),
          {"norm-bias-missing", FaultGroup::kNorm, "the bias is left out", Checkpoint::kAttnNorm,
           needs_norm_bias}}};
}

// As ranks do that add it each before their sum.
Mistake repeated_bias_mistake() {
  Injected twice =
      without_bias("bias-attn-out-twice", "the attention's output", Checkpoint::kAttnOut);
  twice.what = "the bias of the attention's output is added twice";
  twice.parameter = with(2);
  return {.cause = "bias_missing",
          .text =
              [](const Network&, double times) {
                return fmt::format("adds the bias {:.0f} times, as if each rank added it", times);
              },
          .edit = {.matmul =
                       [](const OpContext& context, MatmulCall call, Kernels& kernels) {
                         if (call.bias == nullptr) return kernels.run(call);
                         std::vector<float> bias(call.bias, call.bias + call.w.rows);
                         for (float& each : bias) each *= static_cast<float>(context.parameter);
                         call.bias = bias.data();
                         kernels.run(call);
                       }},
          .possible =
              [](const Network& network, Op op) {
                const Linear* linear = network.linear(op);
                return linear != nullptr && linear->bias != nullptr;
              },
          .grid = among({2, 4, 8}),
          .faults = {std::move(twice)}};
}

// The product with rounded weights and bias, at most 16 MB of weights at a time.
void run_with_rounded_weights(Rounding rounding, const MatmulCall& call, Kernels& kernels) {
  constexpr int64_t kElements = int64_t{1} << 22U;
  const int64_t columns = call.w.columns;
  const int64_t most = std::clamp(kElements / columns, int64_t{1}, call.w.rows);
  std::vector<float> weights(static_cast<size_t>(most * columns));
  std::vector<float> bias(static_cast<size_t>(most));
  std::vector<float> out(static_cast<size_t>(most * call.n_tokens));
  for (int64_t first = 0; first < call.w.rows; first += most) {
    const int64_t rows = std::min(most, call.w.rows - first);
    for (int64_t r = 0; r < rows; ++r) {
      dequantize_row(call.w.type, call.w.slice(first + r, 1).data, columns,
                     weights.data() + r * columns);
    }
    std::ranges::transform(weights, weights.begin(), rounding.round);
    MatmulCall part = call;
    part.w = {TensorType::kF32, rows, columns, weights.data()};
    part.out = out.data();
    if (call.bias != nullptr) {
      std::transform(call.bias + first, call.bias + first + rows, bias.begin(), rounding.round);
      part.bias = bias.data();
    }
    kernels.run(part);
    for (int64_t t = 0; t < call.n_tokens; ++t) {
      std::copy_n(out.data() + t * rows, rows, call.out + t * call.w.rows + first);
    }
  }
}

// Both factors of each product, and its sum where `result` says so.
Mistake product_rounding(const Rounding& rounding, bool result) {
  std::string text = fmt::format("rounds its input and weights{} to {}",
                                 result ? " and its result" : "", rounding.type);
  return {.cause = "rounding",
          .text = plainly(std::move(text)),
          .edit = {.matmul =
                       [=](const OpContext&, MatmulCall call, Kernels& kernels) {
                         std::vector<float> x(call.x, call.x + call.n_tokens * call.w.columns);
                         std::ranges::transform(x, x.begin(), rounding.round);
                         call.x = x.data();
                         run_with_rounded_weights(rounding, call, kernels);
                         float* end = call.out + call.n_tokens * call.w.rows;
                         if (result) std::transform(call.out, end, call.out, rounding.round);
                       }},
          .possible =
              [=](const Network& network, Op op) {
                const Linear* linear = network.linear(op);
                if (network.kind_of(op) != OpKind::kLinear || linear == nullptr) return false;
                // Of weights of that type only the input is rounded, which is a mistake of its own.
                const TensorType type = linear->weight.type;
                const bool is_of_type =
                    (type == TensorType::kF16 && rounding.round == kF16Rounding.round) ||
                    (type == TensorType::kBF16 && rounding.round == kBf16Rounding.round);
                return result || !is_of_type;
              },
          .generic = true};
}

// Of the output matrix alone, which files often hold in a type of its own.
Mistake head_rounding(const Rounding& rounding) {
  return {.cause = "rounding",
          .text = plainly(std::string("rounds its weights to ") + rounding.type),
          .edit = {.matmul =
                       [rounding](const OpContext&, const MatmulCall& call, Kernels& kernels) {
                         run_with_rounded_weights(rounding, call, kernels);
                       }},
          .possible = [](const Network& network, Op op) {
            return op.checkpoint == Checkpoint::kLogits && network.model != nullptr;
          }};
}

void run_with_rounded_weights(Rounding rounding, NormCall call, Kernels& kernels) {
  std::vector<float> weight(call.weight, call.weight + call.n_weights * call.width);
  std::ranges::transform(weight, weight.begin(), rounding.round);
  call.weight = weight.data();
  std::vector<float> bias;
  if (call.bias != nullptr) {
    bias.assign(call.bias, call.bias + call.width);
    std::ranges::transform(bias, bias.begin(), rounding.round);
    call.bias = bias.data();
  }
  kernels.run(call);
}

// Of a model that was stored or loaded in another type, so in all products or in none.
Mistake weight_rounding(Rounding rounding) {
  return {.cause = "rounding",
          .text = plainly(std::string("rounds the weights to ") + rounding.type),
          .edit = {.get_rows =
                       [rounding](const OpContext&, const GetRowsCall& call, Kernels& kernels) {
                         kernels.run(call);
                         std::transform(call.out, call.out + call.n_ids * call.table.columns,
                                        call.out, rounding.round);
                       },
                   .matmul =
                       [rounding](const OpContext&, const MatmulCall& call, Kernels& kernels) {
                         run_with_rounded_weights(rounding, call, kernels);
                       },
                   .norm =
                       [rounding](const OpContext&, const NormCall& call, Kernels& kernels) {
                         run_with_rounded_weights(rounding, call, kernels);
                       }},
          .possible = [](const Network& network, Op) { return network.model != nullptr; },
          .generic = true,
          .together = true};
}

// Of a matrix that a file has under another name, or not at all, and that is left as it was made.
Mistake unread_output_mistake() {
  return {.cause = "weights_missing",
          .text = plainly("multiplies by a matrix of zeros: it was never read"),
          .edit = {.matmul =
                       [](const OpContext&, const MatmulCall& call, Kernels&) {
                         for (int64_t i = 0; i < call.n_tokens * call.w.rows; ++i) {
                           call.out[i] = call.bias == nullptr ? 0.0F : call.bias[i % call.w.rows];
                         }
                       }},
          .possible = [](const Network&, Op op) { return op.checkpoint == Checkpoint::kLogits; }};
}

}  // namespace

std::vector<Mistake> linear_mistakes() {
  std::vector<Mistake> mistakes = block_mistakes();
  mistakes.push_back(bias_mistake());
  mistakes.push_back(repeated_bias_mistake());
  mistakes.push_back(unread_output_mistake());
  mistakes.push_back(
      {.cause = "transpose",
       .text = plainly("multiplies by the transposed weights"),
       .edit = {.matmul = run_transposed},
       .possible =
           [](const Network& network, Op op) {
             const WeightMatrix& weight = network.linear(op)->weight;
             return weight.rows * weight.columns <= kMaxWeights;
           },
       .faults = {{.name = "transposed",
                   .group = FaultGroup::kLinear,
                   .what = "the square matrix of the attention's output is transposed",
                   .at = Checkpoint::kAttnOut,
                   .unsupported_reason = needs_square_output,
                   .in_arguments = true}}});
  for (auto part : {gate_and_up_mistakes(), exchange_mistakes()}) {
    for (Mistake& mistake : part) mistakes.push_back(std::move(mistake));
  }
  for (const Rounding& rounding : kRoundings) {
    mistakes.push_back(weight_rounding(rounding));
    mistakes.push_back(head_rounding(rounding));
    mistakes.push_back(product_rounding(rounding, true));
  }
  for (const Rounding& rounding : {kBf16Rounding, kF16Rounding, kTf32Rounding, kCutTf32}) {
    mistakes.push_back(product_rounding(rounding, false));
  }
  mistakes.push_back({.edit = {.matmul = run_without_last_input},
                      .faults = {{"tail-dropped", FaultGroup::kLinear,
                                  "the last input of each row is left out of the sum",
                                  Checkpoint::kQ, needs_query_product}}});
  return mistakes;
}

}  // namespace assay::mistakes
