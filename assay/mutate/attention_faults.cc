#include <algorithm>
#include <cmath>
#include <cstring>

#include "assay/mutate/catalogue.h"
#include "assay/mutate/fault_builders.h"
#include "kernels/half.h"

namespace assay::mutate {
namespace {

float through_f16(float value) {
  return float_from_f16(f16_from_float(value));
}

// Keys and values of all positions that a call may read, as floats: [position, kv_head, head_dim].
struct CacheCopy {
  explicit CacheCopy(const AttentionCall& call)
      : width(call.shape.n_kv_heads * call.shape.head_dim),
        n_positions(call.first_position + call.n_tokens),
        k(floats(call.kv.k, call.kv.type)),
        v(floats(call.kv.v, call.kv.type)) {}

  std::vector<float> floats(const void* data, KvType type) const {
    std::vector<float> result(static_cast<size_t>(width * n_positions));
    if (type == KvType::kF32) {
      std::memcpy(result.data(), data, result.size() * sizeof(float));
      return result;
    }
    for (size_t i = 0; i < result.size(); ++i) {
      result[i] = float_from_f16(static_cast<const uint16_t*>(data)[i]);
    }
    return result;
  }

  KvView view() const { return {KvType::kF32, k.data(), v.data()}; }

  int64_t width;
  int64_t n_positions;
  std::vector<float> k;
  std::vector<float> v;
};

using Attend = Hook<AttentionCall>;

Fault in_attention(FaultText text, UnsupportedReason unsupported_reason, Attend hook) {
  return in_op<AttentionCall>(std::move(text), Checkpoint::kAttn, std::move(unsupported_reason),
                              &KernelHooks::attention, std::move(hook));
}

// The attention over another cache: `edit` changes the copy.
Attend with_cache(std::function<void(CacheCopy&)> edit) {
  return [edit = std::move(edit)](const OpContext&, AttentionCall call, Kernels& kernels) {
    CacheCopy cache(call);
    edit(cache);
    call.kv = cache.view();
    kernels.run(call);
  };
}

Attend with_shape(std::function<void(const OpContext&, AttentionShape&)> edit) {
  return [edit = std::move(edit)](const OpContext& context, AttentionCall call, Kernels& kernels) {
    edit(context, call.shape);
    kernels.run(call);
  };
}

// One query on its own: `position` is its own and may be changed, `last` that of the batch.
struct Query {
  int64_t position;
  int64_t last;
  AttentionShape shape;
};

Attend with_queries(std::function<void(Query&)> edit) {
  return [edit = std::move(edit)](const OpContext&, AttentionCall call, Kernels& kernels) {
    const int64_t last = call.first_position + call.n_tokens - 1;
    const int64_t width = call.shape.n_heads * call.shape.head_dim;
    for (int64_t t = 0; t < call.n_tokens; ++t) {
      Query query{call.first_position + t, last, call.shape};
      edit(query);
      kernels.run(AttentionCall{call.q + t * width, call.kv, query.shape, query.position, 1,
                                call.out + t * width});
    }
  };
}

// Query head h reads the kv head that `map` makes of it.
Attend with_head_map(std::function<int64_t(int64_t head, const AttentionShape&)> map) {
  return [map = std::move(map)](const OpContext&, AttentionCall call, Kernels& kernels) {
    const CacheCopy cache(call);
    const AttentionShape shape = call.shape;
    const auto spread = [&](const std::vector<float>& from) {
      std::vector<float> to;
      for (int64_t p = 0; p < cache.n_positions; ++p) {
        for (int64_t h = 0; h < shape.n_heads; ++h) {
          const auto* head = from.data() + p * cache.width + map(h, shape) * shape.head_dim;
          to.insert(to.end(), head, head + shape.head_dim);
        }
      }
      return to;
    };
    const std::vector<float> k = spread(cache.k);
    const std::vector<float> v = spread(cache.v);
    call.kv = {KvType::kF32, k.data(), v.data()};
    call.shape.n_kv_heads = shape.n_heads;
    kernels.run(call);
  };
}

// How one query of one head is attended by the naive loop below.
struct Softmax {
  bool f16_scores = false;
  bool subtract_max = true;
  bool divide = true;
};

void attend_naively(const AttentionCall& call, const CacheCopy& cache, int64_t t, int64_t head,
                    const Softmax& softmax) {
  const AttentionShape& shape = call.shape;
  const int64_t kv_head = head / (shape.n_heads / shape.n_kv_heads);
  const int64_t position = call.first_position + t;
  const int64_t first = shape.window > 0 ? std::max<int64_t>(0, position - shape.window + 1) : 0;
  const float* q = call.q + (t * shape.n_heads + head) * shape.head_dim;
  float* out = call.out + (t * shape.n_heads + head) * shape.head_dim;
  std::vector<float> weights;
  for (int64_t p = first; p <= position; ++p) {
    const float* k = cache.k.data() + p * cache.width + kv_head * shape.head_dim;
    float score = 0.0F;
    for (int64_t d = 0; d < shape.head_dim; ++d) score += q[d] * k[d];
    // Before the scale, where it is largest.
    if (softmax.f16_scores) score = through_f16(score);
    weights.push_back(score * shape.scale);
  }
  const float max = softmax.subtract_max ? *std::max_element(weights.begin(), weights.end()) : 0.0F;
  float sum = 0.0F;
  for (float& weight : weights) sum += weight = std::exp(weight - max);
  if (!softmax.divide) sum = 1.0F;
  for (int64_t d = 0; d < shape.head_dim; ++d) {
    float value = 0.0F;
    for (int64_t p = first; p <= position; ++p) {
      value += weights[static_cast<size_t>(p - first)] *
               cache.v[static_cast<size_t>(p * cache.width + kv_head * shape.head_dim + d)];
    }
    out[d] = value / sum;
  }
}

Attend with_softmax(Softmax softmax) {
  return [softmax](const OpContext&, AttentionCall call, Kernels&) {
    const CacheCopy cache(call);
    for (int64_t t = 0; t < call.n_tokens; ++t) {
      for (int64_t h = 0; h < call.shape.n_heads; ++h) attend_naively(call, cache, t, h, softmax);
    }
  };
}

// Each position's slot holds what belongs into the one before; the first keeps its own.
void shift(std::vector<float>& values, int64_t width) {
  std::copy_backward(values.begin(), values.end() - width, values.end());
}

// The newest slot was not written: it holds what the one before does.
void make_stale(std::vector<float>& values, int64_t width) {
  if (values.size() < static_cast<size_t>(2 * width)) return;
  std::copy(values.end() - 2 * width, values.end() - width, values.end() - width);
}

std::string needs_window(const Model& model) {
  return model.config().sliding_window > 0 ? "" : "it has no sliding window";
}

constexpr FaultGroup kCache = FaultGroup::kCache;
constexpr FaultGroup kGroup = FaultGroup::kAttention;

std::vector<Fault> cache_faults() {
  std::vector<Fault> faults;
  faults.push_back(in_attention({"kv-swapped", kCache, "the cache gives K for V and V for K"},
                                any_model, [](const OpContext&, AttentionCall call, Kernels& k) {
                                  std::swap(call.kv.k, call.kv.v);
                                  k.run(call);
                                }));
  faults.push_back(
      in_attention({"kv-shifted", kCache, "keys and values are one slot late", "kv_shift"},
                   any_model, with_cache([](CacheCopy& cache) {
                     shift(cache.k, cache.width);
                     shift(cache.v, cache.width);
                   })));
  faults.push_back(in_attention({"kv-k-shifted", kCache, "keys are one slot late", "kv_shift"},
                                any_model,
                                with_cache([](CacheCopy& cache) { shift(cache.k, cache.width); })));
  faults.push_back(in_attention({"kv-v-shifted", kCache, "values are one slot late", "kv_shift"},
                                any_model,
                                with_cache([](CacheCopy& cache) { shift(cache.v, cache.width); })));
  faults.push_back(
      in_attention({"kv-stale", kCache, "the newest slot still holds the key and value before it"},
                   any_model, with_cache([](CacheCopy& cache) {
                     make_stale(cache.k, cache.width);
                     make_stale(cache.v, cache.width);
                   })));
  faults.push_back(in_attention({"kv-f16", kCache, "the cache is rounded to float16", "rounding"},
                                any_model, with_cache([](CacheCopy& cache) {
                                  for (float& value : cache.k) value = through_f16(value);
                                  for (float& value : cache.v) value = through_f16(value);
                                })));
  return faults;
}

std::vector<Fault> score_faults() {
  std::vector<Fault> faults;
  faults.push_back(in_attention(
      {"scale-missing", kGroup, "scores are not divided by the root of head_dim",
       "attention_scale"},
      any_model, with_shape([](const OpContext&, AttentionShape& s) { s.scale = 1.0F; })));
  faults.push_back(in_attention(
      {"scale-twice", kGroup, "scores are divided by the root of head_dim twice",
       "attention_scale"},
      any_model, with_shape([](const OpContext&, AttentionShape& s) { s.scale *= s.scale; })));
  faults.push_back(in_attention(
      {"scale-of-width", kGroup, "scores are divided by the root of the model's width",
       "attention_scale"},
      any_model, with_shape([](const OpContext& context, AttentionShape& s) {
        s.scale =
            1.0F / std::sqrt(static_cast<float>(context.network.model->config().embedding_length));
      })));
  faults.push_back(in_attention(
      {"scores-f16", kGroup, "scores are float16: rounded, and beyond 65504 infinite", "rounding"},
      any_model, with_softmax({.f16_scores = true})));
  faults.push_back(
      in_attention({"softmax-without-max", kGroup,
                    "the highest score is not subtracted before exp(), which overflows beyond 88"},
                   any_model, with_softmax({.subtract_max = false})));
  faults.push_back(
      in_attention({"softmax-without-division", kGroup, "softmax is not divided by its sum"},
                   any_model, with_softmax({.divide = false})));
  return faults;
}

std::vector<Fault> mask_faults() {
  std::vector<Fault> faults;
  faults.push_back(in_attention(
      {"mask-sees-next", kGroup, "a query sees the key after its own too", "attention_mask"},
      any_model, with_queries([](Query& query) {
        query.position = std::min(query.position + 1, query.last);
      })));
  faults.push_back(in_attention(
      {"mask-misses-own", kGroup, "a query does not see its own key", "attention_mask"}, any_model,
      with_queries(
          [](Query& query) { query.position = std::max<int64_t>(query.position - 1, 0); })));
  faults.push_back(
      in_attention({"mask-missing", kGroup, "a query sees all keys of its batch", "attention_mask"},
                   any_model, with_queries([](Query& query) { query.position = query.last; })));
  faults.push_back(in_attention(
      {"mask-misses-first", kGroup, "no query but the first sees the first key", "attention_mask"},
      any_model, with_queries([](Query& query) {
        query.shape.window = std::max<int64_t>(query.position, 1);
      })));
  faults.push_back(in_attention(
      {"window-off-by-one", kGroup, "the sliding window is one key too long", "attention_mask"},
      needs_window, with_shape([](const OpContext&, AttentionShape& shape) { ++shape.window; })));
  faults.push_back(in_attention(
      {"window-missing", kGroup, "the sliding window is ignored", "attention_mask"}, needs_window,
      with_shape([](const OpContext&, AttentionShape& shape) { shape.window = 0; })));
  return faults;
}

std::vector<Fault> head_faults() {
  std::vector<Fault> faults;
  faults.push_back(in_attention(
      {"gqa-modulo", kGroup, "query head h reads kv head h mod n_kv for h / group", "gqa_map"},
      needs_grouped_heads, with_head_map([](int64_t head, const AttentionShape& shape) {
        return head % shape.n_kv_heads;
      })));
  faults.push_back(in_attention(
      {"gqa-first-head", kGroup, "every query head reads kv head 0", "gqa_map"},
      needs_grouped_heads, with_head_map([](int64_t, const AttentionShape&) { return 0; })));
  faults.push_back(in_attention(
      {"heads-interleaved", kGroup, "heads are joined as [head_dim, n_heads]", "head_order"},
      any_model, [](const OpContext&, AttentionCall call, Kernels& kernels) {
        kernels.run(call);
        const int64_t heads = call.shape.n_heads;
        const int64_t dim = call.shape.head_dim;
        for (int64_t t = 0; t < call.n_tokens; ++t) {
          float* row = call.out + t * heads * dim;
          const std::vector<float> right(row, row + heads * dim);
          for (int64_t i = 0; i < heads * dim; ++i) {
            row[i % dim * heads + i / dim] = right[static_cast<size_t>(i)];
          }
        }
      }));
  return faults;
}

}  // namespace

std::vector<Fault> attention_faults() {
  std::vector<Fault> faults;
  for (auto part : {cache_faults(), score_faults(), mask_faults(), head_faults()}) {
    for (Fault& fault : part) faults.push_back(std::move(fault));
  }
  return faults;
}

}  // namespace assay::mutate
