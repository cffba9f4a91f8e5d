#pragma once

#include "kernels/cuda/products.h"
#include "kernels/cuda/rounding.h"
#include "kernels/cuda/two_halves.h"

// `fast` math: products of weights that are stored in blocks with activations rounded to 8 bits.
// The order of every sum is that of kernels/cpu/integers/matmul.h, so both give the same bits:
// products that have one scale are summed as whole numbers, those of 32 elements, or of each half
// where a type has two scales for them. Thread t of a row has lane t of the eight that blocks go
// into, or two of the sixteen that halves go into.
namespace assay::ASSAY_DEVICE {

constexpr int kHalf = 16;  // elements

// So many times four neighbouring elements of a block. All threads of the warp must call it.
template <int kFours>
struct Int8Fours {
  uint32_t codes[kFours];  // each four whole numbers from -127 to 127
  int32_t total_of_half;   // of the codes of the half that these are in
  int32_t total_of_block;  // of all 32
  float scale;

  Int8Fours() = default;
  __device__ explicit Int8Fours(const float4 (&values)[kFours]) {
    const RoundedFours<kFours> rounded = round_fours(values, 127.0F);
    const auto low_bytes = [&](int i) {
      return __byte_perm(float_bits(rounded.numbers[i]), float_bits(rounded.numbers[i + 1]),
                         0x0040);
    };
    total_of_half = 0;
    ASSAY_UNROLL
    for (int i = 0; i < kFours; ++i) {
      codes[i] = __byte_perm(low_bytes(4 * i), low_bytes(4 * i + 2), 0x5410);
      total_of_half = __dp4a(static_cast<int>(codes[i]), 0x01010101, total_of_half);
    }
    constexpr int kThreadsOfHalf = 4 / kFours;
    ASSAY_UNROLL
    for (int distance = 1; distance < kThreadsOfHalf; distance *= 2) {
      total_of_half += __shfl_xor_sync(0xFFFFFFFFU, total_of_half, distance);
    }
    total_of_block = total_of_half + __shfl_xor_sync(0xFFFFFFFFU, total_of_half, kThreadsOfHalf);
    scale = rounded.scale;
  }
};

// Where the codes of half `half` of a chunk stand: so that the first halves that the threads of a
// row read at once, and the second ones, are each in all banks of shared memory, however far apart
// the two are.
__device__ inline uint32_t place_of_half(uint32_t half) {
  const uint32_t neighbours = (half ^ half >> 1U) & 3U;
  return half % 2 * 8 + half / 8 * 4 + neighbours;
}

struct HalfFactor {
  float scale;    // of its block
  int32_t total;  // of its codes
};

// The blocks of a vector, eight of them a chunk: of each chunk the codes of its halves, then scale
// and scale * total of its blocks, then a HalfFactor of each half. Behind the vector, all are 0.
template <class Words>
struct Int8Blocks {
  static constexpr int kWords = 64 + 8 * 2 + 16 * 2;  // of a chunk
  static constexpr bool kWhole = true;                // columns are a multiple of 4

  Words words;
  int columns;

  __host__ __device__ static int words_of(int64_t columns) {
    return padded_blocks(columns) / kBlockLanes * kWords;
  }
  __host__ __device__ static Int8Blocks of(const Words& words, int64_t columns) {
    return {words, static_cast<int>(columns)};
  }

  // Of a chunk.
  __device__ uint4 codes(int chunk, uint32_t place) const {
    return load_from<uint4>(words, chunk * kWords + 4 * place);
  }
  __device__ float scale(int chunk, uint32_t block) const {
    return load_from<float>(words, chunk * kWords + block_at(block));
  }
  __device__ float2 scale_and_sum(int chunk, uint32_t block) const {
    return load_from<float2>(words, chunk * kWords + block_at(block));
  }
  __device__ HalfFactor half_factor(int chunk, uint32_t half) const {
    const auto both = load_from<float2>(words, chunk * kWords + half_at(half));
    return {both.x, static_cast<int32_t>(float_bits(both.y))};
  }

