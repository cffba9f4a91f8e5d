#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/integers/matmul.h"
#include "kernels/cpu/integers/panel.h"

// Products of sixteen rows with sixteen tokens by the tiles of AMX: one instruction multiplies a
// block of each row, 16 x 32 codes, with the same block of each token, 32 x 16, into 16 x 16 whole
// numbers. These go by way of memory, as no instruction moves a tile to vectors, where each row is
// one vector: a lane of each token. Lanes and their order are those of matmul.h.
//
// Rows are read as they stand, so that only the tokens are sorted (panel.h); the sums are
// transposed where they are stored.
namespace assay::ASSAY_ISA {

constexpr int64_t kTileSide = 16;  // rows, and tokens
static_assert(kTileSide == kPanelRows);

// What LDTILECFG reads.
struct TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t n_rows[16] = {};
};
static_assert(sizeof(TileShapes) == 64);

// While it lives, this thread's tile registers have the shapes of a block, or of half of one: 0 for
// sums, 1 for codes of rows, 2 for codes of tokens.
class TilesInUse {
 public:
  explicit TilesInUse(bool halves) {
    const int64_t words = halves ? 4 : 8;
    TileShapes shapes;
    const auto set = [&](int tile, int64_t n_rows, int64_t row_bytes) {
      shapes.n_rows[tile] = static_cast<uint8_t>(n_rows);
      shapes.row_bytes[tile] = static_cast<uint16_t>(row_bytes);
    };
    set(0, kTileSide, 64);
    set(1, kTileSide, kWord * words);
    set(2, words, 64);
    __asm__ volatile("ldtilecfg %0" ::"m"(shapes));
  }
  ~TilesInUse() { __asm__ volatile("tilerelease"); }
  TilesInUse(const TilesInUse&) = delete;
  TilesInUse& operator=(const TilesInUse&) = delete;
};

// Of Type::Traits, what the products of a tile depend on: codes are read as signed bytes.
template <bool kHasTwoScales, bool kIsShifted>
struct TileTraits {
  static constexpr bool kTwoScales = kHasTwoScales;
  static constexpr bool kShifted = kIsShifted;
};

struct alignas(64) BlockSums {
  int32_t of[kTileSide][kTileSide];  // [rows, tokens]
};

// Of a block, or the half of one: codes of sixteen rows, 32 bytes apart, and words of tokens. As
// text, since the compilers' own functions do not say which memory they read and write.
ASSAY_ALWAYS_INLINE void multiply_block(const uint8_t* rows, const uint8_t* tokens,
                                        BlockSums& out) {
  using Bytes = const uint8_t(*)[kTileSide * 32];
  __asm__ volatile(
      "tileloadd (%[rows], %[rows_apart], 1), %%tmm1\n\t"
      "tileloadd (%[tokens], %[words_apart], 1), %%tmm2\n\t"
      "tilezero %%tmm0\n\t"
      "tdpbssd %%tmm2, %%tmm1, %%tmm0\n\t"
      "tilestored %%tmm0, (%[out], %[words_apart], 1)"
      : "=m"(out)
      : [rows] "r"(rows), [tokens] "r"(tokens), [out] "r"(&out), [rows_apart] "r"(int64_t{32}),
        [words_apart] "r"(int64_t{64}), "m"(*reinterpret_cast<Bytes>(rows)),
        "m"(*reinterpret_cast<Bytes>(tokens)));
}

// Where a block of a lane is, or half of one, in bytes from the first of its kind.
struct PlacedBlock {
  int32_t rows;    // in PanelChunk::codes, of the first row
  int32_t scale;   // in PanelChunk::scale, of the first row; those of the others are 32 bytes apart
  int32_t tokens;  // in TokenTile::codes
  int32_t x_scale;  // in TokenTile::scale
  int32_t x_sum;    // in TokenTile::sum, or half_sum
};

// The blocks of a row in the order in which they are computed: one lane after the other, in the
// order in which the tree adds these.
template <class Traits>
struct BlockOrder {
  static int64_t room(int64_t n_blocks) { return n_blocks * kScales<Traits> + 1; }

  const PlacedBlock* blocks;
  int64_t ends[kLanes<Traits>];  // of lanes

  // `out` has room() for them.
  BlockOrder(int64_t n_blocks, PlacedBlock* out) : blocks(out) {
    constexpr int64_t kParts[4] = {0, 2, 1, 3};
    const PlacedBlock* const first = out;
    for (int64_t lane = 0; lane < kLanes<Traits>; ++lane) {
      const int64_t part = kParts[lane / (2 * kScales<Traits>)] + 4 * (lane % 2);
      const int64_t half = Traits::kTwoScales ? lane / 2 % 2 : 0;
      for (int64_t i = 0; part + 8 * i < n_blocks; ++i) *out++ = placed(n_blocks, part, half, i);
      ends[lane] = out - first;
    }
    *out = *first;  // is multiplied ahead of nothing
  }

