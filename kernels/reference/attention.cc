#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <optional>
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

// Of queries and keys that are already multiplied; the scale is that of the query's position.
double finished(double score, const AttentionShape& shape, double scale,
                const AttentionVariant& variant) {
  const auto rounded = [&](double value) { return variant.round_score(static_cast<float>(value)); };
  if (variant.round_score == nullptr) return capped(score * scale, shape);
  return capped(variant.round_before_scale ? rounded(score) * scale : rounded(score * scale),
                shape);
}

bool is_seen(int64_t query, int64_t key, const AttentionShape& shape) {
  return key <= query && key >= shape.first_key(query);
}

// Sums that are made side by side, as each waits for its last addition.
constexpr int64_t kSideBySide = 16;
using Sums = std::array<double, kSideBySide>;

int64_t groups_of(int64_t count) {
  return (count + kSideBySide - 1) / kSideBySide;
}

// The keys of one head, a group of them side by side: [group, its dimension].
class KeyColumns {
 public:
  // Those of the groups of keys from `first` to `last`; a row below 0 is no key.
  KeyColumns(HeadRows k, const std::vector<int64_t>& rows, int64_t head_dim, int64_t first,
             int64_t last)
      : head_dim_(head_dim),
        first_(first / kSideBySide),
        sums_(static_cast<size_t>((groups_of(last + 1) - first_) * head_dim)) {
    for (int64_t key = first_ * kSideBySide; key <= last; ++key) {
      const int64_t row = rows[static_cast<size_t>(key)];
      if (row < 0) continue;
      Sums* columns = group(key / kSideBySide);
      const auto place = static_cast<size_t>(key % kSideBySide);
      for (int64_t d = 0; d < head_dim; ++d) columns[d][place] = k.row(row)[d];
    }
  }

  // q k of each key of a group, in the order of the dimensions.
  Sums multiply(const float* q, int64_t number) const {
    Sums sums = {};
    const Sums* columns = sums_.data() + (number - first_) * head_dim_;
    for (int64_t d = 0; d < head_dim_; ++d) {
      const double of_q = q[d];
      for (size_t j = 0; j < sums.size(); ++j) sums[j] += of_q * columns[d][j];
    }
    return sums;
  }

 private:
  Sums* group(int64_t number) { return sums_.data() + (number - first_) * head_dim_; }

  int64_t head_dim_;
  int64_t first_;  // group
  std::vector<Sums> sums_;
};

// What ALiBi adds to the scores of a query at `position`.
struct Distances {
  int64_t position = 0;
  double slope = 0.0;

  double bias(int64_t key) const {
    return slope == 0.0 ? 0.0 : slope * static_cast<double>(key - position);
  }
};

// Of one query: the scores of the positions `keys`, in their order.
void find_scores(const float* q, const KeyColumns& k, const std::vector<int64_t>& rows,
                 const AttentionShape& shape, double scale, const std::vector<int64_t>& keys,
                 const AttentionVariant& variant, std::vector<double>& scores,
                 const Distances& distances) {
  scores.clear();
  Sums sums = {};
  int64_t held = -1;  // the group of the sums
  for (const int64_t key : keys) {
    if (key / kSideBySide != held) {
      held = key / kSideBySide;
      sums = k.multiply(q, held);
    }
    const bool is_key = rows[static_cast<size_t>(key)] >= 0;
    const double score = is_key ? sums[static_cast<size_t>(key % kSideBySide)] : 0.0;
    scores.push_back(finished(score, shape, scale, variant) + distances.bias(key));
  }
}

// softmax of the scores and of the head's sink, if it has one; returns what is to be divided by.
double make_weights(const float* sink, const AttentionVariant& variant,
                    std::vector<double>& weights) {
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
  return sum;
}

// The sum of weights times the first `count` dimensions of values, each in the order of the keys.
template <int64_t count>
void add_up(const std::vector<double>& weights, HeadRows v, const std::vector<int64_t>& rows,
            const std::vector<int64_t>& keys, double* out) {
  std::array<double, count> sums = {};
  for (size_t i = 0; i < keys.size(); ++i) {
    const int64_t row = rows[static_cast<size_t>(keys[i])];
    if (row < 0) continue;
    const float* values = v.row(row);
    for (size_t d = 0; d < sums.size(); ++d) sums[d] += weights[i] * values[d];
  }
  std::ranges::copy(sums, out);
}

// softmax(q k^T * scale) v of one query of one head, from the softmax on.
void add_values(const std::vector<double>& weights, double sum, HeadRows v,
                const std::vector<int64_t>& rows, int64_t dim, const std::vector<int64_t>& keys,
                const AttentionVariant& variant, float* out) {
  Sums sums;
  for (int64_t d = 0; d < dim;) {
    const HeadRows part{v.first + d, v.stride};
    const int64_t left = dim - d;
    int64_t count = kSideBySide;
    if (left >= count) {
      add_up<kSideBySide>(weights, part, rows, keys, sums.data());
    } else if (left >= kSideBySide / 4) {
      count = kSideBySide / 4;
      add_up<kSideBySide / 4>(weights, part, rows, keys, sums.data());
    } else {
      count = 1;
      add_up<1>(weights, part, rows, keys, sums.data());
    }
    for (int64_t i = 0; i < count; ++i, ++d) {
      const double value = sums[static_cast<size_t>(i)];
      out[d] = static_cast<float>(variant.divide ? value / sum : value);
    }
  }
}

