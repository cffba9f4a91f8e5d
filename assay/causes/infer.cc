#include "assay/causes/infer.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numeric>
#include <utility>

#include "assay/mistakes/ops.h"

namespace assay::causes {
namespace {

using namespace mistakes;

constexpr int64_t kMaxInferred = 64;
// rel_l2 between what is inferred and what the reference logged. Float leaves 1e-7 to 3e-7 (see
// tests/causes/infer_test.cc), a wrong pairing, base, head size, window or activation over 1e-3.
constexpr double kSame = 1e-5;

double rel_l2(const Matrix& a, const Matrix& b) {
  if (a.values.size() != b.values.size()) return INFINITY;
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < b.values.size(); ++i) {
    const double d = static_cast<double>(a.values[i]) - static_cast<double>(b.values[i]);
    difference += d * d;
    norm += static_cast<double>(b.values[i]) * static_cast<double>(b.values[i]);
  }
  return norm > 0 ? std::sqrt(difference / norm) : INFINITY;
}

// Reads the reference at positions 0, 1, ... as far as it has them.
class Reference {
 public:
  Reference(TensorStore& store, Op op) {
    const std::string name = op.name();
    const int64_t last = std::min(store.last_position(name), kMaxInferred - 1);
    while (std::ssize(positions_) <= last) {
      const Record* record = store.ref(name, std::ssize(positions_));
      if (record == nullptr || !record->has_all_values()) break;
      positions_.push_back(std::ssize(positions_));
    }
    store_ = &store;
  }

  const std::vector<int64_t>& positions() const { return positions_; }
  std::shared_ptr<const Matrix> rows(Op op) const {
    return positions_.empty() ? nullptr : store_->reference(op.name(), positions_);
  }