  // The elements values(i), values(i + 1), ... of the vector, four at a time, to their places, by
  // thread `thread` of so many. All threads of a warp must call it, with adjacent numbers.
  template <class Values>
  __device__ void fill(int thread, int n_threads, const Values& values) const {
    round_eights<Int8Fours<2>>(padded_blocks(columns) * 4, thread, n_threads, values,
                               [&](int eight, const Int8Fours<2>& own) { put(eight, own); });
  }
  // Of a vector of which this thread, of enough, has eight elements.
  __device__ void fill_own(int thread, const float4 (&values)[2]) const {
    const Int8Fours<2> own(values);
    if (thread < padded_blocks(columns) * 4) put(thread, own);
  }

 private:
  __device__ void put(int eight, const Int8Fours<2>& own) const {
    const int chunk = eight / 32 * kWords;
    const uint32_t half = static_cast<uint32_t>(eight) / 2 % 16;
    const uint32_t at = 4 * place_of_half(half) + static_cast<uint32_t>(eight) % 2 * 2;
    words[chunk + at] = own.codes[0];
    words[chunk + at + 1] = own.codes[1];
    if (eight % 2 != 0) return;
    words[chunk + half_at(half)] = float_bits(own.scale);
    words[chunk + half_at(half) + 1] = static_cast<uint32_t>(own.total_of_half);
    if (half % 2 != 0) return;
    const float sum = own.scale * static_cast<float>(own.total_of_block);
    words[chunk + block_at(half / 2)] = float_bits(own.scale);
    words[chunk + block_at(half / 2) + 1] = float_bits(sum);
  }

  __device__ static uint32_t block_at(uint32_t block) { return 64 + 2 * block; }
  __device__ static uint32_t half_at(uint32_t half) { return 80 + 2 * half; }
};

__device__ inline int add_products(const uint32_t (&codes)[4], const uint4& x, int dot) {
  const uint32_t x_codes[4] = {x.x, x.y, x.z, x.w};
  ASSAY_UNROLL
  for (int q = 0; q < 4; ++q) {
    dot = __dp4a(static_cast<int>(codes[q]), static_cast<int>(x_codes[q]), dot);
  }
  return dot;
}

template <class Type>
__device__ float add_shift(const Factor& factor, float sum_of_x, float lane) {
  if constexpr (Type::kShift == Shift::kAdded) return fmaf(factor.shift, sum_of_x, lane);
  if constexpr (Type::kShift == Shift::kSubtracted) return fmaf(-factor.shift, sum_of_x, lane);
  return lane;
}

// The halves of each chunk that a thread of a row multiplies: one, and one kHalvesApart elements
// on.
template <class Type>
class OwnHalves {
 public:
  __device__ uint32_t element() const { return first_ * kHalf; }

 protected:
  static constexpr uint32_t kApart = kHalvesApart<Type> / kHalf;

  // A half's number is the thread's with a 0, or a 1, put in for one bit.
  uint32_t thread_ = opaque(static_cast<uint32_t>(thread_of_row()));
  uint32_t first_ = thread_ / kApart * 2 * kApart + thread_ % kApart;
  uint32_t second_ = first_ + kApart;
  uint32_t first_place_ = place_of_half(first_);
  uint32_t second_place_ = place_of_half(second_);
};

// Of types with one scale for a block: thread t has block t of each chunk. Where its halves stand
// in different bytes, it multiplies one of them and one of its neighbour's.
template <class Type>
class OwnBlock : public OwnHalves<Type> {
  using Own = OwnHalves<Type>;

 public:
  // Of each chunk, the first whose factor the thread needs.
  __device__ uint32_t factor_element() const { return Own::thread_ * kActivationBlock; }

  // The sums of the products of both halves.
  struct HalfDots {
    int first;
    int second;
  };

  template <class Words>
  __device__ HalfDots multiply_halves(const uint32_t (&codes)[2][4], const Int8Blocks<Words>& x,
                                      int chunk) const {
    return {add_products(codes[0], x.codes(chunk, Own::first_place_), 0),
            add_products(codes[1], x.codes(chunk, Own::second_place_), 0)};
  }

