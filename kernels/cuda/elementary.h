#pragma once

#include "kernels/cuda/exp.h"
#include "kernels/cuda/language.h"
#include "kernels/kernels.h"

// What is done to single elements, for kernels of one op and fused ones.
namespace assay::ASSAY_DEVICE {

__device__ inline float logistic_product(float x, float minus_argument) {
  return x / (1.0F + exp_of(minus_argument));
}

__device__ inline float silu(float x) {
  return logistic_product(x, -0.0F - x);
}

__device__ inline float sigmoid_of(float x) {
  return logistic_product(1.0F, -0.0F - x);
}

// In the form x / (1 + e^-2u) of kernels/cpu/elementwise.h.
__device__ inline float gelu_tanh_of(float x) {
  constexpr double kMinusTwoRoot = -1.5957691216057308;  // -2 sqrt(2 / pi)
  constexpr auto kLinear = static_cast<float>(kMinusTwoRoot);
  constexpr auto kCubic = static_cast<float>(kMinusTwoRoot * 0.044715);
  return logistic_product(x, x * fmaf(x * x, kCubic, kLinear));
}

// By the error function, as in kernels/cpu/elementwise.h.
__device__ inline float gelu_of(float x) {
  const float magnitude = float_from_bits(float_bits(x) & 0x7FFFFFFFU);
  const float size = 30.0F < magnitude ? 30.0F : magnitude;
  const float u = size * 0.70710678F;
  const float r = 1.0F / fmaf(u, 0.5F, 1.0F);
  float p = -0.046942055F;
  p = fmaf(p, r, 0.31793973F);
  p = fmaf(p, r, -0.8270216F);
  p = fmaf(p, r, 0.9109117F);
  p = fmaf(p, r, -0.3007652F);
  p = fmaf(p, r, 0.41022715F);
  p = fmaf(p, r, 0.25101754F);
  p = fmaf(p, r, 0.2846328F);
  p = p * r;
  const float tail = 0.5F * (exp_of(-0.0F - u * u) * p);
  return (0.0F > x ? 0.0F : x) - size * tail;
}

__device__ inline float relu_squared(float x) {
  const float positive = 0.0F > x ? 0.0F : x;
  return positive * positive;
}

__device__ inline float clamped_silu(float x) {
  const float gate = 7.0F < x ? 7.0F : x;
  return logistic_product(gate, -1.702F * gate);
}

__device__ inline float clamped_up(float up) {
  up = -7.0F > up ? -7.0F : up;
  up = 7.0F < up ? 7.0F : up;
  return up + 1.0F;
}

// As in kernels/cpu/elementwise.h.
__device__ inline float xielu_of(const Xielu& of, float x) {
  if (x > 0.0F) return x * fmaf(of.alpha_p, x, of.beta);
  const float m = of.eps < x ? of.eps : x;
  const float s = -1.0F > m ? -1.0F : m;
  float p = 1.0F / 6227020800.0F;
  p = fmaf(p, s, 1.0F / 479001600.0F);
  p = fmaf(p, s, 1.0F / 39916800.0F);
  p = fmaf(p, s, 1.0F / 3628800.0F);
  p = fmaf(p, s, 1.0F / 362880.0F);
  p = fmaf(p, s, 1.0F / 40320.0F);
  p = fmaf(p, s, 1.0F / 5040.0F);
  p = fmaf(p, s, 1.0F / 720.0F);
  p = fmaf(p, s, 1.0F / 120.0F);
  p = fmaf(p, s, 1.0F / 24.0F);
  p = fmaf(p, s, 1.0F / 6.0F);
  p = fmaf(p, s, 0.5F);
  const float q = s * s * p * exp_of(m - s);
  return fmaf(of.alpha_n, q - (x - s), of.beta * x);
}

// Where keys or values are stored, in one of two types; the other address is null.
struct KvStore {
  Global<float> f32;
  Global<uint16_t> f16;

  __device__ void put(int64_t i, float value) const {
    if (f32) {
      f32[i] = value;
    } else {
      f16[i] = f16_from_float(value);
    }
  }
};

inline KvStore kv_store(KvType type, void* address) {
  if (type == KvType::kF32) return {static_cast<float*>(address), nullptr};
  return {nullptr, static_cast<uint16_t*>(address)};
}

// One norm's factor: the sum of squares to what an element is multiplied by.
__device__ inline double inverse_root(double squares, int64_t width, float eps) {
  return 1.0 / sqrt(squares / static_cast<double>(width) + static_cast<double>(eps));
}

}  // namespace assay::ASSAY_DEVICE
