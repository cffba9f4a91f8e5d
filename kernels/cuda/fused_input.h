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

// What a norm multiplies by and adds, which no launch writes: what a thread needs first comes to
// the first-level cache before it waits for launches, the rest to the second-level one.
class NormAhead {
 public:
  __device__ explicit NormAhead(const InputSource& s) {
    constexpr int kLine = 128 / sizeof(float);
    for (int64_t i = int64_t{threadIdx.x} * kLine; i < s.width; i += kThreads * kLine) {
      if (s.weight) prefetch(s.weight, i);
      if (s.bias) prefetch(s.bias, i);
    }
    ASSAY_UNROLL
    for (int i = 0; i < kFours; ++i) {
      const int64_t at = 4 * (int64_t{threadIdx.x} + i * kThreads);
      if (s.weight && at < s.width) ahead_[i] = s.weight[at];
      if (s.bias && at < s.width) ahead_[kFours + i] = s.bias[at];
    }
  }
  // They have come.
  __device__ void keep() const {
    ASSAY_UNROLL
    for (int i = 0; i < 2 * kFours; ++i) assay::ASSAY_DEVICE::keep(ahead_[i]);
  }

 private:
  static constexpr int kFours = 2;

  float ahead_[2 * kFours] = {};
};

// Of a vector of n, where there are so many.
template <bool kWhole, class To>
__device__ void put_four(const To& to, int i, int n, const float4& four) {
  if (i >= n) return;
  to.put(i, four.x);
  if (kWhole || i + 1 < n) to.put(i + 1, four.y);
  if (kWhole || i + 2 < n) to.put(i + 2, four.z);
  if (kWhole || i + 3 < n) to.put(i + 3, four.w);
}

// Copies the vector to `to`, a place for its elements in shared memory, by all threads of the
// block.
template <bool kWhole, class To>
__device__ void copy_vector(const InputSource& s, const To& to) {
  constexpr int kAtOnce = 4;
  const auto width = static_cast<int>(s.width);
  ASSAY_NO_UNROLL
  for (int first = 4 * static_cast<int>(threadIdx.x); first < width;
       first += 4 * kAtOnce * kThreads) {
    float4 fours[kAtOnce];
    ASSAY_UNROLL
    for (int i = 0; i < kAtOnce; ++i) {
      fours[i] = four_of<kWhole>(s.x, first + 4 * i * kThreads, width);
    }
    ASSAY_UNROLL
    for (int i = 0; i < kAtOnce; ++i) {
      put_four<kWhole>(to, first + 4 * i * kThreads, width, fours[i]);
    }
  }
}

// The norm of a vector, which stands in shared memory.
struct Normalizer {
  double mean = 0.0;
  double factor;

  // All threads of the block must call it.
  template <class X>
  __device__ Normalizer(const InputSource& s, const X& x) {
    if (s.kind == NormKind::kRms) {
      const double squares =
          sum_in_block(s.width, [&](double lane, int i) { return add_product(x[i], x[i], lane); });
      factor = inverse_root(squares, s.width, s.eps);
      return;
    }
    const double total = sum_in_block(s.width, [&](double lane, int i) { return lane + x[i]; });
    mean = total / static_cast<double>(s.width);
    const double squares = sum_in_block(s.width, [&](double lane, int i) {
      const double centred = x[i] - mean;
      return lane + centred * centred;
    });
    factor = inverse_root(squares, s.width, s.eps);
  }

  __device__ float element(const InputSource& s, int i, float x) const {
    return s.bias ? element<true>(x, s.weight[i], s.bias[i]) : element<false>(x, s.weight[i], 0.0F);
  }

  // Elements i to i + 3, of which the vector's are `four`; 0 behind its end.
  template <bool kWhole, bool kHasBias>
  __device__ float4 four(const InputSource& s, int i, const float4& four) const {
    const auto width = static_cast<int>(s.width);
    const float4 weight = four_of<kWhole>(s.weight, i, width);
    float4 bias = {0.0F, 0.0F, 0.0F, 0.0F};
    if constexpr (kHasBias) bias = four_of<kWhole>(s.bias, i, width);
    return {
        element<kHasBias>(four.x, weight.x, bias.x), element<kHasBias>(four.y, weight.y, bias.y),
        element<kHasBias>(four.z, weight.z, bias.z), element<kHasBias>(four.w, weight.w, bias.w)};
  }

 private:
  // Mean is 0 where x is as it stands, and x - 0 is x.
  template <bool kHasBias>
  __device__ float element(float x, float weight, float bias) const {
    const double scaled = (x - mean) * factor * weight;
    return static_cast<float>(kHasBias ? scaled + bias : scaled);
  }
};

