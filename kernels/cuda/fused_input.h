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

// Of a vector of n, where there are so many.
template <bool kWhole, class To>
__device__ void put_four(const To& to, int i, int n, const float4& four) {
  if (i >= n) return;
  to.put(i, four.x);
  if (kWhole || i + 1 < n) to.put(i + 1, four.y);
  if (kWhole || i + 2 < n) to.put(i + 2, four.z);
  if (kWhole || i + 3 < n) to.put(i + 3, four.w);
}

// What a thread has of the input in registers, where the threads of a block have all of it: two
// times four elements, and what a norm multiplies these by and adds, which no launch writes. That
// is read, and converted, before the thread waits for launches. Of wider inputs it comes to the
// first-level cache.
class OwnInput {
 public:
  __device__ explicit OwnInput(const InputSource& s)
      : width_(static_cast<int>(s.width)),
        has_all_(width_ % 4 == 0 && width_ <= kFours * 4 * kThreads) {
    if (!s.weight) return;
    if (!has_all_) {
      prefetch_norm(s);
      return;
    }
    ASSAY_UNROLL
    for (int k = 0; k < kFours; ++k) weight_[k] = doubles(four_of<true>(s.weight, at(k), width_));
    if (!s.bias) return;
    ASSAY_UNROLL
    for (int k = 0; k < kFours; ++k) bias_[k] = doubles(four_of<true>(s.bias, at(k), width_));
  }

  // They have come.
  __device__ void keep() const {
    ASSAY_UNROLL
    for (int k = 0; k < kFours; ++k) {
      weight_[k].keep();
      bias_[k].keep();
    }
  }

  // The vector, once launches have been waited for.
  __device__ void read(const InputSource& s) {
    if (!has_all_) return;
    ASSAY_UNROLL
    for (int k = 0; k < kFours; ++k) x_[k] = four_of<true>(s.x, at(k), width_);
  }

  __device__ bool has_all() const { return has_all_; }

  // Puts the vector to `to`, a place for its elements in shared memory.
  template <class To>
  __device__ void put(const To& to) const {
    ASSAY_UNROLL
    for (int k = 0; k < kFours; ++k) put_four<true>(to, at(k), width_, x_[k]);
  }

  // The kth four, 0 behind the end; and element(x, weight, bias) of each, with those two as
  // doubles.
  __device__ float4 four(int k) const { return x_[k]; }
  template <class Element>
  __device__ float4 four_of_norm(int k, const Element& element) const {
    const Doubles& weight = weight_[k];
    const Doubles& bias = bias_[k];
    const float4 four = {element(x_[k].x, weight.x, bias.x), element(x_[k].y, weight.y, bias.y),
                         element(x_[k].z, weight.z, bias.z), element(x_[k].w, weight.w, bias.w)};
    // An infinite factor times a weight of 0 is NaN.
    return at(k) < width_ ? four : float4{0.0F, 0.0F, 0.0F, 0.0F};
  }

  // The number of its first element.
  __device__ static int at(int k) { return 4 * (static_cast<int>(threadIdx.x) + k * kThreads); }
  static constexpr int kFours = 2;

 private:
  struct Doubles {
    double x = 0.0;
    double y = 0.0;
    double z = 0.0;
    double w = 0.0;
    __device__ void keep() const {
      assay::ASSAY_DEVICE::keep(x);
      assay::ASSAY_DEVICE::keep(y);
      assay::ASSAY_DEVICE::keep(z);
      assay::ASSAY_DEVICE::keep(w);
    }
  };
  __device__ void prefetch_norm(const InputSource& s) const {
    constexpr int kLine = 128 / sizeof(float);
    for (int i = static_cast<int>(threadIdx.x) * kLine; i < width_; i += kThreads * kLine) {
      prefetch_near(s.weight, i);
      if (s.bias) prefetch_near(s.bias, i);
    }
  }
  __device__ static Doubles doubles(const float4& four) { return {four.x, four.y, four.z, four.w}; }

  int width_;
  bool has_all_;
  float4 x_[kFours] = {};
  Doubles weight_[kFours];
  Doubles bias_[kFours];
};

