#include <algorithm>
#include <cmath>
#include <cstring>

#include "assay/mutate/catalogue.h"
#include "assay/mutate/fault_builders.h"
#include "kernels/half.h"

namespace assay::mutate {
namespace {

constexpr FaultGroup kGroup = FaultGroup::kLinear;

using Hook = Hook<MatmulCall>;

Fault in_matmul(FaultText text, Checkpoint at, UnsupportedReason unsupported_reason, Hook hook) {
  return in_op<MatmulCall>(std::move(text), at, std::move(unsupported_reason), &KernelHooks::matmul,
                           std::move(hook));
}

// The product with other inputs: `edit` changes one token's.
Hook with_input(std::function<void(std::span<float>)> edit) {
  return [edit = std::move(edit)](const OpContext&, MatmulCall call, Kernels& kernels) {
    const int64_t width = call.w.columns;
    std::vector<float> x(call.x, call.x + call.n_tokens * width);
    for (int64_t t = 0; t < call.n_tokens; ++t) {
      edit({x.data() + t * width, static_cast<size_t>(width)});
    }
    call.x = x.data();
    kernels.run(call);
  };
}

// As llama.cpp does before it multiplies by quantised weights: 32 inputs share a scale, and each
// is a whole number from -127 to 127.
void round_to_q8(std::span<float> x) {
  for (size_t block = 0; block < x.size(); block += 32) {
    const auto values = x.subspan(block, std::min<size_t>(32, x.size() - block));
    float largest = 0.0F;
    for (const float value : values) largest = std::max(largest, std::abs(value));
    const float scale = float_from_f16(f16_from_float(largest / 127.0F));
    for (float& value : values) value = scale == 0.0F ? 0.0F : std::round(value / scale) * scale;
  }
}

// A layer's matrix with its rows in the order `from`: row r is the old row from(r).
void permute_rows(Injection& injection, WeightMatrix& matrix,
                  const std::function<int64_t(int64_t)>& from) {
  const size_t bytes = row_bytes(matrix.type, matrix.columns);
  std::vector<std::byte> rows(static_cast<size_t>(matrix.rows) * bytes);
  for (int64_t r = 0; r < matrix.rows; ++r) {
    std::memcpy(rows.data() + static_cast<size_t>(r) * bytes, matrix.slice(from(r), 1).data, bytes);
  }
  matrix.data = keep(injection, std::move(rows));
}

std::string needs_square_output(const Model& model) {
  const WeightMatrix& matrix = model.layers.front().linear(Checkpoint::kAttnOut).weight;
  return matrix.rows == matrix.columns ? "" : "its attention output matrix is not square";
}

Fault without_bias(const std::string& name, const std::string& of, Checkpoint at) {
  const auto needs_bias = [at](const Model& model) {
    const bool biased = model.layers.front().linear(at).bias != nullptr;
    return std::string(biased ? "" : "this product has no bias");
  };
  return in_weights(
      {name, kGroup, "the bias of " + of + " is left out", "bias_missing"}, at, needs_bias,
      [at](const FaultSite&, Layer& layer, Injection&) { layer.linear(at).bias = nullptr; });
}

std::vector<Fault> weight_faults() {
  std::vector<Fault> faults;
  faults.push_back(without_bias("bias-q-missing", "Q", Checkpoint::kQ));
  faults.push_back(without_bias("bias-v-missing", "V", Checkpoint::kV));
  faults.push_back(
      without_bias("bias-attn-out-missing", "the attention's output", Checkpoint::kAttnOut));
  faults.push_back(
      without_bias("bias-ffn-down-missing", "the feed-forward's output", Checkpoint::kFfnOut));
  faults.push_back(
      in_weights({"transposed", kGroup, "the square matrix of the attention's output is transposed",
                  "transpose"},
                 Checkpoint::kAttnOut, needs_square_output,
                 [](const FaultSite&, Layer& layer, Injection& injection) {
                   WeightMatrix& matrix = layer.linear(Checkpoint::kAttnOut).weight;
                   const std::vector<float> values = dequantized(matrix);
                   std::vector<float> turned(values.size());
                   const auto n = static_cast<size_t>(matrix.rows);
                   for (size_t i = 0; i < values.size(); ++i) {
                     turned[i % n * n + i / n] = values[i];
                   }
                   matrix = keep(injection, turned, matrix.rows, matrix.columns);
                 }));
  faults.push_back(in_weights(
      {"q-rows-permuted", kGroup,
       "rows of Q from pairs to halves: the permutation of the file is done twice", "rope_pairing"},
      Checkpoint::kQ, needs_rotary, [](const FaultSite& site, Layer& layer, Injection& injection) {
        const int64_t dim = site.model.config().head_dim;
        permute_rows(injection, layer.linear(Checkpoint::kQ).weight, [dim](int64_t row) {
          const int64_t in_head = row % dim;
          return row - in_head + in_head % 2 * (dim / 2) + in_head / 2;
        });
      }));
  faults.push_back(in_weights(
      {"rows-off-by-one", kGroup, "rows of V are one too late", "row_shift"}, Checkpoint::kV,
      any_model, [](const FaultSite&, Layer& layer, Injection& injection) {
        WeightMatrix& matrix = layer.linear(Checkpoint::kV).weight;
        const int64_t rows = matrix.rows;
        permute_rows(injection, matrix, [rows](int64_t row) { return (row + 1) % rows; });
      }));
  return faults;
}

std::vector<Fault> product_faults() {
  std::vector<Fault> faults;
  faults.push_back(in_matmul(
      {"tail-dropped", kGroup, "the last input of each row is left out of the sum"}, Checkpoint::kQ,
      any_model, with_input([](std::span<float> x) { x.back() = 0.0F; })));
  faults.push_back(in_matmul({"inputs-bf16", kGroup, "inputs are rounded to bfloat16", "rounding"},
                             Checkpoint::kFfnOut, any_model, with_input([](std::span<float> x) {
                               for (float& value : x)
                                 value = float_from_bf16(bf16_from_float(value));
                             })));
  faults.push_back(in_matmul({"inputs-f16", kGroup, "inputs are rounded to float16", "rounding"},
                             Checkpoint::kAttnOut, any_model, with_input([](std::span<float> x) {
                               for (float& value : x) value = float_from_f16(f16_from_float(value));
                             })));
  faults.push_back(in_matmul(
      {"inputs-q8", kGroup, "inputs are quantised to 8 bits, 32 with a scale", "rounding"},
      Checkpoint::kV, any_model, with_input(round_to_q8)));
  faults.push_back(in_matmul(
      {"token-shift", kGroup, "each token but the first has the result of the one before",
       "token_shift"},
      Checkpoint::kAttnOut, any_model, [](const OpContext&, MatmulCall call, Kernels& kernels) {
        kernels.run(call);
        std::copy_backward(call.out, call.out + (call.n_tokens - 1) * call.w.rows,
                           call.out + call.n_tokens * call.w.rows);
      }));
  faults.push_back(in_matmul({"sign", kGroup, "the product has the wrong sign", "sign"},
                             Checkpoint::kAttnOut, any_model, with_input([](std::span<float> x) {
                               for (float& value : x) value = -value;
                             })));
  faults.push_back(in_matmul({"scaled", kGroup, "V is 2 % too large", "scale"}, Checkpoint::kV,
                             any_model, [](const OpContext&, MatmulCall call, Kernels& kernels) {
                               kernels.run(call);
                               for (int64_t i = 0; i < call.n_tokens * call.w.rows; ++i) {
                                 call.out[i] *= 1.02F;
                               }
                             }));
  return faults;
}

}  // namespace

std::vector<Fault> linear_faults() {
  std::vector<Fault> faults = weight_faults();
  for (Fault& fault : product_faults()) faults.push_back(std::move(fault));
  return faults;
}

}  // namespace assay::mutate
