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

// What a thread has of the input in registers, where the threads of a block have all of it: eight
// neighbouring elements, and what a norm multiplies these by and adds, which no launch writes. That
// is read, and converted, before the thread waits for launches. Of wider inputs it comes to the
// first-level cache.
class OwnInput {
 public:
  static constexpr int kCount = 8;  // elements

  __device__ explicit OwnInput(const InputSource& s)
      : width_(static_cast<int>(s.width)),
        has_all_(width_ % 4 == 0 && width_ <= kCount * kThreads) {
    if (!s.weight) return;
    if (!has_all_) {
      prefetch_norm(s);
      return;
    }
    read(s.weight, weight_);
    if (s.bias) read(s.bias, bias_);
  }

  // They have come.
  __device__ void keep() const {
    ASSAY_UNROLL
    for (int i = 0; i < kCount; ++i) {
      assay::ASSAY_DEVICE::keep(weight_[i]);
      assay::ASSAY_DEVICE::keep(bias_[i]);
    }
  }

  // The vector, once launches have been waited for.
  __device__ void read(const InputSource& s) {
    if (!has_all_) return;
    ASSAY_UNROLL
    for (int k = 0; k < 2; ++k) x_[k] = four_of<true>(s.x, at(4 * k), width_);
  }

  __device__ bool has_all() const { return has_all_; }

  // Element i of the thread's own: its number, whether the vector has it, and what belongs to it.
  __device__ static int at(int i) { return kCount * static_cast<int>(threadIdx.x) + i; }
  __device__ bool has(int i) const { return at(i / 4 * 4) < width_; }
  __device__ double weight(int i) const { return weight_[i]; }
  __device__ double bias(int i) const { return bias_[i]; }

  // Elements 0 to 3, and 4 to 7, of which those behind the end are 0.
  __device__ const float4 (&fours() const)[2] { return x_; }
  __device__ void doubles(double (&x)[kCount]) const {
    ASSAY_UNROLL
    for (int k = 0; k < 2; ++k) convert(x_[k], x + 4 * k);
  }

 private:
  __device__ void prefetch_norm(const InputSource& s) const {
    constexpr int kLine = 128 / sizeof(float);
    for (int i = static_cast<int>(threadIdx.x) * kLine; i < width_; i += kThreads * kLine) {
      prefetch_near(s.weight, i);
      if (s.bias) prefetch_near(s.bias, i);
    }
  }
  __device__ void read(const Global<const float>& from, double (&to)[kCount]) const {
    ASSAY_UNROLL
    for (int k = 0; k < 2; ++k) convert(four_of<true>(from, at(4 * k), width_), to + 4 * k);
  }
  __device__ static void convert(const float4& four, double* to) {
    to[0] = four.x;
    to[1] = four.y;
    to[2] = four.z;
    to[3] = four.w;
  }

  int width_;
  bool has_all_;
  float4 x_[2] = {};
  double weight_[kCount] = {};
  double bias_[kCount] = {};
};

__device__ inline uint4 two_doubles(double first, double second) {
  const auto a = __builtin_bit_cast(uint64_t, first);
  const auto b = __builtin_bit_cast(uint64_t, second);
  return {static_cast<uint32_t>(a), static_cast<uint32_t>(a >> 32U), static_cast<uint32_t>(b),
          static_cast<uint32_t>(b >> 32U)};
}

// The sum of a vector of which each thread of the block has eight elements (OwnInput), 0 behind the
// end, in all of them: what sum_in_block() gives, with no conditions and no conversions. `words`:
// of the stage, which is not in use yet.
__device__ inline double sum_of_own(const double (&own)[OwnInput::kCount],
                                    const Shared<uint4>& words) {
  constexpr int kWordsOfThread = 5;  // four, and one so that threads write to all banks
  constexpr int kRuns = OwnInput::kCount * kThreads / kSumRun;
  static_assert(kWordsOfThread * kThreads <= kGroups * kGroupWords);  // those of a Stage
  ASSAY_SHARED(double, runs, kRuns);
  const auto thread = static_cast<int>(threadIdx.x);
  ASSAY_UNROLL
  for (int i = 0; i < 4; ++i) {
    words[kWordsOfThread * thread + i] = two_doubles(own[2 * i], own[2 * i + 1]);
  }
  __syncthreads();
  const int run = thread / kLanes;
  if (run < kRuns) {  // whole warps
    const int first = run * kSumRun + lane_of_group();
    const int at = first / OwnInput::kCount * kWordsOfThread + first % OwnInput::kCount / 2;
    double lane = 0.0;
    ASSAY_UNROLL
    for (int k = 0; k < kSumRun / kLanes; ++k) {
      const int word = at + k * (kLanes / OwnInput::kCount) * kWordsOfThread;
      lane = lane + load_as<double>(reinterpret_cast<const uint8_t*>(range_of(words, word, 1)) +
                                    first % 2 * sizeof(double));
    }
    lane = sum_lanes(lane);
    if (lane_of_group() == 0) runs[run] = lane;
  }
  __syncthreads();
  double sum = 0.0;
  ASSAY_UNROLL
  for (int i = 0; i < kRuns; ++i) sum = sum + runs[i];
  return sum;
}

