#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/kernels.h"

namespace assay {
namespace {

double score(const IndexCall& call, int64_t token, const float* key) {
  const auto& [n_heads, head_dim, top_k] = call.shape;
  const float* q = call.q + token * n_heads * head_dim;
  double sum = 0.0;
  for (int64_t head = 0; head < n_heads; ++head, q += head_dim) {
    double product = 0.0;
    for (int64_t d = 0; d < head_dim; ++d) product += static_cast<double>(q[d]) * key[d];
    if (call.relu) product = std::max(product, 0.0);
    sum += call.weights[token * n_heads + head] * product;
  }
  return std::isnan(sum) ? -std::numeric_limits<double>::infinity() : sum;  // the least
}

// How many positions the token's row holds.
int64_t n_seen(const AttentionCall& call, int64_t token) {
  const int32_t* row = call.indexed + token * call.n_indexed;
  return std::find(row, row + call.n_indexed, -1) - row;
}

WeightMatrix as_rows(const void* data, KvType type, int64_t rows, int64_t columns) {
  return {type == KvType::kF32 ? TensorType::kF32 : TensorType::kF16, rows, columns, data};
}

}  // namespace

void Kernels::run(const IndexCall& call) {
  const int64_t top_k = call.shape.top_k;
  std::vector<double> scores;
  std::vector<int32_t> order;
  for (int64_t token = 0; token < call.n_tokens; ++token) {
    int32_t* row = call.indexed + token * top_k;
    const int64_t n_keys = call.first_position + token + 1;
    const int64_t count = std::min(n_keys, top_k);
    order.resize(static_cast<size_t>(n_keys));
    std::iota(order.begin(), order.end(), 0);
    if (n_keys > top_k) {
      scores.resize(order.size());
      for (int64_t key = 0; key < n_keys; ++key) {
        scores[static_cast<size_t>(key)] = score(call, token, call.k + key * call.shape.head_dim);
      }
      std::ranges::stable_sort(order, [&](int32_t a, int32_t b) {
        return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
      });
      std::sort(order.begin(), order.begin() + count);
    }
    std::fill(std::copy_n(order.begin(), count, row), row + top_k, -1);
  }
}

void run_indexed(Kernels& kernels, const AttentionCall& call) {
  const AttentionShape& shape = call.shape;
  const int64_t k_width = shape.n_kv_heads * shape.head_dim;
  const int64_t v_width = shape.n_kv_heads * shape.value_dim();
  Memory& memory = kernels.memory();
  const auto most = static_cast<size_t>(call.n_indexed);
  Buffer<int32_t> ids;
  Buffer<float> k;
  Buffer<float> v;
  for (int64_t token = 0; token < call.n_tokens;) {
    AttentionCall part = call.part(token, 1);
    int64_t count = n_seen(call, token);
    if (count == part.first_position + 1) {  // all, as may those behind it
      while (token + part.n_tokens < call.n_tokens &&
             n_seen(call, token + part.n_tokens) == count + part.n_tokens) {
        ++part.n_tokens;
      }
      part = call.part(token, part.n_tokens);
    } else {
      if (k.size() == 0) {
        ids = Buffer<int32_t>(memory, most);
        k = Buffer<float>(memory, most * static_cast<size_t>(k_width));
        v = Buffer<float>(memory, most * static_cast<size_t>(v_width));
      }
      const auto gather = [&](const void* from, int64_t width, float* to) {
        kernels.run(GetRowsCall{as_rows(from, call.kv.type, part.first_position + 1, width),
                                ids.data(), count, to, false, call.site});
      };
      memory.upload(part.indexed, static_cast<size_t>(count) * sizeof(int32_t), ids.data());
      gather(call.kv.k, k_width, k.data());
      gather(call.kv.v, v_width, v.data());
      part.kv = {KvType::kF32, k.data(), v.data()};
      part.first_position = count - 1;
    }
    part.indexed = nullptr;
    kernels.run(part);
    token += part.n_tokens;
  }
}

}  // namespace assay