 private:
  TensorStore* store_ = nullptr;
  std::vector<int64_t> positions_;
};

// The angle of each of `pairs` pairs at position 1, made exact by the positions after it.
std::vector<double> angles(const Matrix& x, const Matrix& y, RopePairing pairing, int64_t dim) {
  const int64_t pairs = dim / 2;
  std::vector<double> result(static_cast<size_t>(pairs));
  for (int64_t p = 0; p < pairs; ++p) {
    const int64_t i = pairing == RopePairing::kAdjacent ? 2 * p : p;
    const int64_t j = pairing == RopePairing::kAdjacent ? 2 * p + 1 : p + pairs;
    double& angle = result[static_cast<size_t>(p)];
    for (int64_t t = 1; t < x.rows; ++t) {
      std::complex<double> sum;
      for (int64_t head = 0; head < x.columns; head += dim) {
        const std::complex<double> before(x.row(t)[head + i], x.row(t)[head + j]);
        const std::complex<double> after(y.row(t)[head + i], y.row(t)[head + j]);
        sum += std::conj(before) * after;
      }
      const auto turns = static_cast<double>(t);
      const std::complex<double> rest = sum * std::polar(1.0, -turns * angle);
      angle += std::arg(rest) / turns;
    }
  }
  return result;
}

double length(const Matrix& x) {
  double sum = 0;
  for (const float value : x.values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

std::optional<RopeSettings> infer_rope(const Matrix& x, const Matrix& y,
                                       const std::vector<int64_t>& positions, int64_t width) {
  const std::vector<double> at(positions.begin(), positions.end());
  constexpr int64_t kMaxHeadDim = 1024;
  for (int64_t dim = 4; dim <= std::min(width, kMaxHeadDim); dim += 2) {
    if (width % dim != 0) continue;
    for (const RopePairing pairing : {RopePairing::kAdjacent, RopePairing::kHalves}) {
      RopeSettings settings;
      settings.pairing = pairing;
      settings.head_dim = dim;
      settings.factor = length(y) / length(x);
      if (std::abs(settings.factor - 1) <= kSame) settings.factor = 1;
      settings.frequencies = angles(x, y, pairing, dim);
      if (!(rel_l2(rope(x, settings, at), y) <= kSame)) continue;
      const std::optional<double> base = rope_base(settings.frequencies);
      if (!base) return settings;
      // Bases have two digits and zeros; the angles give them to about four.
      const double unit = std::pow(10, std::floor(std::log10(*base)) - 1);
      RopeSettings exact = settings;
      exact.base = std::round(*base / unit) * unit;
      exact.frequencies = rope_frequencies(exact.base, settings.frequencies.size());
      return rel_l2(rope(x, exact, at), y) <= kSame ? exact : settings;
    }
  }
  return std::nullopt;
}

void infer_rope(const Reference& reference, int layer, Network& network) {
  const auto q = reference.rows({Checkpoint::kQ, layer});
  const auto q_rope = reference.rows({Checkpoint::kQRope, layer});
  const auto k = reference.rows({Checkpoint::kK, layer});
  if (!q || !q_rope || !k || q->columns != q_rope->columns || q->rows < 2) return;
  network.rope = infer_rope(*q, *q_rope, reference.positions(), std::gcd(q->columns, k->columns));
  if (network.rope) network.head_dim = network.rope->head_dim;
}

// Counts what the tries of an attention take. Wide logs have many heads and windows to try.
class AttentionTries {
 public:
  AttentionTries(const Matrix& q, const Matrix& k, const Matrix& v, const Matrix& out)
      : q_(q), k_(k), v_(v), out_(out), last_(static_cast<size_t>(q.rows)) {
    last_.back() = true;
  }

  // Whether the network's gives `out`. Most others show in the last row, which sees all keys.
  bool is_so(const Network& network) {
    return is_so(network, last_) && is_so(network, std::vector<bool>(last_.size(), true));
  }
  bool are_over() const { return multiplications_ > kMaxMultiplications; }
  double multiplications() const { return multiplications_; }

 private:
  static constexpr double kMaxMultiplications = 2e9;  // about a second of one core

  bool is_so(const Network& network, const std::vector<bool>& wanted) {
    const Matrix found =
        network.compute({Checkpoint::kAttn, 0}, {.rows = {&q_, &k_, &v_}, .wanted = wanted});
    double difference = 0;
    double norm = 0;
    for (int64_t t = 0; t < out_.rows; ++t) {
      const bool is_wanted = wanted[static_cast<size_t>(t)];
      for (int64_t i = 0; i < out_.columns; ++i) {
        const double want = out_.row(t)[i];
        const double d = found.row(t)[i] - want;
        difference += is_wanted ? d * d : 0;
        norm += want * want;
      }
      const int64_t keys = network.window > 0 ? std::min(t + 1, network.window) : t + 1;
      if (is_wanted) multiplications_ += 2.0 * static_cast<double>(keys * q_.columns);
    }
    return norm > 0 && difference <= kSame * kSame * norm;
  }

  const Matrix& q_;
  const Matrix& k_;
  const Matrix& v_;
  const Matrix& out_;
  std::vector<bool> last_;
  double multiplications_ = 0;
};

// Whether the attention gives the reference's with heads of `dim` and one of the windows from
// `first` to `last`; sets the window.
bool matches_attention_settings(const Matrix& q, const Matrix& k, int64_t dim, int64_t first,
                                int64_t last, AttentionTries& tries, Network& network) {
  if (q.columns % dim != 0 || k.columns % dim != 0 || (q.columns / dim) % (k.columns / dim) != 0) {
    return false;
  }
  network.head_dim = dim;
  network.n_heads = q.columns / dim;
  network.n_kv_heads = k.columns / dim;
  for (network.window = first; network.window <= last && !tries.are_over(); ++network.window) {
    if (tries.is_so(network)) return true;
  }
  network.window = 0;
  return false;
}

// Returns the multiplications that it took.
double infer_attention(const Reference& reference, int layer, Network& network) {
  double multiplications = 0;
  const bool rotary = network.rope.has_value();
  network.set_layer(rotary, network.gated());
  const auto q = reference.rows({rotary ? Checkpoint::kQRope : Checkpoint::kQ, layer});
  const auto k = reference.rows({rotary ? Checkpoint::kKRope : Checkpoint::kK, layer});
  const auto v = reference.rows({Checkpoint::kV, layer});
  const auto out = reference.rows({Checkpoint::kAttn, layer});
  // At one token the attention is V, whatever its heads and scale.
  if (q && k && v && out && q->rows > 1 && k->columns == v->columns && q->columns == out->columns) {
    std::vector<int64_t> dims = {network.head_dim};
    if (network.head_dim == 0) dims = {8, 16, 32, 40, 48, 64, 80, 96, 112, 128, 160, 192, 256};
    AttentionTries tries(*q, *k, *v, *out);
    const auto attends = [&](int64_t first, int64_t last) {
      return std::any_of(dims.begin(), dims.end(), [&](int64_t dim) {
        return matches_attention_settings(*q, *k, dim, first, last, tries, network);
      });
    };
    // Few have a window, and there are many to try.
    if (attends(0, 0) || attends(1, q->rows - 1)) return tries.multiplications();
    multiplications = tries.multiplications();
  }
  if (!network.rope) network.head_dim = 0;
  network.n_heads = network.n_kv_heads = 0;
  return multiplications;
}

void infer_activation(const Reference& reference, int layer, Network& network) {
  const auto up = reference.rows({Checkpoint::kFfnUp, layer});
  const auto gate = reference.rows({Checkpoint::kFfnGate, layer});
  const auto act = reference.rows({Checkpoint::kFfnAct, layer});
  if (!up || !act || (gate && gate->values.size() != up->values.size())) return;
  network.set_layer(network.rotary(), gate != nullptr);
  const auto kernels = make_reference_kernels();
  Matrix out(up->rows, up->columns);
  for (const Activation activation : kActivations) {
    activate(activate_call(gate.get(), *up, out), activation, *kernels);
    if (rel_l2(out, *act) <= kSame) {
      network.activation = activation;
      return;
    }
  }
}

// The weights, and the biases of LayerNorm, with which `x` normalised with `eps` is nearest to `y`.
NormWeights fit_norm(const Matrix& x, const Matrix& y, NormKind kind, double eps) {
  const Matrix plain = norm(x, {.kind = kind, .eps = static_cast<float>(eps)});
  NormWeights weights;
  for (int64_t i = 0; i < x.columns; ++i) {
    double a = 0;
    double b = 0;
    double aa = 0;
    double ab = 0;
    for (int64_t t = 0; t < x.rows; ++t) {
      const double from = plain.row(t)[i];
      const double to = y.row(t)[i];
      a += from;
      b += to;
      aa += from * from;
      ab += from * to;
    }
    const auto n = static_cast<double>(x.rows);
    const bool biased = kind == NormKind::kLayer;
    const double square = biased ? aa - a * a / n : aa;
    const double weight = square > 0 ? (biased ? ab - a * b / n : ab) / square : 0;
    weights.weight.push_back(static_cast<float>(weight));
    if (biased) weights.bias.push_back(static_cast<float>((b - weight * a) / n));
  }
  return weights;
}

double norm_error(const Matrix& x, const Matrix& y, NormKind kind, double eps,
                  const NormWeights& weights) {
  return rel_l2(norm(x, {.kind = kind,
                         .weight = weights.weight.data(),
                         .bias = weights.bias.empty() ? nullptr : weights.bias.data(),
                         .eps = static_cast<float>(eps)}),
                y);
}

void infer_norm(const Reference& reference, Op op, Network& network) {
  constexpr int64_t kMinRows = 4;  // two numbers are taken from each column
  const std::vector<Op> inputs = network.inputs(op);
  if (inputs.empty()) return;  // a norm that only some networks have
  const auto x = reference.rows(inputs.front());
  const auto y = reference.rows(op);
  if (!x || !y || x->columns != y->columns || x->rows < kMinRows) return;
  for (const NormKind kind : {NormKind::kRms, NormKind::kLayer}) {
    double best_eps = 0;
    NormWeights best;
    double least = INFINITY;
    double without = INFINITY;
    for (const double eps : {0.0, 1e-8, 1e-7, 1e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 1e-3, 1e-2}) {
      NormWeights weights = fit_norm(*x, *y, kind, eps);
      const double error = norm_error(*x, *y, kind, eps, weights);
      if (eps == 0) without = error;
      if (!(error < least)) continue;
      least = error;
      best_eps = eps;
      best = std::move(weights);
    }
    if (!(least <= kSame)) continue;
    constexpr double kTold = 3;  // an eps that matters leaves less than others by this factor
    network.norm = kind;
    network.eps = best_eps;
    network.eps_known = without > kTold * least;
    network.norms[op] = std::move(best);
    return;
  }
}

}  // namespace

double infer(TensorStore& store, Op op, Network& network) {
  if (network.model != nullptr) return 0;
  const Reference reference(store, op);
  if (kind_of(op.checkpoint) == OpKind::kNorm) infer_norm(reference, op, network);
  if (op.checkpoint == Checkpoint::kFfnAct) infer_activation(reference, op.layer, network);
  switch (op.checkpoint) {
    case Checkpoint::kQ:
    case Checkpoint::kK:
    case Checkpoint::kV:
    case Checkpoint::kQRope:
    case Checkpoint::kKRope:
    case Checkpoint::kAttn:
      infer_rope(reference, op.layer, network);
      return infer_attention(reference, op.layer, network);
    default:
      return 0;
  }
}

}  // namespace assay::causes
