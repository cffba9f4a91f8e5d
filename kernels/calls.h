#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/tensor_type.h"
#include "model/op.h"

// The arguments of each op, as values: what an engine asks for, a backend computes, and a fault
// changes before it is computed. Arrays are dense, row-major float, [n_tokens, width] unless said
// otherwise. `out` must not overlap an input except where said so.
namespace assay {

// Which op of the network a call serves, for those who watch the calls; no kernel reads it.
struct OpSite {
  Checkpoint checkpoint = Checkpoint::kEmbedding;  // that the result becomes, or that is stored
  int layer = 0;                                   // 0 outside of the layers
  int64_t first_position = 0;                      // of the first token
  int64_t n_tokens = 0;
  bool finishes = true;  // false: a further call goes into the same checkpoint
};

// A weight matrix as it is stored: `rows` outputs, each a row of `columns` inputs.
struct WeightMatrix {
  TensorType type = TensorType::kF32;
  int64_t rows = 0;
  int64_t columns = 0;         // a multiple of the type's block_elements
  const void* data = nullptr;  // rows * row_bytes(type, columns) bytes; no alignment is promised

  // Rows [first, first + count) as a matrix of their own; how fused tensors are taken apart.
  WeightMatrix slice(int64_t first, int64_t count) const {
    const auto* bytes = static_cast<const unsigned char*>(data);
    return {type, count, columns, bytes + static_cast<size_t>(first) * row_bytes(type, columns)};
  }
};

// out[i, :] = dequantised row ids[i] of `table`. Each id is in [0, table.rows).
struct GetRowsCall {
  WeightMatrix table;
  const int32_t* ids = nullptr;
  int64_t n_ids = 0;
  float* out = nullptr;
  bool of_positions = false;  // rows are learned positions, not tokens
  OpSite site = {};
};

// out[t, r] = sum_c w[r, c] * x[t, c] + bias[r]; `bias` may be null.
struct MatmulCall {
  WeightMatrix w;
  const float* bias = nullptr;
  const float* x = nullptr;
  int64_t n_tokens = 0;
  float* out = nullptr;
  OpSite site = {};
};

// RMSNorm: out = x / sqrt(mean(x²) + eps) * weight, a row at a time (Zhang & Sennrich 2019).
// LayerNorm: out = (x - mean) / sqrt(variance + eps) * weight + bias, biased variance; `bias` may
// be null (Ba, Kiros & Hinton 2016). A row is a token, or one of its heads; row r has the weights
// weight[r % n_weights, :]. out may be x.
struct NormCall {
  NormKind kind = NormKind::kRms;
  const float* x = nullptr;
  const float* weight = nullptr;
  const float* bias = nullptr;  // not of kRms
  float eps = 0.0F;
  int64_t n_tokens = 0;  // rows
  int64_t width = 0;
  float* out = nullptr;
  OpSite site = {};
  int64_t n_weights = 1;  // heads that have weights of their own; 1: all rows share them
  int64_t x_width = 0;    // of a row of x, whose first part is normalized; 0: width

  int64_t x_stride() const { return x_width == 0 ? width : x_width; }
};

// Rotary embedding (Su et al. 2021) of x[n_tokens, n_heads, head_dim]: `rotary_dim` elements of
// each head, from `first_turned` on, are turned, the rest copied. cos_sin[n_tokens, rotary_dim / 2,
// 2] holds cos and sin of each token's angles. out may be x.
struct RopeCall {
  const float* x = nullptr;
  const float* cos_sin = nullptr;
  RopePairing pairing = RopePairing::kAdjacent;
  int64_t n_tokens = 0;
  int64_t n_heads = 0;
  int64_t head_dim = 0;
  int64_t rotary_dim = 0;
  float* out = nullptr;
  OpSite site = {};
  int64_t first_turned = 0;
};

// Which elements of the inputs a head is put together from: of its own part of the one, of
// `own_dim`, and behind them of what all heads share of the other, `shared_dim` a token.
struct HeadParts {
  int64_t own_dim = 0;
  int64_t own_first = 0;
  int64_t own_count = 0;
  int64_t shared_dim = 0;
  int64_t shared_first = 0;
  int64_t shared_count = 0;

