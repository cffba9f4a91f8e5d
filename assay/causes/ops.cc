#include "assay/causes/ops.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/interrupt.h"

namespace assay::causes {
namespace {

double apply(Activation activation, double x) {
  switch (activation) {
    case Activation::kSilu:
      return x / (1.0 + std::exp(-x));
    case Activation::kGeluTanh:
      return 0.5 * x *
             (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::kGeluErf:
      return 0.5 * x * (1.0 + std::erf(x / std::numbers::sqrt2));
    case Activation::kGeluFast:
      return x / (1.0 + std::exp(-1.702 * x));
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kSigmoid:
      return 1.0 / (1.0 + std::exp(-x));
    case Activation::kIdentity:
      break;
  }
  return x;
}

// softmax(scores) in place.
void softmax(std::vector<double>& scores) {
  const double max = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& score : scores) {
    score = std::exp(score - max);
    sum += score;
  }
  for (double& score : scores) score /= sum;
}

bool same_size(const Matrix& a, const Matrix& b) {
  return a.rows == b.rows && a.columns == b.columns;
}

struct Head {
  int64_t query = 0;
  int64_t offset = 0;     // of its elements in a row of q
  int64_t kv_offset = 0;  // of its elements in a row of k and v
};

void attend(const Matrix& q, const Matrix& k, const Matrix& v, const AttentionSettings& settings,
            const Head& head, std::vector<int64_t>& keys, std::vector<double>& weights,
            Matrix& out) {
  const int64_t dim = settings.head_dim;
  const float* query = q.row(head.query) + head.offset;
  weights.clear();
  for (const int64_t key : keys) {
    const int64_t row = settings.k_row ? settings.k_row(key, k.rows) : key;
    double score = 0;
    if (row >= 0) {
      const float* values = k.row(row) + head.kv_offset;
      for (int64_t d = 0; d < dim; ++d) score += static_cast<double>(query[d]) * values[d];
    }
    const auto rounded = [&](bool now) {
      const bool asked = settings.round_score != nullptr && settings.round_before_scale == now;
      if (asked) score = settings.round_score(static_cast<float>(score));
    };
    rounded(true);
    score *= settings.scale;
    rounded(false);
    weights.push_back(score);
  }
  softmax(weights);
  std::vector<double> sum(static_cast<size_t>(dim), 0.0);
  for (size_t i = 0; i < keys.size(); ++i) {
    const int64_t row = settings.v_row ? settings.v_row(keys[i], v.rows) : keys[i];
    if (row < 0) continue;
    const float* values = v.row(row) + head.kv_offset;
    for (int64_t d = 0; d < dim; ++d) sum[static_cast<size_t>(d)] += weights[i] * values[d];
  }
  float* result = out.row(head.query) + head.offset;
  for (int64_t d = 0; d < dim; ++d) result[d] = static_cast<float>(sum[static_cast<size_t>(d)]);
}

}  // namespace

const char* activation_name(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return "SiLU";
    case Activation::kGeluTanh:
      return "GELU (tanh)";
    case Activation::kGeluErf:
      return "GELU (erf)";
    case Activation::kGeluFast:
      return "GELU (sigmoid)";
    case Activation::kRelu:
      return "ReLU";
    case Activation::kSigmoid:
      return "a sigmoid";
    case Activation::kIdentity:
      break;
  }
  return "no activation";
}

std::vector<double> rope_frequencies(double base, size_t pairs) {
  std::vector<double> frequencies(pairs);
  for (size_t i = 0; i < pairs; ++i) {
    frequencies[i] = std::pow(base, -static_cast<double>(i) / static_cast<double>(pairs));
  }
  return frequencies;
}

std::optional<double> rope_base(const std::vector<double>& frequencies) {
  constexpr double kNear = 1e-3;
  if (frequencies.size() < 2 || !(frequencies[1] > 0) || !(std::abs(frequencies[0] - 1) <= kNear)) {
    return std::nullopt;
  }
  const double pairs = static_cast<double>(frequencies.size());
  const double log_base = -std::log(frequencies[1]) * pairs;
  for (size_t i = 2; i < frequencies.size(); ++i) {
    const double expected = -log_base * static_cast<double>(i) / pairs;
    if (!(std::abs(std::log(frequencies[i]) - expected) <= kNear * std::abs(expected))) {
      return std::nullopt;
    }
  }
  return std::exp(log_base);
}

