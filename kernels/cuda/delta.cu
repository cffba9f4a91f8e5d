#include "kernels/cuda/language.h"
#include "kernels/cuda/ops.h"
#include "kernels/gates.h"

namespace assay::ASSAY_DEVICE {
namespace {

constexpr unsigned kDeltaThreads = 128;

struct Delta {
  Global<const float> qkv;
  Global<const float> alpha;
  Global<const float> beta;
  Global<const float> a;
  Global<const float> dt;
  DeltaShape shape;
  Global<float> state;
  int64_t first_position;
  int64_t n_tokens;
  Global<float> out;
  bool l2_norm;
  bool sigmoid_beta;
};

__device__ double inverse_length(const Global<const float>& x, int64_t first, int64_t dim) {
  double squares = 0.0;
  for (int64_t i = 0; i < dim; ++i) {
    const double value = x[first + i];
    squares += value * value;
  }
  return 1.0 / sqrt(squares + 1e-6);
}

__device__ int64_t key_head_of(const DeltaShape& shape, int64_t head) {
  return shape.grouped ? head / (shape.n_value_heads / shape.n_key_heads)
                       : head % shape.n_key_heads;
}

// A thread has a column of a head's state, for all tokens.
__global__ void delta_kernel(Delta d) {
  const int64_t key_dim = d.shape.key_dim;
  const int64_t value_dim = d.shape.value_dim;
  const int64_t key_width = d.shape.n_key_heads * key_dim;
  const int64_t value_width = d.shape.n_value_heads * value_dim;
  const int64_t head = blockIdx.x;
  const int64_t column = int64_t{blockIdx.y} * blockDim.x + threadIdx.x;
  if (column >= value_dim) return;
  const int64_t key_head = key_head_of(d.shape, head);
  const double root = sqrt(static_cast<double>(key_dim));
  const int64_t state = head * key_dim * value_dim + column;
  for (int64_t t = 0; t < d.n_tokens; ++t) {
    const int64_t row = t * (2 * key_width + value_width);
    const int64_t q = row + key_head * key_dim;
    const int64_t k = q + key_width;
    const int64_t gate = t * d.shape.n_value_heads + head;
    const double alpha = static_cast<double>(d.alpha[gate]) + static_cast<double>(d.dt[head]);
    const double decay =
        gates::exponential(static_cast<double>(d.a[head]) * gates::softplus(alpha));
    const double stated = d.beta[gate];
    const double beta = d.sigmoid_beta ? gates::sigmoid(stated) : stated;
    const double of_q = (d.l2_norm ? inverse_length(d.qkv, q, key_dim) : 1.0) / root;
    const double of_k = d.l2_norm ? inverse_length(d.qkv, k, key_dim) : 1.0;
    const bool is_first = d.first_position + t == 0;
    double held = 0.0;
    for (int64_t i = 0; i < key_dim; ++i) {
      const double key = static_cast<double>(d.qkv[k + i]) * of_k;
      held += (is_first ? 0.0 : static_cast<double>(d.state[state + i * value_dim])) * key;
    }
    const double value = d.qkv[row + 2 * key_width + head * value_dim + column];
    const double step = (value - decay * held) * beta;
    double sum = 0.0;
    for (int64_t i = 0; i < key_dim; ++i) {
      const int64_t at = state + i * value_dim;
      const double key = static_cast<double>(d.qkv[k + i]) * of_k;
      const double query = static_cast<double>(d.qkv[q + i]) * of_q;
      const double next = decay * (is_first ? 0.0 : static_cast<double>(d.state[at])) + key * step;
      d.state[at] = static_cast<float>(next);
      sum += next * query;
    }
    d.out[t * value_width + head * value_dim + column] = static_cast<float>(sum);
  }
}

struct Ssm {
  Global<const float> values;
  Global<const float> keys;
  Global<const float> queries;
  int64_t value_stride;
  int64_t key_stride;
  Global<const float> dt;
  Global<const float> a;
  Global<const float> dt_bias;
  Global<const float> d;
  DeltaShape shape;
  Global<float> state;
  int64_t first_position;
  int64_t n_tokens;
  Global<float> out;
  bool softplus;
};

// Likewise of a state space model. Threads go over the columns of all heads, which may be as
// narrow as one.
__global__ void ssm_kernel(Ssm s) {
  const int64_t key_dim = s.shape.key_dim;
  const int64_t value_dim = s.shape.value_dim;
  const int64_t value_width = s.shape.n_value_heads * value_dim;
  const int64_t of_all = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (of_all >= value_width) return;
  const int64_t head = of_all / value_dim;
  const int64_t key_head = key_head_of(s.shape, head);
  const int64_t state = head * key_dim * value_dim + of_all % value_dim;
  for (int64_t t = 0; t < s.n_tokens; ++t) {
    const int64_t k = t * s.key_stride + key_head * key_dim;
    const double dt = static_cast<double>(s.dt[t * s.shape.n_value_heads + head]) +
                      static_cast<double>(s.dt_bias[head]);
    const double step = s.softplus ? gates::softplus(dt) : dt;
    double decay =
        s.shape.own_decays ? 0.0 : gates::exponential(static_cast<double>(s.a[head]) * step);
    const bool is_first = s.first_position + t == 0;
    const double value = s.values[t * s.value_stride + of_all];
    double sum = static_cast<double>(s.d[head]) * value;
    for (int64_t i = 0; i < key_dim; ++i) {
      const int64_t at = state + i * value_dim;
      if (s.shape.own_decays) {
        decay = gates::exponential(static_cast<double>(s.a[head * key_dim + i]) * step);
      }
      const double key = step * static_cast<double>(s.keys[k + i]);
      const double held = is_first ? 0.0 : static_cast<double>(s.state[at]);
      const double next = decay * held + key * value;
      s.state[at] = static_cast<float>(next);
      sum += next * static_cast<double>(s.queries[k + i]);
    }
    s.out[t * value_width + of_all] = static_cast<float>(sum);
  }
}

LaunchShape shape_of(const DeltaShape& shape) {
  return {
      {static_cast<unsigned>(shape.n_value_heads), blocks_for(shape.value_dim, kDeltaThreads), 1},
      {kDeltaThreads, 1, 1},
      0};
}

}  // namespace

void run(Device& device, const DeltaCall& call) {
  const Delta delta = {call.qkv,      call.alpha, call.beta,    call.a,
                       call.dt,       call.shape, call.state,   call.first_position,
                       call.n_tokens, call.out,   call.l2_norm, call.sigmoid_beta};
  ASSAY_LAUNCH(device, shape_of(call.shape), delta_kernel, delta);
}

void run(Device& device, const SsmCall& call) {
  const SsmInputs& in = call.in;
  const Ssm ssm = {in.values,     in.keys,    in.queries,   in.value_stride,
                   in.key_stride, call.dt,    call.a,       call.dt_bias,
                   call.d,        call.shape, call.state,   call.first_position,
                   call.n_tokens, call.out,   call.softplus};
  const unsigned blocks = blocks_for(call.shape.value_width(), kDeltaThreads);
  ASSAY_LAUNCH(device, (LaunchShape{{blocks, 1, 1}, {kDeltaThreads, 1, 1}, 0}), ssm_kernel, ssm);
}

}  // namespace assay::ASSAY_DEVICE
