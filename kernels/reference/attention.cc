#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/half.h"
#include "kernels/reference/reference.h"

namespace assay::reference {
namespace {

// Keys or values as floats, [n_keys, n_heads * head_dim]; `copy` holds them where they are not
// stored so.
const float* as_floats(const void* data, KvType type, int64_t n_keys, int64_t n_heads,
                       int64_t head_dim, const AttentionVariant::RoundRow& round,
                       std::vector<float>& copy) {
  if (type == KvType::kF32 && !round) return static_cast<const float*>(data);
  const auto width = static_cast<size_t>(n_heads * head_dim);
  copy.resize(static_cast<size_t>(n_keys) * width);
  for (size_t i = 0; i < copy.size(); ++i) {
    copy[i] = type == KvType::kF32 ? static_cast<const float*>(data)[i]
                                   : float_from_f16(static_cast<const uint16_t*>(data)[i]);
  }
  for (size_t at = 0; round && at < copy.size(); at += width) {
    round(std::span(copy).subspan(at, width), head_dim);
  }
  return copy.data();
}

// The elements of one kv head: [position, its dimension], `stride` from one position to the next.
struct HeadRows {
  const float* first;
  int64_t stride;

  const float* row(int64_t position) const { return first + position * stride; }
};

double capped(double score, const AttentionShape& shape) {
  if (shape.soft_cap == 0.0F) return score;
  return shape.soft_cap * std::tanh(score / shape.soft_cap);
}

double score_of(const float* q, const float* k, const AttentionShape& shape,
                const AttentionVariant& variant) {
  double score = 0.0;
  for (int64_t d = 0; d < shape.head_dim && k != nullptr; ++d) {
    score += static_cast<double>(q[d]) * k[d];
  }
  const auto rounded = [&](double value) { return variant.round_score(static_cast<float>(value)); };
  if (variant.round_score == nullptr) return capped(score * shape.scale, shape);
  return capped(variant.round_before_scale ? rounded(score) * static_cast<double>(shape.scale)
                                           : rounded(score * shape.scale),
                shape);
}

bool is_seen(int64_t query, int64_t key, const AttentionShape& shape) {
  return key <= query && (shape.window == 0 || key > query - shape.window);
}

// One query of one head: softmax(q k^T * scale) v over the positions `keys`, and the head's sink,
// if it has one.
void attend(const float* q, HeadRows k, HeadRows v, const AttentionShape& shape,
            const std::vector<int64_t>& keys, const float* sink, const AttentionVariant& variant,
            float* out) {
  std::vector<double> weights;
  for (const int64_t key : keys) {
    const int64_t row = variant.k_row ? variant.k_row(key) : key;
    weights.push_back(score_of(q, row < 0 ? nullptr : k.row(row), shape, variant));
  }
  if (sink != nullptr) weights.push_back(*sink);
  const double max = *std::max_element(weights.begin(), weights.end());
  double sum = 0.0;
  for (double& weight : weights) {
    weight = variant.subtract_max ? std::exp(weight - max)
                                  : static_cast<double>(std::exp(static_cast<float>(weight)));
    sum += weight;
  }
  if (variant.round_weight != nullptr) {
    const double divisor = variant.round_before_division ? 1.0 : sum;
    for (double& weight : weights) {
      weight = variant.round_weight(static_cast<float>(weight / divisor));
    }
    sum /= divisor;
  }
  for (int64_t d = 0; d < shape.value_dim(); ++d) {
    double value = 0.0;
    for (size_t i = 0; i < keys.size(); ++i) {
      const int64_t row = variant.v_row ? variant.v_row(keys[i]) : keys[i];
      if (row >= 0) value += weights[i] * v.row(row)[d];
    }
    out[d] = static_cast<float>(variant.divide ? value / sum : value);
  }
}

}  // namespace

void run(const RopeCall& call) {
  const int64_t pairs = call.rotary_dim / 2;
  const bool adjacent = call.pairing == RopePairing::kAdjacent;
  const float* x = call.x;
  const float* cos_sin = call.cos_sin;
  float* out = call.out;
  for (int64_t t = 0; t < call.n_tokens; ++t, cos_sin += call.rotary_dim) {
    for (int64_t h = 0; h < call.n_heads; ++h, x += call.head_dim, out += call.head_dim) {
      for (int64_t p = 0; p < pairs; ++p) {
        const int64_t i = call.first_turned + (adjacent ? 2 * p : p);
        const int64_t j = i + (adjacent ? 1 : pairs);
        const double cos = cos_sin[2 * p];
        const double sin = cos_sin[2 * p + 1];
        const double a = x[i];
        const double b = x[j];
        out[i] = static_cast<float>(a * cos - b * sin);
        out[j] = static_cast<float>(a * sin + b * cos);
      }
      std::copy_n(x, call.first_turned, out);
      const int64_t turned = call.first_turned + call.rotary_dim;
      std::copy(x + turned, x + call.head_dim, out + turned);
    }
  }
}

void run(const HeadsCall& call) {
  const HeadParts& parts = call.parts;
  float* out = call.out;
  for (int64_t row = 0; row < call.n_tokens * call.n_heads; ++row) {
    out = std::copy_n(call.own + row * parts.own_dim + parts.own_first, parts.own_count, out);
    if (call.shared == nullptr) continue;
    const float* shared = call.shared + row / call.n_heads * parts.shared_dim;
    out = std::copy_n(shared + parts.shared_first, parts.shared_count, out);
  }
}

void run(const StoreKvCall& call) {
  if (call.type == KvType::kF32) {
    std::memcpy(call.destination, call.x, static_cast<size_t>(call.count) * sizeof(float));
    return;
  }
  auto* halves = static_cast<uint16_t*>(call.destination);
  for (int64_t i = 0; i < call.count; ++i) halves[i] = f16_from_float(call.x[i]);
}

void run(const AttentionCall& call) {
  run(call, {.n_keys = call.first_position + call.n_tokens});
}

void run(const AttentionCall& call, const AttentionVariant& variant) {
  const AttentionShape& shape = call.shape;
  const int64_t group = shape.n_heads / shape.n_kv_heads;
  const int64_t k_width = shape.n_kv_heads * shape.head_dim;
  const int64_t v_width = shape.n_kv_heads * shape.value_dim();
  std::vector<float> k_copy;
  std::vector<float> v_copy;
  const float* k = as_floats(call.kv.k, call.kv.type, variant.n_keys, shape.n_kv_heads,
                             shape.head_dim, variant.round_k, k_copy);
  const float* v = as_floats(call.kv.v, call.kv.type, variant.n_keys, shape.n_kv_heads,
                             shape.value_dim(), variant.round_v, v_copy);
  const float* q = call.q;
  float* out = call.out;
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    const int64_t position = call.first_position + t;
    std::vector<int64_t> keys;
    for (int64_t key = 0; key < variant.n_keys; ++key) {
      const bool seen = variant.sees ? variant.sees(position, key) : is_seen(position, key, shape);
      if (seen) keys.push_back(key);
    }
    for (int64_t h = 0; h < shape.n_heads; ++h, q += shape.head_dim, out += shape.value_dim()) {
      const int64_t kv = variant.kv_head ? variant.kv_head(h) : h / group;
      if (keys.empty()) {
        std::fill_n(out, shape.value_dim(), 0.0F);
      } else {
        const float* sink = call.sinks == nullptr ? nullptr : call.sinks + h;
        attend(q, {k + kv * shape.head_dim, k_width}, {v + kv * shape.value_dim(), v_width}, shape,
               keys, sink, variant, out);
      }
    }
  }
}

void run(const ConvCall& call) {
  const auto* k = static_cast<const float*>(call.kv.k);
  const auto* v = static_cast<const float*>(call.kv.v);
  for (int64_t i = 0; i < call.n_tokens * call.width; ++i) {
    const int64_t channel = i % call.width;
    const int64_t last = call.first_position + i / call.width;
    double sum = 0.0;
    for (int64_t j = 0; j < call.taps; ++j) {
      const int64_t position = last - call.taps + 1 + j;
      if (position < 0) continue;
      const int64_t at = position * call.width + channel;
      sum += call.weight[channel * call.taps + j] *
             (static_cast<double>(k[at]) * static_cast<double>(v[at]));
    }
    call.out[i] = static_cast<float>(call.x[i] * sum);
  }
}

}  // namespace assay::reference