  int64_t head_dim() const { return own_count + shared_count; }
};

// out[t, h, :] = own[t, h, own_first ..] and shared[t, shared_first ..], one after the other;
// `shared` may be null.
struct HeadsCall {
  const float* own = nullptr;     // [n_tokens, n_heads, own_dim]
  const float* shared = nullptr;  // [n_tokens, shared_dim]
  HeadParts parts;
  int64_t n_tokens = 0;
  int64_t n_heads = 0;
  float* out = nullptr;  // [n_tokens, n_heads, head_dim()]
  OpSite site = {};
};

enum class KvType : uint8_t { kF32, kF16 };

constexpr size_t kv_element_bytes(KvType type) {
  return type == KvType::kF32 ? 4 : 2;
}

// Stores x[count] into `destination` as `type` elements (f16: to nearest, ties to even).
struct StoreKvCall {
  const float* x = nullptr;
  KvType type = KvType::kF32;
  int64_t count = 0;
  void* destination = nullptr;
  OpSite site = {};
};

// The keys and values of one layer: [position, kv_head, head_dim] and [position, kv_head,
// value_dim], `type` elements.
struct KvView {
  KvType type = KvType::kF32;
  const void* k = nullptr;
  const void* v = nullptr;
};

// The slopes of ALiBi (Press, Smith & Lewis 2022), by which a head's scores fall with the distance
// of the key. Those of 2^n heads are a geometric series that ends at 2^-max_bias; where there are
// more, the further heads have every second slope of twice as many.
struct AlibiSlopes {
  int64_t n_first = 0;  // heads of the series; 0: there is no bias
  double first = 1.0;   // ratio of the series
  double further = 1.0;

  static AlibiSlopes of(double max_bias, int64_t n_heads) {
    AlibiSlopes slopes{1};
    while (2 * slopes.n_first <= n_heads) slopes.n_first *= 2;
    slopes.first = std::exp2(-max_bias / static_cast<double>(slopes.n_first));
    slopes.further = std::exp2(-max_bias / static_cast<double>(2 * slopes.n_first));
    return slopes;
  }
  // By products alone, which are the same on every device.
  double of_head(int64_t head) const {
    const bool is_first = head < n_first;
    const int64_t power = is_first ? head + 1 : 2 * (head - n_first) + 1;
    double slope = 1.0;
    for (int64_t i = 0; i < power; ++i) slope *= is_first ? first : further;
    return slope;
  }
  bool operator==(const AlibiSlopes&) const = default;
};

struct AttentionShape {
  int64_t n_heads = 0;
  int64_t n_kv_heads = 0;  // divides n_heads; query head h reads kv head h / (n_heads / n_kv_heads)
  int64_t head_dim = 0;
  float scale = 0.0F;
  int64_t window = 0;         // a query at p sees keys from first_key(p) on; 0: all up to p
  float soft_cap = 0.0F;      // scores become soft_cap tanh(score / soft_cap); 0: they stay
  int64_t own_value_dim = 0;  // of a value; 0: head_dim
  // The scores of a query at p are multiplied by 1 + temperature ln(1 + floor((p + offset) /
  // span)), too (Llama 4, Ministral 3); 0: they are not.
  float temperature = 0.0F;
  int64_t temperature_span = 0;
  int64_t temperature_offset = 0;
  bool chunked = false;    // windows begin at multiples of their length (Llama 4), and do not slide
  AlibiSlopes alibi = {};  // a head's slope times (key - p) is added to its scores, capped or not