// The norm of the vector that OwnInput has, as fours of this thread's own, 0 behind the end. All
// threads of the block must call it.
__device__ inline void normalize_own(const InputSource& s, const OwnInput& own,
                                     const Shared<uint4>& words, float4 (&fours)[2]) {
  double x[OwnInput::kCount];
  own.doubles(x);
  if (s.kind == NormKind::kLayer) {
    const double mean = sum_of_own(x, words) / static_cast<double>(s.width);
    ASSAY_UNROLL
    for (double& element : x) element = element - mean;
  }
  double squares[OwnInput::kCount];
  ASSAY_UNROLL
  for (int i = 0; i < OwnInput::kCount; ++i) squares[i] = own.has(i) ? x[i] * x[i] : 0.0;
  const double factor = inverse_root(sum_of_own(squares, words), s.width, s.eps);
  const bool has_bias = static_cast<bool>(s.bias);
  float normed[OwnInput::kCount];
  ASSAY_UNROLL
  for (int i = 0; i < OwnInput::kCount; ++i) {
    const double scaled = x[i] * factor * own.weight(i);
    const auto element = static_cast<float>(has_bias ? scaled + own.bias(i) : scaled);
    // An infinite factor times a weight of 0 is NaN.
    normed[i] = own.has(i) ? element : 0.0F;
  }
  ASSAY_UNROLL
  for (int k = 0; k < 2; ++k) {
    fours[k] = {normed[4 * k], normed[4 * k + 1], normed[4 * k + 2], normed[4 * k + 3]};
  }
  if (!s.normed_seen || blockIdx.x != 0) return;
  ASSAY_UNROLL
  for (int i = 0; i < OwnInput::kCount; ++i) {
    if (own.has(i)) s.normed_seen[OwnInput::at(i)] = normed[i];
  }
}

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

  __device__ SharedInput(const InputSource& source, const OwnInput& own, const Stage& stage)
      : x_(dynamic()) {
    const auto width = static_cast<int>(source.width);
    if (own.has_all()) {
      put_own(source, own, stage);
    } else {
      for_width(width, [&](auto whole) { copy_vector<decltype(whole)::value>(source, Place{x_}); });
    }
    __syncthreads();
    if (source.weight && !own.has_all()) normalise_wide(source);
  }

  __device__ float dot(const Rows& rows, int64_t row, Stage& stage) const {
    return dot_row<kTypes, Number>(rows, row, stage, x_);
  }

 private:
  struct Place {
    const Shared<float>& x;
    __device__ void put(int i, float value) const { x[i] = value; }
  };

  __device__ void put_own(const InputSource& source, const OwnInput& own,
                          const Stage& stage) const {
    float4 fours[2] = {own.fours()[0], own.fours()[1]};
    if (source.weight) normalize_own(source, own, stage.words, fours);
    ASSAY_UNROLL
    for (int k = 0; k < 2; ++k) {
      put_four<true>(Place{x_}, OwnInput::at(4 * k), static_cast<int>(source.width), fours[k]);
    }
  }

  __device__ void normalise_wide(const InputSource& source) const {
    const Normalizer norm(source, x_);
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
  static constexpr bool kTakesOwn = false;

  __device__ PlainInput(const InputSource& source, const OwnInput& /*own*/, const Stage& /*stage*/)
      : x_(source.x) {}

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

  __device__ RoundedInput(const InputSource& source, const OwnInput& own, const Stage& stage)
      : x_(X::of(dynamic(), source.width)) {
    if (own.has_all()) {
      fill_own(source, own, stage);
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

  __device__ void fill_own(const InputSource& source, const OwnInput& own,
                           const Stage& stage) const {
    float4 fours[2] = {own.fours()[0], own.fours()[1]};
    if (source.weight) normalize_own(source, own, stage.words, fours);
    x_.fill_own(static_cast<int>(threadIdx.x), fours);
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