// Puts the vector to `to` by all threads of the block.
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
      const double squares = sum_in_block(
          s.width, [&](int i) -> double { return x[i]; }, PlusSquare());
      factor = inverse_root(squares, s.width, s.eps);
      return;
    }
    const double total = sum_in_block(s.width, [&](int i) -> double { return x[i]; });
    mean = total / static_cast<double>(s.width);
    const double squares = sum_in_block(s.width, [&](int i) {
      const double centred = x[i] - mean;
      return centred * centred;
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

  // Of this thread's own.
  template <bool kHasMean, bool kHasBias>
  __device__ float4 own_four(const OwnInput& own, int k) const {
    return own.four_of_norm(k, [&](float x, double weight, double bias) {
      if constexpr (kHasMean) return element<kHasBias>(x, weight, bias);
      return static_cast<float>(x * factor * weight);
    });
  }

 private:
  // Mean is 0 where x is as it stands, and x - 0 is x.
  template <bool kHasBias>
  __device__ float element(float x, double weight, double bias) const {
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

// use(four) with four(k), the kth of the thread's own fours of the norm.
template <class Use>
__device__ void with_own_fours(const InputSource& s, const OwnInput& own, const Normalizer& norm,
                               const Use& use) {
  if (s.kind == NormKind::kRms) {
    use([&](int k) { return norm.own_four<false, false>(own, k); });
  } else {
    for_bias(s, [&](auto bias) {
      use([&](int k) { return norm.own_four<true, decltype(bias)::value>(own, k); });
    });
  }
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
  static constexpr bool kTakesOwn = true;

  __device__ SharedInput(const InputSource& source, const OwnInput& own) : x_(dynamic()) {
    const auto width = static_cast<int>(source.width);
    if (own.has_all()) {
      own.put(Place{x_});
    } else {
      for_width(width, [&](auto whole) { copy_vector<decltype(whole)::value>(source, Place{x_}); });
    }
    __syncthreads();
    if (source.weight) normalise(source, own);
  }

  __device__ float dot(const Rows& rows, int64_t row, Stage& stage) const {
    return dot_row<kTypes, Number>(rows, row, stage, x_);
  }

 private:
  struct Place {
    const Shared<float>& x;
    __device__ void put(int i, float value) const { x[i] = value; }
  };

  __device__ void normalise(const InputSource& source, const OwnInput& own) const {
    const Normalizer norm(source, x_);
    if (own.has_all()) {
      with_own_fours(source, own, norm, [&](const auto& four) {
        const auto width = static_cast<int>(source.width);
        ASSAY_UNROLL
        for (int k = 0; k < OwnInput::kFours; ++k) {
          if (OwnInput::at(k) < width) put_four<true>(Place{x_}, OwnInput::at(k), width, four(k));
        }
      });
    } else {
      normalise_wide(source, norm);
    }
    __syncthreads();
    see_normed(source, [&](int i) { return x_[i]; });
  }

  __device__ void normalise_wide(const InputSource& source, const Normalizer& norm) const {
    const auto width = static_cast<int>(source.width);
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
  static constexpr bool kTakesOwn = false;

  __device__ PlainInput(const InputSource& source, const OwnInput& /*own*/) : x_(source.x) {}

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
  static constexpr bool kTakesOwn = true;

  __device__ RoundedInput(const InputSource& source, const OwnInput& own)
      : x_(X::of(dynamic(), source.width)) {
    if (own.has_all()) {
      fill_own(source, own);
    } else if constexpr (X::kWhole) {
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

  __device__ void fill_own(const InputSource& source, const OwnInput& own) const {
    const auto thread = static_cast<int>(threadIdx.x);
    if (!source.weight) {
      return x_.fill_two(thread, kThreads, [&](int k) { return own.four(k); });
    }
    const Floats floats = {x_.words, X::words_of(source.width)};
    own.put(floats);
    __syncthreads();
    const Normalizer norm(source, floats);
    with_own_fours(source, own, norm,
                   [&](const auto& four) { x_.fill_two(thread, kThreads, four); });
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