  int64_t value_dim() const { return own_value_dim == 0 ? head_dim : own_value_dim; }
  // Of the scores of a query at `position`.
  float scale_at(int64_t position) const {
    if (temperature == 0.0F) return scale;
    const auto spans = static_cast<double>((position + temperature_offset) / temperature_span);
    return static_cast<float>(scale * (1.0 + temperature * std::log1p(spans)));
  }
  // How many positions from `position` on have the same scale.
  int64_t positions_of_scale(int64_t position) const {
    if (temperature == 0.0F) return std::numeric_limits<int64_t>::max();
    return temperature_span - (position + temperature_offset) % temperature_span;
  }
  // The first key that a query at `position` sees.
  int64_t first_key(int64_t position) const {
    if (window <= 0) return 0;
    const int64_t first = chunked ? position - position % window : position - window + 1;
    return first > 0 ? first : 0;
  }
};

// How a kIndex chooses positions.
struct IndexShape {
  int64_t n_heads = 0;
  int64_t head_dim = 0;
  int64_t top_k = 0;
  bool operator==(const IndexShape&) const = default;
};

// The positions up to its own that each query at first_position .. first_position + n_tokens - 1
// sees (DeepSeek-AI 2025): the top_k with the highest scores, sum_h weights[t, h] relu(q[t, h] k),
// among equals the lowest; in ascending order, and -1 where there are fewer. Of all arrays, which
// are on the host, sums are in double.
struct IndexCall {
  const float* q = nullptr;        // [n_tokens, n_heads, head_dim]
  const float* weights = nullptr;  // [n_tokens, n_heads]
  const float* k = nullptr;        // [first_position + n_tokens, head_dim]
  IndexShape shape;
  int64_t first_position = 0;
  int64_t n_tokens = 0;
  int32_t* indexed = nullptr;  // [n_tokens, top_k]
  OpSite site = {};
  bool relu = true;  // false: scores are not bounded below
};

// Causal attention of the queries q[n_tokens, n_heads, head_dim], which stand at positions
// first_position .. first_position + n_tokens - 1, over the keys and values of all positions up
// to their own. `sinks`, where there are any, are one score a head that takes its share of the
// softmax and has no value (gpt-oss). `indexed`, where it is not null, are the positions that each
// query sees, in ascending order, and -1 behind them; on the host in every backend, of shapes
// without a window. out[n_tokens, n_heads, value_dim()].
struct AttentionCall {
  const float* q = nullptr;
  KvView kv;
  AttentionShape shape;
  int64_t first_position = 0;
  int64_t n_tokens = 0;
  float* out = nullptr;
  OpSite site = {};
  const float* sinks = nullptr;      // [n_heads]
  const int32_t* indexed = nullptr;  // [n_tokens, n_indexed]
  int64_t n_indexed = 0;

  // The queries from `first` on whose scores have one scale, at most `most` of them; that is the
  // part's own scale, for kernels that know no temperature.
  AttentionCall part(int64_t first, int64_t most) const {
    AttentionCall result = *this;
    result.q += first * shape.n_heads * shape.head_dim;
    result.out += first * shape.n_heads * shape.value_dim();
    if (indexed != nullptr) result.indexed += first * n_indexed;
    result.first_position += first;
    result.shape.scale = shape.scale_at(result.first_position);
    result.shape.temperature = 0.0F;
    for (const int64_t limit :
         {n_tokens - first, most, shape.positions_of_scale(result.first_position)}) {
      if (limit < result.n_tokens) result.n_tokens = limit;
    }
    return result;
  }
};

// A short convolution (LFM2, Liquid AI 2025) of queries at positions first_position ..
// first_position + n_tokens - 1 over what is stored of all positions up to their own, k and v
// [position, width] as f32:
// out[t, c] = x[t, c] * (bias[c] + sum_j weight[c, j] * k[p, c] * v[p, c]), p = first_position + t
// - taps + 1 + j, without the j whose p is below 0. Summed in double, in this order, and rounded
// once. x and v may be null, and are 1 then; a bias that is null is 0.
struct ConvCall {
  const float* x = nullptr;  // [n_tokens, width]
  KvView kv;
  const float* weight = nullptr;  // [width, taps]
  int64_t taps = 0;
  int64_t first_position = 0;
  int64_t n_tokens = 0;
  int64_t width = 0;
  float* out = nullptr;
  OpSite site = {};
  const float* bias = nullptr;  // [width]
};

// Heads of linear attention. Those of a state space model are the same: its B are the keys, its C
// the queries, and the values are what goes into it.
struct DeltaShape {
  int64_t n_key_heads = 0;  // of queries as well; divides n_value_heads
  int64_t n_value_heads = 0;
  int64_t key_dim = 0;
  int64_t value_dim = 0;
  bool grouped = false;     // value heads one after the other read the same key head; else in turn
  bool own_decays = false;  // of a state space model: each element of a head's keys has one (Mamba)
  bool operator==(const DeltaShape&) const = default;