Matrix rope(const Matrix& x, const RopeSettings& settings, const std::vector<double>& positions) {
  Matrix out = x;
  const auto pairs = static_cast<int64_t>(settings.frequencies.size());
  for (int64_t t = 0; t < x.rows; ++t) {
    const double position = positions[static_cast<size_t>(t)];
    for (int64_t p = 0; p < pairs; ++p) {
      const double angle = position * settings.frequencies[static_cast<size_t>(p)];
      double cos = std::cos(angle) * settings.factor;
      double sin = std::sin(angle) * settings.factor;
      if (settings.sine_for_cosine) std::swap(cos, sin);
      if (settings.round != nullptr) {
        cos = settings.round(static_cast<float>(cos));
        sin = settings.round(static_cast<float>(sin));
      }
      const bool adjacent = settings.pairing == RopePairing::kAdjacent;
      const int64_t i = adjacent ? 2 * p : p;
      const int64_t j = adjacent ? 2 * p + 1 : p + pairs;
      for (int64_t head = 0; head + settings.head_dim <= x.columns; head += settings.head_dim) {
        const double a = x.row(t)[head + i];
        const double b = x.row(t)[head + j];
        out.row(t)[head + i] = static_cast<float>(a * cos - b * sin);
        out.row(t)[head + j] = static_cast<float>(a * sin + b * cos);
      }
    }
  }
  return out;
}

Matrix attention(const Matrix& q, const Matrix& k, const Matrix& v,
                 const AttentionSettings& settings, const std::vector<bool>& wanted) {
  Matrix out(q.rows, q.columns);
  std::vector<int64_t> keys;
  std::vector<double> weights;
  for (int64_t query = 0; query < q.rows; ++query) {
    if (!wanted.empty() && !wanted[static_cast<size_t>(query)]) continue;
    check_interrupted();
    keys.clear();
    for (int64_t key = 0; key < k.rows; ++key) {
      if (settings.sees(query, key)) keys.push_back(key);
    }
    if (keys.empty()) continue;
    for (int64_t h = 0; h < settings.n_heads; ++h) {
      const Head head{query, h * settings.head_dim, settings.kv_head(h) * settings.head_dim};
      attend(q, k, v, settings, head, keys, weights, out);
    }
  }
  return out;
}

Matrix norm(const Matrix& x, const NormSettings& settings) {
  Matrix out(x.rows, x.columns);
  const int64_t width = settings.width > 0 ? settings.width : x.columns;
  const auto n = static_cast<double>(width);
  for (int64_t first = 0; first < x.rows * x.columns; first += width) {
    const float* in = &x.values[static_cast<size_t>(first)];
    double mean = 0;
    if (settings.kind == NormKind::kLayer) {
      for (int64_t i = 0; i < width; ++i) mean += in[i];
      mean /= n;
    }
    double squares = 0;
    for (int64_t i = 0; i < width; ++i) squares += (in[i] - mean) * (in[i] - mean);
    const double scale = settings.eps_outside ? 1.0 / (std::sqrt(squares / n) + settings.eps)
                                              : 1.0 / std::sqrt(squares / n + settings.eps);
    for (int64_t i = 0; i < width; ++i) {
      const double weight = settings.weight != nullptr ? settings.weight[i] : 1.0;
      const double bias = settings.bias != nullptr ? settings.bias[i] : 0.0;
      out.values[static_cast<size_t>(first + i)] =
          static_cast<float>((in[i] - mean) * scale * weight + bias);
    }
  }
  return out;
}

Matrix activate(const Matrix* gate, const Matrix& up, Activation activation) {
  if (gate != nullptr && !same_size(*gate, up)) return {};
  Matrix out(up.rows, up.columns);
  for (size_t i = 0; i < up.values.size(); ++i) {
    const double u = up.values[i];
    const double value =
        gate == nullptr ? apply(activation, u) : apply(activation, gate->values[i]) * u;
    out.values[i] = static_cast<float>(value);
  }
  return out;
}

Matrix add(const Matrix& a, const Matrix& b) {
  if (!same_size(a, b)) return {};
  Matrix out = a;
  for (size_t i = 0; i < out.values.size(); ++i) out.values[i] += b.values[i];
  return out;
}

Matrix map(const Matrix& x, const std::function<float(float)>& f) {
  Matrix out = x;
  for (float& value : out.values) value = f(value);
  return out;
}

}  // namespace assay::causes