 private:
  // Half `half`, or all, of block `part` of chunk i.
  static PlacedBlock placed(int64_t n_blocks, int64_t part, int64_t half, int64_t i) {
    constexpr int64_t kFloat = sizeof(float);
    const int64_t chunk = i * static_cast<int64_t>(sizeof(PanelChunk));
    const int64_t number = Traits::kTwoScales ? half_place(part) + 4 * half : part;
    const int64_t place = sorted_block(part + 8 * i, (n_blocks + 7) / 8 * 8);
    const int64_t own = (place * kScales<Traits> + half) * kTileSide;
    const auto bytes = [](int64_t count) { return static_cast<int32_t>(count); };
    return {bytes(chunk + part * kPanelRows * 32 + half * 16),
            bytes(chunk + (number / 8 * kPanelRows * 8 + number % 8) * kFloat),
            bytes(own * 32 / kScales<Traits>), bytes(place * kTileSide * kFloat),
            bytes(own * kFloat)};
  }
};

// Sixteen rows and sixteen tokens, in bytes.
struct TileFactors {
  const uint8_t* rows;
  const uint8_t* scale;
  const uint8_t* tokens;
  const uint8_t* x_scale;
  const uint8_t* x_sum;
};

template <class T>
const uint8_t* bytes_of(const T* first) {
  return reinterpret_cast<const uint8_t*>(first);
}

// An address as one register: an operand in memory whose address is a sum of two takes a second
// operation, which all sixteen rows would.
template <class T>
ASSAY_ALWAYS_INLINE const T* in_register(const T* address) {
  __asm__("" : "+r"(address));
  return address;
}

// Adds a block, whose products are summed, to its lane: lane[rows], of all tokens.
template <class Traits>
ASSAY_ALWAYS_INLINE void add_block(const TileFactors& f, const PlacedBlock& at,
                                   const BlockSums& sums, F32x16 (&lane)[kTileSide]) {
  const F32x16 x_scale = load(f.x_scale + at.x_scale);
  const float* const scale = in_register(reinterpret_cast<const float*>(f.scale + at.scale));
  const int32_t* const products = in_register(&sums.of[0][0]);
#pragma GCC unroll 16
  for (int64_t r = 0; r < kTileSide; ++r) {
    const F32x16 sum = to_float(I32x16{_mm512_load_si512(products + kTileSide * r)});
    lane[r] = fma(sum, mul(splat(scale[8 * r]), x_scale), lane[r]);
  }
  if constexpr (Traits::kShifted) {
    constexpr size_t kShiftsAfter = offsetof(PanelChunk, shift) - offsetof(PanelChunk, scale);
    const F32x16 x_sum = load(f.x_sum + at.x_sum);
    const float* const shift = scale + kShiftsAfter / sizeof(float);
#pragma GCC unroll 16
    for (int64_t r = 0; r < kTileSide; ++r) lane[r] = fma(splat(shift[8 * r]), x_sum, lane[r]);
  }
}

// out[c][r] = in[r][c]
ASSAY_ALWAYS_INLINE void transpose(F32x16 (&m)[16]) {
  __m512 a[16];
  __m512 b[16];
#pragma GCC unroll 8
  for (size_t i = 0; i < 8; ++i) {
    a[2 * i] = _mm512_maskz_unpacklo_ps(kAllLanes, m[2 * i].v, m[2 * i + 1].v);
    a[2 * i + 1] = _mm512_maskz_unpackhi_ps(kAllLanes, m[2 * i].v, m[2 * i + 1].v);
  }
#pragma GCC unroll 4
  for (size_t i = 0; i < 16; i += 4) {
    const auto join = [&](size_t from, auto high) {
      const __m512d first = _mm512_castps_pd(a[i + from]);
      const __m512d second = _mm512_castps_pd(a[i + from + 2]);
      return _mm512_castpd_ps(decltype(high)::value
                                  ? _mm512_maskz_unpackhi_pd(0xFF, first, second)
                                  : _mm512_maskz_unpacklo_pd(0xFF, first, second));
    };
    b[i] = join(0, std::false_type());
    b[i + 1] = join(0, std::true_type());
    b[i + 2] = join(1, std::false_type());
    b[i + 3] = join(1, std::true_type());
  }
  // b[4g + k]: columns k, 4 + k, 8 + k, 12 + k of rows 4g to 4g + 3.
#pragma GCC unroll 4
  for (size_t k = 0; k < 4; ++k) {
    const __m512 low = _mm512_maskz_shuffle_f32x4(kAllLanes, b[k], b[4 + k], 0x88);  // 0, 8 | 0, 8
    const __m512 high =
        _mm512_maskz_shuffle_f32x4(kAllLanes, b[k], b[4 + k], 0xDD);  // 4, 12 | 4, 12
    const __m512 low_last = _mm512_maskz_shuffle_f32x4(kAllLanes, b[8 + k], b[12 + k], 0x88);
    const __m512 high_last = _mm512_maskz_shuffle_f32x4(kAllLanes, b[8 + k], b[12 + k], 0xDD);
    m[k].v = _mm512_maskz_shuffle_f32x4(kAllLanes, low, low_last, 0x88);
    m[8 + k].v = _mm512_maskz_shuffle_f32x4(kAllLanes, low, low_last, 0xDD);
    m[4 + k].v = _mm512_maskz_shuffle_f32x4(kAllLanes, high, high_last, 0x88);
    m[12 + k].v = _mm512_maskz_shuffle_f32x4(kAllLanes, high, high_last, 0xDD);
  }
}