  // That of the thread's block. All threads of the warp must call it if the halves are 32 elements
  // apart.
  __device__ int join(const HalfDots& halves) const {
    if constexpr (Own::kApart == 1) return halves.first + halves.second;
    const bool is_odd = Own::thread_ % 2 != 0;
    return (is_odd ? halves.second : halves.first) +
           __shfl_xor_sync(0xFFFFFFFFU, is_odd ? halves.first : halves.second, 1);
  }

  // To the thread's lane, if the chunk is there: without a branch, so that what is done for several
  // chunks is done beside each other.
  template <class Words>
  __device__ void add(int dot, const Factor& factor, const Int8Blocks<Words>& x, int chunk,
                      bool is_there) {
    const uint32_t block = Own::thread_;
    if constexpr (Type::kOffset != 0) {
      dot -= Type::kOffset *
             (x.half_factor(chunk, 2 * block).total + x.half_factor(chunk, 2 * block + 1).total);
    }
    float lane = 0.0F;
    if constexpr (Type::kShift == Shift::kNone) {
      lane = fmaf(static_cast<float>(dot), factor.scale * x.scale(chunk, block), lane_);
    } else {
      const float2 of_x = x.scale_and_sum(chunk, block);
      lane = fmaf(static_cast<float>(dot), factor.scale * of_x.x, lane_);
      lane = add_shift<Type>(factor, of_x.y, lane);
    }
    lane_ = is_there ? lane : lane_;
  }

  __device__ float sum() const { return sum_of_eight(lane_); }

 private:
  static_assert(Own::kApart <= 2);

  float lane_ = 0.0F;
};

// Of types with two scales for a block.
template <class Type>
class OwnScaledHalves : public OwnHalves<Type> {
  using Own = OwnHalves<Type>;

 public:
  template <class Words>
  __device__ void multiply(const uint32_t (&codes)[2][4], const Factor (&factors)[2],
                           const Int8Blocks<Words>& x, int chunk) {
    lanes_.first = add_half(codes[0], x.codes(chunk, Own::first_place_), factors[0],
                            x.half_factor(chunk, Own::first_), lanes_.first);
    lanes_.second = add_half(codes[1], x.codes(chunk, Own::second_place_), factors[1],
                             x.half_factor(chunk, Own::second_), lanes_.second);
  }

  // Half h of block j is in lane j / 4 * 8 + h * 4 + j % 4. Lanes 8, 4, 2 and 1 apart have halves
  // 8, 1, 4 and 2 apart.
  __device__ float sum() const { return sum_of_two(lanes_, Own::kApart, {8, 1, 4, 2}); }

 private:
  __device__ static float add_half(const uint32_t (&codes)[4], const uint4& x, const Factor& factor,
                                   const HalfFactor& of_x, float lane) {
    const int dot = add_products(codes, x, -Type::kOffset * of_x.total);
    lane = fmaf(static_cast<float>(dot), factor.scale * of_x.scale, lane);
    return add_shift<Type>(factor, of_x.scale * static_cast<float>(of_x.total), lane);
  }

