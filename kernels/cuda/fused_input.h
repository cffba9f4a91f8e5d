#pragma once

#include "kernels/cuda/elementary.h"
#include "kernels/cuda/int16.h"
#include "kernels/cuda/int8.h"
#include "kernels/fused.h"

// What the rows of a fused product are multiplied by, made by each block for itself: a vector as it
// is, or normalised, or that rounded to whole numbers. All are as the kernels of single ops make
// them.
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

// Exact math, and fast of F32: the norm as floats.
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

// Fast math of the others: the norm, or the vector as it stands in device memory, rounded to whole
// numbers, as X has them.
template <class X>
class RoundedInput {
 public:
  static constexpr int kFactorGroups = 0;  // of the stage

  __device__ explicit RoundedInput(const InputSource& source) : x_(X::of(dynamic(), source.width)) {
    const auto own = static_cast<int>(threadIdx.x);
    if (source.weight) {
      const Floats floats = {x_.words, X::words_of(source.width)};
      for_elements(source,
                   [&](int64_t i, float value) { x_.words[floats.first + i] = float_bits(value); });
      __syncthreads();
      const Normalizer norm(source, floats);
      x_.fill(own, kThreads, [&](int i) {
        const float value = norm.element(source, i);
        if (source.normed_seen && blockIdx.x == 0) source.normed_seen[i] = value;
        return value;
      });
    } else {
      x_.fill(own, kThreads, [&](int i) { return source.x[i]; });
    }
    __syncthreads();
  }

 protected:
  __device__ const X& x() const { return x_; }

 private:
  // The vector before it is normalised, behind its whole numbers.
  struct Floats {
    const Shared<uint32_t>& words;
    int first;
    __device__ float operator[](int64_t i) const { return float_from_bits(words[first + i]); }
  };

  __device__ static Shared<uint32_t> dynamic() {
    ASSAY_DYNAMIC_SHARED(uint32_t, values);
    return values;
  }

  X x_;
};

class Int8Input : public RoundedInput<Int8Blocks<Shared<uint32_t>>> {
 public:
  using RoundedInput::RoundedInput;
  __device__ float dot(const Rows& rows, int64_t row, Stage& stage) const {
    return dot_row_int8<kBlocks>(rows, row, stage, x());
  }
};

class Int16Input : public RoundedInput<Int16Blocks<Shared<uint32_t>>> {
 public:
  using RoundedInput::RoundedInput;
  __device__ float dot(const Rows& rows, int64_t row, Stage& /*stage*/) const {
    return dot_row_int16(rows, row, x());
  }
};

inline InputSource plain_source(const float* x, int64_t width) {
  return {x, width, NormKind::kRms, nullptr, nullptr, 0.0F, nullptr};
}

inline InputSource normed_source(const float* x, const FusedNorm& norm, int64_t width,
                                 float* normed_seen) {
  return {x, width, norm.kind, norm.weight, norm.bias, norm.eps, normed_seen};
}

}  // namespace assay::ASSAY_DEVICE