// The row that is read for each key.
std::vector<int64_t> rows_of(int64_t n_keys, const std::function<int64_t(int64_t)>& map) {
  std::vector<int64_t> rows(static_cast<size_t>(n_keys));
  for (int64_t key = 0; key < n_keys; ++key) rows[static_cast<size_t>(key)] = map ? map(key) : key;
  return rows;
}

// Whether the key is among those that the query may see.
bool is_indexed(const AttentionCall& call, int64_t token, int64_t key) {
  if (call.indexed == nullptr) return true;
  const int32_t* row = call.indexed + token * call.n_indexed;
  return std::find(row, row + call.n_indexed, key) != row + call.n_indexed;
}

// The keys that each query reads, in the order of those that it sees.
std::vector<std::vector<int64_t>> seen_keys(const AttentionCall& call,
                                            const AttentionVariant& variant) {
  std::vector<std::vector<int64_t>> all(static_cast<size_t>(call.n_tokens));
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    const int64_t position = call.first_position + t;
    for (int64_t key = 0; key < variant.n_keys; ++key) {
      const bool seen =
          variant.sees ? variant.sees(position, key) : is_seen(position, key, call.shape);
      if (!seen || !is_indexed(call, t, key)) continue;
      all[static_cast<size_t>(t)].push_back(variant.read ? variant.read(position, key) : key);
    }
  }
  return all;
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
  const std::vector<int64_t> k_rows = rows_of(variant.n_keys, variant.k_row);
  const std::vector<int64_t> v_rows = rows_of(variant.n_keys, variant.v_row);
  const std::vector<std::vector<int64_t>> keys = seen_keys(call, variant);
  int64_t first = variant.n_keys;
  int64_t last = -1;
  for (const std::vector<int64_t>& own : keys) {
    if (own.empty()) continue;
    const auto [least, most] = std::ranges::minmax(own);
    first = std::min(first, least);
    last = std::max(last, most);
  }
  std::optional<KeyColumns> columns;
  int64_t of_kv = -1;  // the head of the columns
  std::vector<double> weights;
  for (int64_t h = 0; h < shape.n_heads; ++h) {
    const int64_t kv = variant.kv_head ? variant.kv_head(h) : h / group;
    if (kv != of_kv && first <= last) {
      columns.emplace(HeadRows{k + kv * shape.head_dim, k_width}, k_rows, shape.head_dim, first,
                      last);
      of_kv = kv;
    }
    for (int64_t t = 0; t < call.n_tokens; ++t) {
      const std::vector<int64_t>& own = keys[static_cast<size_t>(t)];
      float* out = call.out + (t * shape.n_heads + h) * shape.value_dim();
      if (own.empty()) {
        std::fill_n(out, shape.value_dim(), 0.0F);
        continue;
      }
      const float* q = call.q + (t * shape.n_heads + h) * shape.head_dim;
      const double scale = shape.scale_at(call.first_position + t);
      const double slope = shape.alibi.n_first > 0 ? shape.alibi.of_head(h) : 0.0;
      find_scores(q, *columns, k_rows, shape, scale, own, variant, weights,
                  {call.first_position + t, slope});
      for (size_t i = 0; i < own.size() && variant.unseen_score; ++i) {
        if (!is_seen(call.first_position + t, own[i], shape)) weights[i] = *variant.unseen_score;
      }
      const float* sink = call.sinks == nullptr ? nullptr : call.sinks + h;
      const double sum = make_weights(sink, variant, weights);
      add_values(weights, sum, {v + kv * shape.value_dim(), v_width}, v_rows, shape.value_dim(),
                 own, variant, out);
    }
  }
}

void run(const ConvCall& call) {
  const auto* k = static_cast<const float*>(call.kv.k);
  const auto* v = static_cast<const float*>(call.kv.v);
  for (int64_t i = 0; i < call.n_tokens * call.width; ++i) {
    const int64_t channel = i % call.width;
    const int64_t last = call.first_position + i / call.width;
    double sum = call.bias == nullptr ? 0.0 : call.bias[channel];
    for (int64_t j = 0; j < call.taps; ++j) {
      const int64_t position = last - call.taps + 1 + j;
      if (position < 0) continue;
      const int64_t at = position * call.width + channel;
      sum += call.weight[channel * call.taps + j] *
             (v == nullptr ? k[at] : static_cast<double>(k[at]) * static_cast<double>(v[at]));
    }
    call.out[i] = static_cast<float>(call.x == nullptr ? sum : call.x[i] * sum);
  }
}

}  // namespace assay::reference
