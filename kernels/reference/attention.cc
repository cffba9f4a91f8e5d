#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/half.h"
#include "kernels/reference/reference.h"

namespace assay::reference {
namespace {

double kv_element(const void* base, KvType type, int64_t index) {
  if (type == KvType::kF32) return static_cast<const float*>(base)[index];
  return float_from_f16(static_cast<const uint16_t*>(base)[index]);
}

// One query of one head: softmax(q k^T * scale) v over the keys [first_key, position].
void attend(const float* q, const KvView& kv, const AttentionShape& shape, int64_t kv_head,
            int64_t first_key, int64_t position, float* out) {
  const auto element = [&](int64_t key) {
    return (key * shape.n_kv_heads + kv_head) * shape.head_dim;
  };
  std::vector<double> weights;
  for (int64_t key = first_key; key <= position; ++key) {
    double score = 0.0;
    for (int64_t d = 0; d < shape.head_dim; ++d) {
      score += q[d] * kv_element(kv.k, kv.type, element(key) + d);
    }
    weights.push_back(score * shape.scale);
  }
  const double max = *std::max_element(weights.begin(), weights.end());
  double sum = 0.0;
  for (double& weight : weights) {
    weight = std::exp(weight - max);
    sum += weight;
  }
  for (int64_t d = 0; d < shape.head_dim; ++d) {
    double value = 0.0;
    for (int64_t key = first_key; key <= position; ++key) {
      value += weights[static_cast<size_t>(key - first_key)] *
               kv_element(kv.v, kv.type, element(key) + d);
    }
    out[d] = static_cast<float>(value / sum);
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
        const int64_t i = adjacent ? 2 * p : p;
        const int64_t j = adjacent ? 2 * p + 1 : p + pairs;
        const double cos = cos_sin[2 * p];
        const double sin = cos_sin[2 * p + 1];
        const double a = x[i];
        const double b = x[j];
        out[i] = static_cast<float>(a * cos - b * sin);
        out[j] = static_cast<float>(a * sin + b * cos);
      }
      for (int64_t i = call.rotary_dim; i < call.head_dim; ++i) out[i] = x[i];
    }
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
  const AttentionShape& shape = call.shape;
  const int64_t heads_per_kv_head = shape.n_heads / shape.n_kv_heads;
  const float* q = call.q;
  float* out = call.out;
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    const int64_t position = call.first_position + t;
    const int64_t first_key =
        shape.window > 0 ? std::max<int64_t>(0, position - shape.window + 1) : 0;
    for (int64_t h = 0; h < shape.n_heads; ++h, q += shape.head_dim, out += shape.head_dim) {
      attend(q, call.kv, shape, h / heads_per_kv_head, first_key, position, out);
    }
  }
}

}  // namespace assay::reference
