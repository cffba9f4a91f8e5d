#include "kernels/cuda/elementary.h"
#include "kernels/cuda/ops.h"

namespace assay::ASSAY_DEVICE {
namespace {

__device__ int64_t element() {
  return int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}

__device__ float activated(ActivationKind kind, float x, float cap, const Xielu& xielu) {
  switch (kind) {
    case ActivationKind::kSilu:
      return silu(x);
    case ActivationKind::kGeluTanh:
      return gelu_tanh_of(x);
    case ActivationKind::kGelu:
      return gelu_of(x);
    case ActivationKind::kRelu:
      return x < 0.0F ? 0.0F : x;
    case ActivationKind::kReluSquared:
      return relu_squared(x);
    case ActivationKind::kClampedSwiglu:
      return clamped_silu(x);
    case ActivationKind::kXielu:
      return xielu_of(xielu, x);
    case ActivationKind::kSigmoid:
      return sigmoid_of(x);
    case ActivationKind::kTanh:
      return tanh_of(x);
    case ActivationKind::kClip:
      return x > cap ? cap : x < -cap ? -cap : x;
    case ActivationKind::kSoftCap:
      break;
  }
  return soft_capped(x, cap);
}

__global__ void activate_kernel(ActivationKind kind, Global<const float> x, Global<const float> up,
                                float cap, Xielu xielu, int64_t count, Global<float> out) {
  const int64_t i = element();
  if (i >= count) return;
  const float value = activated(kind, x[i], cap, xielu);
  if (!up) {
    out[i] = value;
  } else {
    out[i] = value * (kind == ActivationKind::kClampedSwiglu ? clamped_up(up[i]) : up[i]);
  }
}

__global__ void add_kernel(Global<const float> a, Global<const float> b, float scale, int64_t count,
                           Global<float> out) {
  const int64_t i = element();
  if (i >= count) return;
  const float scaled = scale * b[i];
  out[i] = a ? a[i] + scaled : scaled;
}

__global__ void store_f32_kernel(Global<const float> x, int64_t count, Global<float> out) {
  const int64_t i = element();
  if (i < count) out[i] = x[i];
}

__global__ void store_f16_kernel(Global<const float> x, int64_t count, Global<uint16_t> out) {
  const int64_t i = element();
  if (i < count) out[i] = f16_from_float(x[i]);
}

__global__ void spread_kernel(Global<const float> x, Global<const float> weights, int64_t n_used,
                              int64_t width, int64_t count, Global<float> out) {
  const int64_t i = element();
  if (i >= count) return;
  const int64_t row = i / width;
  out[i] = weights[row] * x[row / n_used * width + i % width];
}

__global__ void mix_kernel(Global<const float> x, Global<const float> weights, int64_t n_used,
                           int64_t width, int64_t count, Global<float> out) {
  const int64_t i = element();
  if (i >= count) return;
  const int64_t row = i / width * n_used;
  float sum = (weights ? weights[row] : 1.0F) * x[row * width + i % width];
  for (int64_t j = 1; j < n_used; ++j) {
    sum = fmaf(weights ? weights[row + j] : 1.0F, x[(row + j) * width + i % width], sum);
  }
  out[i] = sum;
}

struct Rotation {
  Global<const float> x;
  Global<const float> cos_sin;
  RopePairing pairing;
  int64_t n_heads;
  int64_t head_dim;
  int64_t rotary_dim;
  int64_t first_turned;
  Global<float> out;
};

// A thread turns one pair of a head, or copies one element that is not turned.
__global__ void rope_kernel(Rotation r, int64_t count) {
  if (element() >= count) return;
  const int64_t pairs = r.rotary_dim / 2;
  const int64_t per_head = r.head_dim - pairs;
  const int64_t head = element() / per_head;
  const int64_t p = element() % per_head;
  const int64_t base = head * r.head_dim;
  if (p >= pairs) {
    const int64_t kept = p - pairs;
    const int64_t at = base + (kept < r.first_turned ? kept : kept + r.rotary_dim);
    r.out[at] = r.x[at];
    return;
  }
  const int64_t angle = head / r.n_heads * r.rotary_dim + 2 * p;
  const bool adjacent = r.pairing == RopePairing::kAdjacent;
  const int64_t i = base + r.first_turned + (adjacent ? 2 * p : p);
  const int64_t j = i + (adjacent ? 1 : pairs);
  const float cos = r.cos_sin[angle];
  const float sin = r.cos_sin[angle + 1];
  const float a = r.x[i];
  const float b = r.x[j];
  r.out[i] = a * cos - b * sin;
  r.out[j] = a * sin + b * cos;
}

// ConvCall; a thread has an element of a token.
__global__ void conv_kernel(Global<const float> x, Global<const float> k, Global<const float> v,
                            Global<const float> weight, Global<const float> bias, int64_t taps,
                            int64_t first_position, int64_t width, int64_t count,
                            Global<float> out) {
  const int64_t i = element();
  if (i >= count) return;
  const int64_t channel = i % width;
  const int64_t last = first_position + i / width;
  double sum = bias ? static_cast<double>(bias[channel]) : 0.0;
  for (int64_t j = last < taps - 1 ? taps - 1 - last : 0; j < taps; ++j) {
    const int64_t at = (last - taps + 1 + j) * width + channel;
    const double product = static_cast<double>(k[at]) * (v ? static_cast<double>(v[at]) : 1.0);
    sum += static_cast<double>(weight[channel * taps + j]) * product;
  }
  out[i] = static_cast<float>((x ? static_cast<double>(x[i]) : 1.0) * sum);
}

__global__ void heads_kernel(Global<const float> own, Global<const float> shared, HeadParts parts,
                             int64_t n_heads, int64_t count, Global<float> out) {
  const int64_t i = element();
  if (i >= count) return;
  const int64_t head_dim = parts.own_count + parts.shared_count;
  const int64_t head = i / head_dim;
  const int64_t d = i % head_dim;
  out[i] =
      d < parts.own_count
          ? own[head * parts.own_dim + parts.own_first + d]
          : shared[head / n_heads * parts.shared_dim + parts.shared_first + d - parts.own_count];
}

}  // namespace

void run(Device& device, const ActivateCall& call) {
  ASSAY_LAUNCH(device, one_thread_each(call.count), activate_kernel, call.kind, call.x, call.up,
               call.cap, call.xielu, call.count, call.out);
}

void run(Device& device, const AddCall& call) {
  ASSAY_LAUNCH(device, one_thread_each(call.count), add_kernel, call.a, call.b, call.scale,
               call.count, call.out);
}

void run(Device& device, const SpreadCall& call) {
  const int64_t count = call.n_tokens * call.n_used * call.width;
  ASSAY_LAUNCH(device, one_thread_each(count), spread_kernel, call.x, call.weights, call.n_used,
               call.width, count, call.out);
}

void run(Device& device, const MixCall& call) {
  const int64_t count = call.n_tokens * call.width;
  ASSAY_LAUNCH(device, one_thread_each(count), mix_kernel, call.x, call.weights, call.n_used,
               call.width, count, call.out);
}

void run(Device& device, const StoreKvCall& call) {
  const LaunchShape shape = one_thread_each(call.count);
  if (call.type == KvType::kF32) {
    ASSAY_LAUNCH(device, shape, store_f32_kernel, call.x, call.count,
                 static_cast<float*>(call.destination));
  } else {
    ASSAY_LAUNCH(device, shape, store_f16_kernel, call.x, call.count,
                 static_cast<uint16_t*>(call.destination));
  }
}

void run(Device& device, const RopeCall& call) {
  const Rotation rotation = {call.x,        call.cos_sin,    call.pairing,      call.n_heads,
                             call.head_dim, call.rotary_dim, call.first_turned, call.out};
  const int64_t count = call.n_tokens * call.n_heads * (call.head_dim - call.rotary_dim / 2);
  ASSAY_LAUNCH(device, one_thread_each(count), rope_kernel, rotation, count);
}

void run(Device& device, const HeadsCall& call) {
  const int64_t count = call.n_tokens * call.n_heads * call.parts.head_dim();
  ASSAY_LAUNCH(device, one_thread_each(count), heads_kernel, call.own, call.shared, call.parts,
               call.n_heads, count, call.out);
}

void run(Device& device, const ConvCall& call) {
  const int64_t count = call.n_tokens * call.width;
  ASSAY_LAUNCH(device, one_thread_each(count), conv_kernel, call.x,
               static_cast<const float*>(call.kv.k), static_cast<const float*>(call.kv.v),
               call.weight, call.bias, call.taps, call.first_position, call.width, count, call.out);
}

}  // namespace assay::ASSAY_DEVICE
