#pragma once

#include <type_traits>

#include "kernels/cuda/weights.h"

// The codes of two halves, each of sixteen elements, that share the bytes in which a block stores
// them: each byte is read once.
namespace assay::ASSAY_DEVICE {

// How many elements lie between the two: 32 are the low halves of some bytes and then the high
// ones, or bytes hold elements of several runs of 32, or in Q6_K of 64.
template <class Type>
constexpr int kHalvesApart = 16;
template <>
inline constexpr int kHalvesApart<Q2_K> = 32;
template <>
inline constexpr int kHalvesApart<Q3_K> = 32;
template <>
inline constexpr int kHalvesApart<Q4_K> = 32;
template <>
inline constexpr int kHalvesApart<Q5_K> = 32;
template <>
inline constexpr int kHalvesApart<Coded<coded::TQ1_0>> = 32;
template <>
inline constexpr int kHalvesApart<Coded<coded::TQ2_0>> = 32;
template <>
inline constexpr int kHalvesApart<Q6_K> = 64;

// Sixteen bytes of a block of Type, as four words. Those at an odd multiple of 2 are shifted out of
// five words, of which the last is the fourth where nothing is to be shifted.
template <class Type>
__device__ void load_words(const uint8_t* bytes, uint32_t (&words)[4]) {
  if constexpr (Type::kBytes % 4 == 0) {
    ASSAY_UNROLL
    for (int i = 0; i < 4; ++i) words[i] = load_as<uint32_t>(bytes + 4 * i);
  } else {
    const auto behind = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(bytes) % 4);
    uint32_t next = load_as<uint32_t>(bytes - behind);
    ASSAY_UNROLL
    for (int i = 0; i < 4; ++i) {
      const uint32_t own = next;
      next = load_as<uint32_t>(i < 3 ? bytes - behind + 4 * (i + 1) : bytes + 12 + behind);
      words[i] = __funnelshift_r(own, next, 8 * behind);
    }
  }
}

// Of a byte each: the bits of kMask after a shift.
template <uint32_t kMask>
__device__ uint32_t bits_of_each(uint32_t bytes, uint32_t shift) {
  return bytes >> shift & kMask * 0x01010101U;
}

// The two halves at elements i and i + kHalvesApart<Type> of a block.
template <class Type>
struct TwoHalves {
  uint32_t codes[2][4];

  __device__ TwoHalves(const uint8_t* block, uint32_t i) {
    if constexpr (std::is_same_v<Type, Q2_K>) {
      set_bits<3>(block + 16 + two_bits_byte(i), two_bits_shift(i), 2);
    } else if constexpr (std::is_same_v<Type, Q3_K>) {
      set_bits<3>(block + 32 + two_bits_byte(i), two_bits_shift(i), 2);
      add_bits<1, 2>(block + i % 32, i / 32, 1);
    } else if constexpr (std::is_same_v<Type, Q6_K>) {
      set_bits<0xF>(block + i / 128 * 64 + i % 64, 0, 4);
      add_bits<3, 4>(block + 128 + two_bits_byte(i), two_bits_shift(i), 4);
    } else if constexpr (std::is_same_v<Type, Q8_0>) {
      load_words<Type>(block + 2, codes[0]);
      load_words<Type>(block + 2 + 16, codes[1]);
    } else if constexpr (std::is_same_v<Type, Q4_0> || std::is_same_v<Type, Q4_1>) {
      set_bits<0xF>(block + Type::kBytes - 16, 0, 4);
    } else if constexpr (std::is_same_v<Type, Q5_0> || std::is_same_v<Type, Q5_1>) {
      set_bits<0xF>(block + Type::kBytes - 16, 0, 4);
      const uint32_t high = Type::load32(block + Type::kBytes - 20);
      ASSAY_UNROLL
      for (int q = 0; q < 4; ++q) {
        codes[0][q] |= fifth_bits(high >> (4 * q));
        codes[1][q] |= fifth_bits(high >> (16 + 4 * q));
      }
    } else {
      ASSAY_UNROLL
      for (int q = 0; q < 4; ++q) {
        codes[0][q] = Type::four_codes(block, i + 4 * q);
        codes[1][q] = Type::four_codes(block, i + kHalvesApart<Type> + 4 * q);
      }
    }
  }