// run(true_type) if a norm has a bias, else run(false_type): conversions to double that are not
// needed take most of the time of those that are.
template <class Run>
__device__ void for_bias(const InputSource& s, const Run& run) {
  if (s.bias) return run(std::true_type{});
  run(std::false_type{});
}

// Writes element(i) of the norm, where somebody looks.
template <class Element>
__device__ void see_normed(const InputSource& s, const Element& element) {
  if (!s.normed_seen || blockIdx.x != 0) return;
  for (int i = static_cast<int>(threadIdx.x); i < s.width; i += kThreads) {
    s.normed_seen[i] = element(i);
  }
}

// Exact math, and fast of F32: the norm as floats, or the vector as it is, in shared memory.
template <int kTypes, class Number>
class SharedInput {
 public:
  static constexpr int kFactorGroups = kGroups;  // of the stage

  __device__ explicit SharedInput(const InputSource& source) : x_(dynamic()) {
    const auto width = static_cast<int>(source.width);
    for_width(width, [&](auto whole) { copy_vector<decltype(whole)::value>(source, Place{x_}); });
    __syncthreads();
    if (source.weight) normalise(source);
  }

  __device__ float dot(const Rows& rows, int64_t row, Stage& stage) const {
    return dot_row<kTypes, Number>(rows, row, stage, x_);
  }

 private:
  struct Place {
    const Shared<float>& x;
    __device__ void put(int i, float value) const { x[i] = value; }
  };

  __device__ void normalise(const InputSource& source) const {
    const auto width = static_cast<int>(source.width);
    const Normalizer norm(source, x_);
    for_width(width, [&](auto whole) {
      constexpr bool kWhole = decltype(whole)::value;
      for_bias(source, [&](auto bias) {
        ASSAY_UNROLL_BY_4
        for (int i = 4 * static_cast<int>(threadIdx.x); i < width; i += 4 * kThreads) {
          const float4 four =
              norm.four<kWhole, decltype(bias)::value>(source, i, four_of<kWhole>(x_, i, width));
          put_four<kWhole>(Place{x_}, i, width, four);
        }
      });
    });
    __syncthreads();
    see_normed(source, [&](int i) { return x_[i]; });
  }

  __device__ static Shared<float> dynamic() {
    ASSAY_DYNAMIC_SHARED(float, values);
    return values;
  }

  Shared<float> x_;
};

// Exact math: the vector as it stands in device memory, which may be of any width.
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
    if constexpr (X::kWhole) {
      fill<true>(source);
    } else {
      for_width(source.width, [&](auto whole) { fill<decltype(whole)::value>(source); });
    }
    __syncthreads();
  }

 protected:
  __device__ const X& x() const { return x_; }

 private:
  template <bool kWhole>
  __device__ void fill(const InputSource& source) const {
    const auto own = static_cast<int>(threadIdx.x);
    if (!source.weight) {
      x_.fill(own, kThreads, [&](int i) { return four_of<kWhole>(source.x, i, source.width); });
      return;
    }
    const Floats floats = {x_.words, X::words_of(source.width)};
    copy_vector<kWhole>(source, floats);
    __syncthreads();
    const Normalizer norm(source, floats);
    const auto width = static_cast<int>(source.width);
    for_bias(source, [&](auto bias) {
      x_.fill(own, kThreads, [&](int i) {
        const float4 four = norm.four<kWhole, decltype(bias)::value>(
            source, i, floats.template four<kWhole>(i, width));
        // An infinite factor times a weight of 0 is NaN.
        return i < width ? four : float4{0.0F, 0.0F, 0.0F, 0.0F};
      });
    });
    see_normed(source, [&](int i) { return norm.element(source, i, floats[i]); });
  }

  // The vector before it is normalised, behind its whole numbers.
  struct Floats {
    const Shared<uint32_t>& words;
    int first;
    __device__ float operator[](int64_t i) const { return float_from_bits(words[first + i]); }
    __device__ void put(int i, float value) const { words[first + i] = float_bits(value); }
    template <bool kWhole>
    __device__ float4 four(int i, int n) const {
      float4 four = {0.0F, 0.0F, 0.0F, 0.0F};
      if constexpr (kWhole) {
        if (i < n) four = load_from<float4>(words, first + i);
      } else {
        four = {i < n ? (*this)[i] : 0.0F, i + 1 < n ? (*this)[i + 1] : 0.0F,
                i + 2 < n ? (*this)[i + 2] : 0.0F, i + 3 < n ? (*this)[i + 3] : 0.0F};
      }
      return four;
    }
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