  TwoLanes<float> lanes_;
};

template <class Type, class Words>
__device__ float multiply_row_int8(const Rows& rows, int64_t row, Stage& stage,
                                   const Int8Blocks<Words>& x) {
  std::conditional_t<Type::kTwoScales, OwnScaledHalves<Type>, OwnBlock<Type>> own;
  RowReader<Type, kRowThreads> reader(rows, row, stage);
  const uint32_t element = own.element();
  const uint32_t in_block = Type::kElements == 32 ? 0 : element % Type::kElements;
  ASSAY_NO_UNROLL
  for (int first = 0; first < rows.columns; first += kChunk<Type>) {
    const uint8_t* chunk = reader.next();
    const bool may_end = Type::kElements < kChunk<Type>;
    if (may_end && first + static_cast<int>(element) >= rows.columns) continue;
    const uint8_t* block = chunk + element / Type::kElements * Type::kBytes;
    const TwoHalves<Type> halves(block, in_block);
    if constexpr (Type::kTwoScales) {
      const Factor factors[2] = {
          Type::factor(block, in_block / Type::kGroup),
          Type::factor(block, (in_block + kHalvesApart<Type>) / Type::kGroup)};
      own.multiply(halves.codes, factors, x, first / kChunk<Type>);
    } else {
      const uint32_t group = own.factor_element() % Type::kElements / Type::kGroup;
      const int which = first / kChunk<Type>;
      own.add(own.join(own.multiply_halves(halves.codes, x, which)), Type::factor(block, group), x,
              which, true);
    }
  }
  return own.sum();
}

// Q4_K and Q5_K: a thread reads what it needs where it is, some blocks while it multiplies those
// before. It asks for them under no condition: what is read under one is put elsewhere, and so
// waited for, before anything is multiplied. Behind the last block it reads that again.
template <class Type, class Words>
__device__ float multiply_aligned_row(const Rows& rows, int64_t row, const Int8Blocks<Words>& x) {
  constexpr int kAtOnce = KHalves<Type>::kHasHighBits ? 2 : 4;
  OwnBlock<Type> own;
  const typename KHalves<Type>::Place place(own.element(), own.factor_element() / Type::kGroup);
  const Global<const uint8_t> data = rows.data.from(row * rows.stride);
  const int n_blocks = rows.columns / Type::kElements;
  const auto at_most_last = [&](int block) { return block < n_blocks ? block : n_blocks - 1; };
  const auto load_some = [&](KHalves<Type>(&some)[kAtOnce], int first) {
    ASSAY_UNROLL
    for (int i = 0; i < kAtOnce; ++i) {
      some[i].load(data, int64_t{at_most_last(first + i)} * Type::kBytes, place,
                   first + i >= n_blocks);
    }
  };
  KHalves<Type> next[kAtOnce];
  load_some(next, 0);
  ASSAY_NO_UNROLL
  for (int first = 0; first < n_blocks; first += kAtOnce) {
    KHalves<Type> some[kAtOnce];
    ASSAY_UNROLL
    for (int i = 0; i < kAtOnce; ++i) some[i] = next[i];
    if (first + kAtOnce < n_blocks) load_some(next, first + kAtOnce);
    typename OwnBlock<Type>::HalfDots halves[kAtOnce];
    Factor factors[kAtOnce];
    ASSAY_UNROLL
    for (int i = 0; i < kAtOnce; ++i) {
      uint32_t codes[2][4];
      some[i].unpack(place, codes, factors[i]);
      halves[i] = own.multiply_halves(codes, x, at_most_last(first + i));
    }
    int dots[kAtOnce];
    ASSAY_UNROLL
    for (int i = 0; i < kAtOnce; ++i) dots[i] = own.join(halves[i]);
    ASSAY_UNROLL
    for (int i = 0; i < kAtOnce; ++i) {
      own.add(dots[i], factors[i], x, at_most_last(first + i), first + i < n_blocks);
    }
  }
  return own.sum();
}

template <class Type, class Words>
__device__ float multiply_any_row(const Rows& rows, int64_t row, Stage& stage,
                                  const Int8Blocks<Words>& x) {
  if constexpr (std::is_same_v<Type, Q4_K> || std::is_same_v<Type, Q5_K>) {
    return multiply_aligned_row<Type>(rows, row, x);
  } else {
    return multiply_row_int8<Type>(rows, row, stage, x);
  }
}

// As dot_row(), of types that are stored in blocks. Those that most files have are asked for one by
// one, which takes less time than a jump to one of all types by a table.
template <int kTypes, class Words>
__device__ float dot_row_int8(const Rows& rows, int64_t row, Stage& stage,
                              const Int8Blocks<Words>& x) {
#define ASSAY_IF_TYPE(name)                                                   \
  if (rows.type == TensorType::k##name) {                                     \
    return with_bias(rows, row, multiply_any_row<name>(rows, row, stage, x)); \
  }
  if constexpr ((kTypes & kBlocks) != 0) {
    ASSAY_IF_TYPE(Q4_K)
    ASSAY_IF_TYPE(Q6_K)
    ASSAY_IF_TYPE(Q8_0)
    ASSAY_IF_TYPE(Q5_0)
  }
#undef ASSAY_IF_TYPE
  float sum = 0.0F;
  with_type<kTypes>(
      rows.type, [&](auto type) { sum = multiply_any_row<decltype(type)>(rows, row, stage, x); });
  return with_bias(rows, row, sum);
}

}  // namespace assay::ASSAY_DEVICE