  // Which value head `head` reads.
  int64_t key_head(int64_t head) const {
    return grouped ? head / (n_value_heads / n_key_heads) : head % n_key_heads;
  }

  int64_t key_width() const { return n_key_heads * key_dim; }
  int64_t value_width() const { return n_value_heads * value_dim; }
  int64_t qkv_width() const { return 2 * key_width() + value_width(); }
  int64_t state_size() const { return key_dim * value_width(); }
  int64_t n_decays() const { return n_value_heads * (own_decays ? key_dim : 1); }
};

// The gated delta rule (Yang, Kautz & Hatamizadeh 2024) of the tokens at first_position ..
// first_position + n_tokens - 1, one after the other. A value head has a state S [key_dim,
// value_dim], 0 before position 0, and with q = q / |q| / sqrt(key_dim), k = k / |k|, where |x| is
// sqrt(sum x^2 + 1e-6):
// S = e^(a softplus(alpha + dt)) S;  S = S + k (v - S^T k)^T sigmoid(beta);  out = S^T q
// In double, sums in the order of the keys' elements; `state` is rounded to float after each token.
struct DeltaCall {
  const float* qkv = nullptr;    // [n_tokens, qkv_width()]: queries, keys, values
  const float* alpha = nullptr;  // [n_tokens, n_value_heads]
  const float* beta = nullptr;   // [n_tokens, n_value_heads]
  const float* a = nullptr;      // [n_value_heads], below 0
  const float* dt = nullptr;     // [n_value_heads]
  DeltaShape shape;
  float* state = nullptr;  // [n_value_heads, key_dim, value_dim], read and written; not read at 0
  int64_t first_position = 0;
  int64_t n_tokens = 0;
  float* out = nullptr;  // [n_tokens, n_value_heads, value_dim]
  OpSite site = {};
  bool l2_norm = true;       // false: q and k are taken as they are
  bool sigmoid_beta = true;  // false: beta itself
};

// What goes into a state space model. The rows of two tokens are so many elements apart.
struct SsmInputs {
  const float* values = nullptr;   // [n_tokens, value_width()]
  const float* keys = nullptr;     // [n_tokens, key_width()]
  const float* queries = nullptr;  // [n_tokens, key_width()]
  int64_t value_stride = 0;
  int64_t key_stride = 0;  // of queries as well