// sums[rows], of all tokens, to their places.
ASSAY_ALWAYS_INLINE void store_sums(const F32x16 (&rows)[kTileSide], int64_t n_tokens,
                                    const ProductOut& out) {
  F32x16 sums[kTileSide];  // `rows` itself is to stay in registers
#pragma GCC unroll 16
  for (int64_t r = 0; r < kTileSide; ++r) sums[r] = rows[r];
  transpose(sums);
  const int64_t n = out.n_rows;
  const F32x16 bias = out.bias == nullptr ? zero() : load_partial(out.bias, n);
  for (int64_t t = 0; t < n_tokens; ++t) {
    const F32x16 all = out.bias == nullptr ? sums[t] : add(sums[t], bias);
    if (n == kTileSide) {
      store(out.at + t * out.stride, all);
    } else {
      store_partial(out.at + t * out.stride, n, all);
    }
  }
}

// The first n_tokens of the tile. partial[4, 16, 16].
template <class Traits>
void multiply_tile(const TileFactors& f, const BlockOrder<Traits>& order, int64_t n_tokens,
                   float* partial, const ProductOut& out) {
  BlockSums sums[2];  // of a block that is added, and of the next one
  const auto multiply = [&](int64_t n) {
    const PlacedBlock& at = order.blocks[n];
    multiply_block(f.rows + at.rows, f.tokens + at.tokens, sums[n & 1]);
  };
  int64_t n = 0;
  multiply(n);
  float* kept = partial;  // the end of the sums of lanes that wait for another
  for (int64_t number = 0;; ++number) {
    F32x16 lane[kTileSide];
#pragma GCC unroll 16
    for (int64_t r = 0; r < kTileSide; ++r) lane[r] = zero();
    for (const int64_t end = order.ends[number]; n < end; ++n) {
      multiply(n + 1);
      add_block<Traits>(f, order.blocks[n], sums[n & 1], lane);
    }
    for (int64_t pairs = number; pairs % 2 != 0; pairs /= 2) {
      kept -= kTileSide * kTileSide;
#pragma GCC unroll 16
      for (int64_t r = 0; r < kTileSide; ++r) lane[r] = add(load(kept + r * kTileSide), lane[r]);
    }
    if (number + 1 == kLanes<Traits>) return store_sums(lane, n_tokens, out);
#pragma GCC unroll 16
    for (int64_t r = 0; r < kTileSide; ++r) store(kept + r * kTileSide, lane[r]);
    kept += kTileSide * kTileSide;
  }
}

// What multiply_panels() asks of a type of weights.
template <class Type>
class TileProducts {
  using Traits = TileTraits<Type::kTwoScales, Type::kShifted>;

 public:
  static constexpr int64_t kTileTokens = kTileSide;
  static int64_t token_bytes(int64_t columns) { return quantized_row_bytes(columns); }
  static int64_t panel_floats(int64_t columns) { return ASSAY_ISA::panel_floats(columns); }
  static int64_t partial_floats(int64_t columns) {
    return kPartial + BlockOrder<Traits>::room(columns / 32) * kPlacedFloats;
  }

  // partial[partial_floats()].
  TileProducts(int64_t columns, float* partial)
      : columns_(columns),
        partial_(partial),
        order_(columns / 32, reinterpret_cast<PlacedBlock*>(partial + kPartial)),
        tiles_(Type::kTwoScales) {}

  void fill(const uint8_t* row, size_t stride, int64_t n_rows, float* panel) const {
    const int64_t blocks = columns_ / 32;
    auto* chunk = reinterpret_cast<PanelChunk*>(panel);
    for (int64_t j = 0; j < blocks; j += 8, row += kChunkBytes<Type>, ++chunk) {
      if (n_rows < kTileSide) std::memset(chunk, 0, sizeof(*chunk));
      const int64_t n = blocks - j < 8 ? blocks - j : 8;
      read_panel_chunk<Type, true>(row, stride, n_rows, n, *chunk);
    }
  }

  void multiply(const float* panel, const uint8_t* x, int64_t n_tokens,
                const ProductOut& out) const {
    const auto* first = reinterpret_cast<const PanelChunk*>(panel);
    const TokenTile tile = token_tile(x, kTileSide, columns_);
    multiply_tile<Traits>(
        {bytes_of(&first->codes), bytes_of(&first->scale), tile.codes, bytes_of(tile.scale),
         bytes_of(Traits::kTwoScales ? tile.half_sum : tile.sum)},
        order_, n_tokens, partial_, out);
  }

 private:
  static constexpr int64_t kPartial = 4 * kTileSide * kTileSide;
  static constexpr int64_t kPlacedFloats = sizeof(PlacedBlock) / sizeof(float);

  int64_t columns_;
  float* partial_;
  BlockOrder<Traits> order_;
  TilesInUse tiles_;
};

}  // namespace assay::ASSAY_ISA
