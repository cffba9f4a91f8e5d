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

// Lets what a norm multiplies by come to the second-level cache: no launch writes it.
__device__ inline void prefetch_norm(const InputSource& s) {
  constexpr int kLine = 128 / sizeof(float);
  for (int64_t i = int64_t{threadIdx.x} * kLine; i < s.width; i += kThreads * kLine) {
    if (s.weight) prefetch(s.weight, i);
    if (s.bias) prefetch(s.bias, i);
  }
}

// put(i, value) of every element of the vector, by all threads of the block.
template <class Put>
__device__ void for_elements(const InputSource& s, const Put& put) {
  const int64_t fours = s.width % 4 == 0 ? s.width : 0;
  for (int64_t i = 4 * threadIdx.x; i < fours; i += 4 * kThreads) {
    const auto four = load_from<float4>(s.x, i);
    put(i, four.x);
    put(i + 1, four.y);
    put(i + 2, four.z);
    put(i + 3, four.w);
  }
  for (int64_t i = fours + threadIdx.x; i < s.width; i += kThreads) put(i, s.x[i]);
}

// Element i of the norm of a vector, which stands in shared memory, is element(i).
template <class X>
struct Normalizer {
  const X& x;
  double mean = 0.0;
  double factor;

  // All threads of the block must call it.
  __device__ Normalizer(const InputSource& s, const X& vector) : x(vector) {
    if (s.kind == NormKind::kRms) {
      const double squares = sum_in_block(
          s.width, [&](double lane, int64_t i) { return add_product(x[i], x[i], lane); });
      factor = inverse_root(squares, s.width, s.eps);
      return;
    }
    const double total = sum_in_block(s.width, [&](double lane, int64_t i) { return lane + x[i]; });
    mean = total / static_cast<double>(s.width);
    const double squares = sum_in_block(s.width, [&](double lane, int64_t i) {
      const double centred = x[i] - mean;
      return lane + centred * centred;
    });
    factor = inverse_root(squares, s.width, s.eps);
  }

  __device__ float element(const InputSource& s, int64_t i) const {
    if (s.kind == NormKind::kRms) return static_cast<float>(x[i] * factor * s.weight[i]);
    const double scaled = (x[i] - mean) * factor * s.weight[i];
    return static_cast<float>(s.bias ? scaled + s.bias[i] : scaled);
  }
};

// Exact math, and fast of plain types: the norm as floats.
template <int kTypes, class Number>
class NormedInput {
 public:
  static constexpr int kFactorGroups = kGroups;  // of the stage

  __device__ explicit NormedInput(const InputSource& source) : x_(dynamic()) {
    for_elements(source, [&](int64_t i, float value) { x_[i] = value; });
    __syncthreads();
    const Normalizer norm(source, x_);
    for (int64_t i = threadIdx.x; i < source.width; i += blockDim.x) {
      const float value = norm.element(source, i);
      x_[i] = value;
      if (source.normed_seen && blockIdx.x == 0) source.normed_seen[i] = value;
    }
    __syncthreads();
  }

  __device__ float dot(const Rows& rows, int64_t row, Stage& stage) const {
    return dot_row<kTypes, Number>(rows, row, stage, x_);
  }

 private:
  __device__ static Shared<float> dynamic() {
    ASSAY_DYNAMIC_SHARED(float, values);
    return values;
  }

  Shared<float> x_;
};

// Likewise: the vector as it stands in device memory.
template <int kTypes, class Number>
class PlainInput {
 public:
  static constexpr int kFactorGroups = kGroups;  // of the stage

  __device__ explicit PlainInput(const InputSource& source) : x_(source.x) {}

  __device__ float dot(const Rows& rows, int64_t row, Stage& stage) const {
    return dot_row<kTypes, Number>(rows, row, stage, x_);
  }

 private:
  Global<const float> x_;
};

// Fast math of the others: the norm, or the vector as it stands in device memory, rounded to 8
// bits.
class Int8Input {
 public:
  static constexpr int kFactorGroups = 0;  // of the stage

  __device__ explicit Int8Input(const InputSource& source)
      : x_{dynamic(), static_cast<int>(source.width) / kHalf} {
    if (source.weight) {
      const Floats floats = {x_.words, Halves<Shared<uint32_t>>::words_of(x_.count)};
      for_elements(source,
                   [&](int64_t i, float value) { x_.words[floats.first + i] = float_bits(value); });
      __syncthreads();
      const Normalizer norm(source, floats);
      fill([&](int half, int i) {
        const float value = norm.element(source, half * kHalf + i);
        if (source.normed_seen && blockIdx.x == 0) source.normed_seen[half * kHalf + i] = value;
        return value;
      });
    } else {
      fill([&](int half, int i) { return source.x[half * kHalf + i]; });
    }
    __syncthreads();
  }

  __device__ float dot(const Rows& rows, int64_t row, Stage& stage) const {
    return dot_row_int8<kBlocks>(rows, row, stage, x_);
  }

 private:
  // The vector before it is normalised, behind its halves.
  struct Floats {
    const Shared<uint32_t>& words;
    int first;
    __device__ float operator[](int64_t i) const { return float_from_bits(words[first + i]); }
  };

  __device__ static Shared<uint32_t> dynamic() {
    ASSAY_DYNAMIC_SHARED(uint32_t, values);
    return values;
  }

  template <class Value>
  __device__ void fill(const Value& value) {
    ASSAY_NO_UNROLL
    for (int half = static_cast<int>(threadIdx.x); half < x_.count; half += kThreads) {
      store_half(x_.words, x_.count, half, quantize_half([&](int i) { return value(half, i); }));
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
