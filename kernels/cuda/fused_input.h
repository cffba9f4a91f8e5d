#pragma once

#include "kernels/cuda/elementary.h"
#include "kernels/cuda/int8.h"
#include "kernels/fused.h"

// What the rows of a fused product are multiplied by, made by each block for itself: a vector as it
// is, or normalised, or that rounded to 8 bits. All are as the kernels of single ops make them.
namespace assay::ASSAY_DEVICE {

struct InputSource {
  Global<const float> x;
  int64_t width;
  NormKind kind;
  Global<const float> weight;  // null: x as it is
  Global<const float> bias;
  float eps;
  Global<float> normed_seen;
};

// Element i of the norm of a vector is element(i).
struct Normalizer {
  float mean;
  float factor;

  // All threads of the block must call it.
  __device__ explicit Normalizer(const InputSource& s) : mean(0.0F), factor(1.0F) {
    if (s.kind == NormKind::kRms) {
      const double squares =
          sum_in_block(s.width, [&](float lane, int64_t i) { return fmaf(s.x[i], s.x[i], lane); });
      factor = inverse_root(squares, s.width, s.eps);
      return;
    }
    const double total =
        sum_in_block(s.width, [&](float lane, int64_t i) { return lane + s.x[i]; });
    mean = static_cast<float>(total / static_cast<double>(s.width));
    const double squares = sum_in_block(s.width, [&](float lane, int64_t i) {
      const float centred = s.x[i] - mean;
      return fmaf(centred, centred, lane);
    });
    factor = inverse_root(squares, s.width, s.eps);
  }

  __device__ float element(const InputSource& s, int64_t i) const {
    if (s.kind == NormKind::kRms) return s.x[i] * factor * s.weight[i];
    const float scaled = (s.x[i] - mean) * factor * s.weight[i];
    return s.bias ? scaled + s.bias[i] : scaled;
  }
};

// Exact math: the norm as floats.
class NormedInput {
 public:
  static constexpr int kFactorGroups = kGroups;  // of the stage

  __device__ explicit NormedInput(const InputSource& source) : x_(dynamic()) {
    const Normalizer norm(source);
    for (int64_t i = threadIdx.x; i < source.width; i += blockDim.x) {
      const float value = norm.element(source, i);
      x_[i] = value;
      if (source.normed_seen && blockIdx.x == 0) source.normed_seen[i] = value;
    }
    __syncthreads();
  }

  __device__ float dot(const Rows& rows, int64_t row, Stage& stage) const {
    return dot_row<false>(rows, row, stage, x_);
  }

 private:
  __device__ static Shared<float> dynamic() {
    ASSAY_DYNAMIC_SHARED(float, values);
    return values;
  }

  Shared<float> x_;
};

// Exact math: the vector as it stands in device memory.
class PlainInput {
 public:
  static constexpr int kFactorGroups = kGroups;  // of the stage

  __device__ explicit PlainInput(const InputSource& source) : x_(source.x) {}

  __device__ float dot(const Rows& rows, int64_t row, Stage& stage) const {
    return dot_row<false>(rows, row, stage, x_);
  }

 private:
  Global<const float> x_;
};

// Fast math: the norm, or the vector as it stands in device memory, rounded to 8 bits.
class Int8Input {
 public:
  static constexpr int kFactorGroups = 0;  // of the stage

  __device__ explicit Int8Input(const InputSource& source)
      : x_{dynamic(), static_cast<int>(source.width) / kHalf} {
    if (source.weight) {
      const Normalizer norm(source);
      fill([&](int64_t i) {
        const float value = norm.element(source, i);
        if (source.normed_seen && blockIdx.x == 0) source.normed_seen[i] = value;
        return value;
      });
    } else {
      fill([&](int64_t i) { return source.x[i]; });
    }
    __syncthreads();
  }

  __device__ float dot(const Rows& rows, int64_t row, Stage& stage) const {
    return dot_row_int8<false>(rows, row, stage, x_);
  }

 private:
  __device__ static Shared<uint32_t> dynamic() {
    ASSAY_DYNAMIC_SHARED(uint32_t, values);
    return values;
  }

  template <class Value>
  __device__ void fill(const Value& value) {
    ASSAY_NO_UNROLL
    for (int half = static_cast<int>(threadIdx.x); half < x_.count; half += kThreads) {
      store_half(x_.words, x_.count, half,
                 quantize_half([&](int i) { return value(half * kHalf + i); }));
    }
  }

  Halves<Shared<uint32_t>> x_;
};

inline InputSource plain_source(const float* x, int64_t width) {
  return {x, width, NormKind::kRms, nullptr, nullptr, 0.0F, nullptr};
}

inline InputSource normed_source(const float* x, const FusedNorm& norm, int64_t width,
                                 float* normed_seen) {
  return {x, width, norm.kind, norm.weight, norm.bias, norm.eps, normed_seen};
}

}  // namespace assay::ASSAY_DEVICE