 private:
  // The bits of kMask that stand at `shift` in each byte for the first half, and so many bits
  // higher for the second.
  template <uint32_t kMask>
  __device__ void set_bits(const uint8_t* bytes, uint32_t shift, uint32_t apart) {
    uint32_t words[4];
    load_words<Type>(bytes, words);
    ASSAY_UNROLL
    for (int q = 0; q < 4; ++q) {
      codes[0][q] = bits_of_each<kMask>(words[q], shift);
      codes[1][q] = bits_of_each<kMask>(words[q], shift + apart);
    }
  }

  // Likewise, as bits from kBit on of the codes.
  template <uint32_t kMask, int kBit>
  __device__ void add_bits(const uint8_t* bytes, uint32_t shift, uint32_t apart) {
    uint32_t words[4];
    load_words<Type>(bytes, words);
    ASSAY_UNROLL
    for (int q = 0; q < 4; ++q) {
      codes[0][q] |= bits_of_each<kMask>(words[q], shift) << kBit;
      codes[1][q] |= bits_of_each<kMask>(words[q], shift + apart) << kBit;
    }
  }
};

// Q4_K and Q5_K, whose blocks stand at multiples of 16: their scales, the codes' high bits and the
// codes' low ones are each read as 16 bytes.
template <class Type>
class KHalves {
 public:
  static constexpr bool kHasHighBits = std::is_same_v<Type, Q5_K>;

  // The halves at elements i and i + 32 of any block, and the factor of its elements
  // [32 * group, 32 * group + 32).
  struct Place {
    uint32_t high_bit;
    uint32_t codes;
    uint32_t high_bits;
    // Scale and minimum of 32 elements have six bits: all in one byte each for the first four, for
    // the others four in the last word, and two above those of the first.
    uint32_t shift;
    uint32_t shift_of_low;
    uint32_t mask_of_low;
    uint32_t mask_of_last;

    __device__ Place(uint32_t i, uint32_t group)
        : high_bit(i / 32),
          codes(Type::kBytes - 128 + four_bits_byte(i)),
          high_bits(16 + i % 32),
          shift(group % 4 * 8),
          shift_of_low(group < 4 ? shift : shift + 2),
          mask_of_low(group < 4 ? 0x3FU : 0x30U),
          mask_of_last(group < 4 ? 0 : 0x0FU) {}
  };

  __device__ void load(const Global<const uint8_t>& row, int64_t at, const Place& place,
                       bool is_again) {
    scales_ = load_weights<uint4, 8>(row, at, is_again);
    if constexpr (kHasHighBits) high_ = load_weights<uint4, 4>(row, at + place.high_bits, is_again);
    codes_ = load_weights<uint4, 1>(row, at + place.codes, is_again);
  }

  __device__ void unpack(const Place& place, uint32_t (&codes)[2][4], Factor& factor) const {
    const uint32_t words[4] = {codes_.x, codes_.y, codes_.z, codes_.w};
    ASSAY_UNROLL
    for (int q = 0; q < 4; ++q) {
      codes[0][q] = bits_of_each<0xF>(words[q], 0);
      codes[1][q] = bits_of_each<0xF>(words[q], 4);
    }
    if constexpr (kHasHighBits) {
      const uint32_t high[4] = {high_.x, high_.y, high_.z, high_.w};
      ASSAY_UNROLL
      for (int q = 0; q < 4; ++q) {
        codes[0][q] |= bits_of_each<1>(high[q], place.high_bit) << 4;
        codes[1][q] |= bits_of_each<1>(high[q], place.high_bit + 1) << 4;
      }
    }
    const uint32_t scale = (scales_.y >> place.shift_of_low & place.mask_of_low) |
                           (scales_.w >> place.shift & place.mask_of_last);
    const uint32_t min = (scales_.z >> place.shift_of_low & place.mask_of_low) |
                         (scales_.w >> place.shift >> 4 & place.mask_of_last);
    factor = {half_to_float(static_cast<uint16_t>(scales_.x)) * static_cast<float>(scale),
              half_to_float(static_cast<uint16_t>(scales_.x >> 16U)) * static_cast<float>(min)};
  }

 private:
  uint4 scales_;  // scale and minimum of the block, and of its 32s
  uint4 high_;
  uint4 codes_;
};

}  // namespace assay::ASSAY_DEVICE