  // Values, keys and queries in each row of xbc[n_tokens, qkv_width()].
  static SsmInputs of_rows(const float* xbc, const DeltaShape& shape) {
    const float* const keys = xbc + shape.value_width();
    return {xbc, keys, keys + shape.key_width(), shape.qkv_width(), shape.qkv_width()};
  }
  // Each in an array of its own.
  static SsmInputs of_arrays(const float* values, const float* keys, const float* queries,
                             const DeltaShape& shape) {
    return {values, keys, queries, shape.value_width(), shape.key_width()};
  }
  // Those from token `t` on.
  SsmInputs from(int64_t t) const {
    return {values + t * value_stride, keys + t * key_stride, queries + t * key_stride,
            value_stride, key_stride};
  }
};

// The state space model of Mamba-2 (Dao & Gu 2024) of the tokens at first_position ..
// first_position + n_tokens - 1, one after the other. A value head has a state S [key_dim,
// value_dim], 0 before position 0, and with a step of softplus(dt + dt_bias):
// S = e^(a step) S + step k v^T;  out = d v + S^T q
// With own_decays that of Mamba (Gu & Dao 2023), whose heads have one value and whose `a` has a
// number for each row of S. In double, sums in this order and that of the keys' elements; `state`
// is rounded to float after each token.
struct SsmCall {
  SsmInputs in;
  const float* dt = nullptr;       // [n_tokens, n_value_heads]
  const float* a = nullptr;        // [n_decays()], below 0
  const float* dt_bias = nullptr;  // [n_value_heads]
  const float* d = nullptr;        // [n_value_heads]
  DeltaShape shape;
  float* state = nullptr;  // [n_value_heads, key_dim, value_dim], read and written; not read at 0
  int64_t first_position = 0;
  int64_t n_tokens = 0;
  float* out = nullptr;  // [n_tokens, n_value_heads, value_dim]
  OpSite site = {};
  bool softplus = true;  // false: the step is dt + dt_bias itself
};

// The numbers of kXielu (Huang & Schlag 2024), both alphas as they are multiplied.
struct Xielu {
  float alpha_p = 0.0F;
  float alpha_n = 0.0F;
  float beta = 0.0F;
  float eps = 0.0F;
  bool operator==(const Xielu&) const = default;
};

// out = f(x), or f(x) * up where there is a gate (SwiGLU, GeGLU: Shazeer 2020). The two forms of
// GELU: Hendrycks & Gimpel 2016. out may be an input.
struct ActivateCall {
  ActivationKind kind = ActivationKind::kSilu;
  const float* x = nullptr;   // the gate, if there is one
  const float* up = nullptr;  // null without a gate
  int64_t count = 0;
  float* out = nullptr;
  OpSite site = {};
  float cap = 0.0F;  // of kSoftCap and kClip
  Xielu xielu = {};  // of kXielu
};

// out = a + scale * b, each of the two rounded; scale * b where `a` is null. out may be a or b.
struct AddCall {
  const float* a = nullptr;
  const float* b = nullptr;
  int64_t count = 0;
  float* out = nullptr;
  OpSite site = {};
  float scale = 1.0F;
};

// How a token's experts are chosen by their scores, and weighed.
struct Routing {
  Gating gating = Gating::kSoftmax;
  int64_t n_experts = 0;
  int64_t n_used = 0;
  bool normalise = false;     // the weights are divided by their sum
  double added_to_sum = 0.0;  // and this
  float scale = 1.0F;         // the weights are multiplied by this
  int64_t n_groups = 1;       // equal parts of the experts, of which
  int64_t n_groups_used = 1;  // only the best may be chosen from
  double jitter = 0.0;        // of kSparseMixer
  bool operator==(const Routing&) const = default;
};

// ids[t, :] = the experts that token t uses, by descending weight; among equals the lowest.
// scores[t, n_experts]; `bias` (null, or [n_experts]) is added to the gated scores only to choose
// by them. A group is as good as its best expert, or with a sigmoid as its two best together
// (DeepSeek-V3). All arrays are on the host.
struct SelectCall {
  const float* scores = nullptr;
  const float* bias = nullptr;
  Routing routing;
  int64_t n_tokens = 0;
  int32_t* ids = nullptr;  // [n_tokens, n_used]
  OpSite site = {};
};

// weights[t, :] = those of the experts ids[t, :], at last times their `scales` (null, or
// [n_experts]). All arrays are on the host.
struct WeighCall {
  const float* scores = nullptr;
  const int32_t* ids = nullptr;
  Routing routing;
  int64_t n_tokens = 0;
  float* weights = nullptr;  // [n_tokens, n_used]
  OpSite site = {};
  const float* scales = nullptr;
};

// out[t, j, :] = weights[t, j] * x[t, :]: what each of a token's experts is given where the weights
// are on their inputs (Llama 4).
struct SpreadCall {
  const float* x = nullptr;        // [n_tokens, width]
  const float* weights = nullptr;  // [n_tokens, n_used]
  int64_t n_tokens = 0;
  int64_t n_used = 0;
  int64_t width = 0;
  float* out = nullptr;  // [n_tokens, n_used, width]
  OpSite site = {};
};

// out[t, :] = sum_j weights[t, j] * x[t, j, :], in the order of j.
struct MixCall {
  const float* x = nullptr;        // [n_tokens, n_used, width]
  const float* weights = nullptr;  // [n_tokens, n_used]; null: all are 1
  int64_t n_tokens = 0;
  int64_t n_used = 0;
  int64_t width = 0;
  float* out = nullptr;
  OpSite site = {};
};

}  // namespace assay
