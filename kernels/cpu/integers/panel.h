#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/integers/quantize.h"
#include "kernels/cpu/integers/simd.h"
#include "kernels/cpu/integers/weights.h"

// Products of sixteen rows with several tokens at once.
//
// Both sides are sorted so that the innermost loop reads them one after the other: the blocks that
// go into the same lanes of a row's sum (matmul.h) stand together; within a block, four bytes of
// the first row (token), four of the second, and so on. A word of four bytes is what an instruction
// multiplies at once.
namespace assay::ASSAY_ISA {

constexpr int64_t kPanelRows = 16;
constexpr int64_t kWord = 4;                           // bytes
constexpr int64_t kRowWordBytes = kWord * kPanelRows;  // of all rows of a panel

// The place of block `j` among those of a row of `padded` blocks, a multiple of 8.
inline int64_t sorted_block(int64_t j, int64_t padded) {
  return j % 8 * (padded / 8) + j / 8;
}

// Words, scales and lanes of Traits (weights.h, and int16.h for those of 16 bits).
template <class Traits>
constexpr int64_t kScales = Traits::kTwoScales ? 2 : 1;
template <class Traits>
constexpr int64_t kLanes = 8 * kScales<Traits>;

struct RowPanel {
  uint8_t* codes;  // [blocks, words, 16, 4]
  float* scale;    // [blocks, kScales, 16]
  float* shift;    // [blocks, kScales, 16]; kShifted
};

// Of types with activations of 8 bits: room for two scales and shifts a block.
inline int64_t panel_floats(int64_t columns) {
  return padded_blocks(columns) * kPanelRows * (8 + 2 + 2);
}

inline RowPanel row_panel(float* scratch, int64_t columns) {
  const int64_t lanes = padded_blocks(columns) * kPanelRows;
  return {reinterpret_cast<uint8_t*>(scratch), scratch + 8 * lanes, scratch + 10 * lanes};
}

// The tokens of a tile.
struct TokenTile {
  const uint8_t* codes;  // [blocks, words, n, 4]
  const float* scale;    // [blocks, n]
  // Of 8 bits alone, as in QuantizedRow:
  const float* sum;           // [blocks, n]
  const int32_t* total;       // [blocks, n]
  const float* half_sum;      // [blocks, 2, n]
  const int32_t* half_total;  // [blocks, 2, n]
};

// Sixteen rows of 32 bytes at `rows`, `stride` apart: four bytes of each to out[0], the next four
// of each to out[1], and so on.
ASSAY_ALWAYS_INLINE void transpose_rows(const uint8_t* rows, size_t stride,
                                        uint8_t* const (&out)[8]) {
  transpose8(rows, stride, 0, out);
  transpose8(rows + 8 * stride, stride, 32, out);
}

// What is read of a chunk of sixteen rows before it is sorted. Codes as in Chunk, or, where they
// are read as signed bytes, less kOffset.
struct PanelChunk {
  uint8_t codes[8][kPanelRows][32];
  float scale[2][kPanelRows][8];  // the second: kTwoScales
  float shift[2][kPanelRows][8];  // kShifted
};

// The first n blocks of the chunk at `data`, of row `r`.
template <class Type, bool kSigned>
ASSAY_ALWAYS_INLINE void read_panel_row(const uint8_t* data, int64_t n, int64_t r,
                                        PanelChunk& rows) {
  Chunk chunk;
  read_chunk<Type, 8>(data, n, chunk);
#pragma GCC unroll 2
  for (int64_t i = 0; i < kScales<Type>; ++i) {
    store8(rows.scale[i][r], chunk.scale[i]);
    if constexpr (Type::kShifted) store8(rows.shift[i][r], chunk.shift[i]);
  }
#pragma GCC unroll 8
  for (int64_t p = 0; p < 8; ++p) {
    if (p >= n) continue;
    U8x32 codes = chunk.codes[p];
    if constexpr (kSigned) codes = sub(codes, splat_byte(static_cast<int8_t>(Type::kOffset)));
    store_bytes(rows.codes[p][r], codes);
  }
}

// The n blocks at `data` of each of n_rows rows, `stride` bytes apart.
template <class Type, bool kSigned = false>
ASSAY_ALWAYS_INLINE void read_panel_chunk(const uint8_t* data, size_t stride, int64_t n_rows,
                                          int64_t n, PanelChunk& rows) {
  for (int64_t r = 0; r < n_rows; ++r, data += stride) {
    for (int64_t line = 0; line < kChunkBytes<Type>; line += 64) {
      __builtin_prefetch(data + kPanelRows * stride + static_cast<size_t>(line));
    }
    if (n == 8) {
      read_panel_row<Type, kSigned>(data, 8, r, rows);
    } else if constexpr (blocks_of_chunk<Type>() > 1) {
      const LastChunk<Type> last(data, n);
      read_panel_row<Type, kSigned>(last.bytes, n, r, rows);
    }
  }
}

// [kScales, sixteen rows, 8] of the chunk from block `j` to their places.
template <class Traits>
ASSAY_ALWAYS_INLINE void sort_numbers(const float (&rows)[2][kPanelRows][8], int64_t j,
                                      int64_t padded, float* out) {
#pragma GCC unroll 2
  for (int64_t i = 0; i < kScales<Traits>; ++i) {
    uint8_t* places[8];
    for (int64_t k = 0; k < 8; ++k) {
      // With two scales, the first halves of four blocks stand before their last ones.
      const int64_t block = Traits::kTwoScales ? i * 4 + k % 4 : k;
      const int64_t half = Traits::kTwoScales ? k / 4 : 0;
      const int64_t place = sorted_block(j + block, padded) * kScales<Traits> + half;
      places[k] = reinterpret_cast<uint8_t*>(out + place * kPanelRows);
    }
    transpose_rows(reinterpret_cast<const uint8_t*>(rows[i][0]), sizeof(rows[i][0]), places);
  }
}

// Sixteen rows `stride` bytes apart, or the `n_rows` that there are.
template <class Type>
void fill_panel(const uint8_t* row, size_t stride, int64_t n_rows, int64_t columns,
                const RowPanel panel) {
  const int64_t blocks = columns / 32;
  const int64_t padded = padded_blocks(columns);
  PanelChunk rows = {};
  for (int64_t j = 0; j < blocks; j += 8, row += kChunkBytes<Type>) {
    const int64_t n = blocks - j < 8 ? blocks - j : 8;
    read_panel_chunk<Type>(row, stride, n_rows, n, rows);
    for (int64_t p = 0; p < n; ++p) {
      uint8_t* places[8];
      for (int64_t k = 0; k < 8; ++k) {
        places[k] = panel.codes + (sorted_block(j + p, padded) * 8 + k) * kRowWordBytes;
      }
      transpose_rows(rows.codes[p][0], sizeof(rows.codes[p][0]), places);
    }
    sort_numbers<Type>(rows.scale, j, padded, panel.scale);
    if constexpr (Type::kShifted) sort_numbers<Type>(rows.shift, j, padded, panel.shift);
  }
}

// The quantised rows of n tokens; n * quantized_row_bytes() bytes in all.
inline TokenTile token_tile(const uint8_t* bytes, int64_t n, int64_t columns) {
  const int64_t all = padded_blocks(columns) * n;
  const auto* floats = reinterpret_cast<const float*>(bytes + all * 32);
  const auto* ints = reinterpret_cast<const int32_t*>(floats + 4 * all);
  return {bytes, floats, floats + all, ints, floats + 2 * all, ints + all};
}

// Rows of eight words, `stride` bytes apart, of n tokens: word k of each to places[k], one after
// the other.
ASSAY_ALWAYS_INLINE void sort_token_words(const uint8_t* rows, size_t stride, int64_t n,
                                          uint8_t* const (&places)[8]) {
  const auto row = [&](int64_t t) { return rows + static_cast<size_t>(t) * stride; };
  int64_t t = 0;
  for (; t + 8 <= n; t += 8) transpose8(row(t), stride, static_cast<size_t>(kWord * t), places);
  for (; t + 4 <= n; t += 4) transpose4(row(t), stride, static_cast<size_t>(kWord * t), places);
  for (; t < n; ++t) {
    for (int64_t k = 0; k < 8; ++k) {
      std::memcpy(places[k] + kWord * t, row(t) + kWord * k, kWord);
    }
  }
}

// The rows x[n, columns], quantised, as a tile of kPlaces tokens, of which the last are zero, or of
// n if that is 0, at `out`.
template <int64_t kPlaces = 0>
void quantize_tile(const float* x, int64_t n, int64_t columns, uint8_t* out) {
  const int64_t blocks = columns / 32;
  const int64_t padded = padded_blocks(columns);
  const int64_t places_of_word = kPlaces > 0 ? kPlaces : n;
  const int64_t all = padded * places_of_word;
  uint8_t* const floats = out + all * 32;
  uint8_t* const ints = floats + 4 * all * kWord;
  EightBlocks tokens[kPlaces > 0 ? kPlaces : kInt8Tokens] = {};
  for (int64_t j = 0; j < blocks; j += 8) {
    for (int64_t t = 0; t < n; ++t) {
      // The rows are too far apart for the processor to see which values come next.
      const bool same = t + 2 < n;
      const float* soon = x + (same ? t + 2 : t + 2 - n) * columns + 32 * (same ? j : j + 8);
      for (int64_t i = 0; i < 256; i += 16) __builtin_prefetch(soon + i);
      quantize_blocks(x + t * columns + 32 * j, blocks - j, tokens[t]);
    }
    const auto sort = [&](const auto& first, const auto& place_of) {
      uint8_t* places[8];
      for (int64_t k = 0; k < 8; ++k) places[k] = place_of(k);
      sort_token_words(reinterpret_cast<const uint8_t*>(&first), sizeof(EightBlocks),
                       places_of_word, places);
    };
    const auto sort_numbers = [&](const auto& first, uint8_t* to) {
      sort(first,
           [&](int64_t p) { return to + sorted_block(j + p, padded) * places_of_word * kWord; });
    };
    for (int64_t p = 0; p < 8 && j + p < blocks; ++p) {
      const int64_t place = sorted_block(j + p, padded);
      sort(tokens[0].codes[p],
           [&](int64_t k) { return out + (place * 8 + k) * places_of_word * kWord; });
    }
    sort_numbers(tokens[0].scale, floats);
    sort_numbers(tokens[0].sum, floats + all * kWord);
    sort_numbers(tokens[0].total, ints);
    for (int64_t i = 0; i < 2; ++i) {
      const auto half_place_of = [&](uint8_t* to) {
        return [=](int64_t k) {
          return to +
                 (2 * sorted_block(j + 4 * i + k % 4, padded) + k / 4) * places_of_word * kWord;
        };
      };
      sort(tokens[0].half_sum[i], half_place_of(floats + 2 * all * kWord));
      sort(tokens[0].half_total[i], half_place_of(ints + all * kWord));
    }
  }
}

// Minus kOffset * the sum of the codes at `at`, in all lanes.
template <class Traits>
ASSAY_ALWAYS_INLINE I32x16 less_offset(const TokenTile& x, int64_t at) {
  if constexpr (Traits::kOffset == 0) {
    return splat_int(0);
  } else {
    const I32x16 total = splat_int((Traits::kTwoScales ? x.half_total : x.total)[at]);
    return sub(splat_int(0), shift_left<__builtin_ctz(Traits::kOffset)>(total));
  }
}

// The blocks of one lane: the places [first, end).
struct LaneBlocks {
  int64_t first;
  int64_t end;
};

// One lane of sixteen rows with kTokens tokens; with kTwoScales that of half `half` of each block.
template <class Traits, int64_t kTokens>
ASSAY_ALWAYS_INLINE void multiply_lane(const RowPanel& panel, const TokenTile& x,
                                       const LaneBlocks& blocks, int64_t half,
                                       F32x16 (&lanes)[kTokens]) {
  constexpr int64_t kWords = Traits::kWords / kScales<Traits>;
#pragma GCC unroll 16
  for (int64_t t = 0; t < kTokens; ++t) lanes[t] = zero();
  for (int64_t place = blocks.first; place < blocks.end; ++place) {
    const int64_t own = place * kScales<Traits> + half;
    const uint8_t* codes = panel.codes + own * kWords * kRowWordBytes;
    const uint8_t* x_codes = x.codes + own * kWords * kWord * kTokens;
    I32x16 sums[kTokens];
#pragma GCC unroll 16
    for (int64_t t = 0; t < kTokens; ++t) sums[t] = less_offset<Traits>(x, own * kTokens + t);
#pragma GCC unroll 16
    for (int64_t word = 0; word < kWords; ++word) {
#pragma GCC unroll 16
      for (int64_t t = 0; t < kTokens; ++t) {
        sums[t] = Traits::add_products(sums[t], codes + word * kRowWordBytes,
                                       x_codes + kWord * (word * kTokens + t));
      }
    }
    const F32x16 scale = load(panel.scale + own * kPanelRows);
#pragma GCC unroll 16
    for (int64_t t = 0; t < kTokens; ++t) {
      const F32x16 both = mul(scale, splat(x.scale[place * kTokens + t]));
      lanes[t] = fma(to_float(sums[t]), both, lanes[t]);
    }
    if constexpr (Traits::kShifted) {
      const F32x16 shift = load(panel.shift + own * kPanelRows);
      const float* sum = (Traits::kTwoScales ? x.half_sum : x.sum) + own * kTokens;
#pragma GCC unroll 16
      for (int64_t t = 0; t < kTokens; ++t) lanes[t] = fma(shift, splat(sum[t]), lanes[t]);
    }
  }
}

// A lane, or two whose sums are added first: out[kTokens, 16].
template <class Traits, int64_t kTokens, int64_t kTogether>
void multiply_lanes(const RowPanel& panel, const TokenTile& x, const LaneBlocks (&lanes)[kTogether],
                    int64_t half, float* out) {
  F32x16 sums[kTogether][kTokens];
#pragma GCC unroll 2
  for (int64_t i = 0; i < kTogether; ++i) {
    multiply_lane<Traits, kTokens>(panel, x, lanes[i], half, sums[i]);
  }
#pragma GCC unroll 16
  for (int64_t t = 0; t < kTokens; ++t) {
    if constexpr (kTogether == 2) sums[0][t] = add(sums[0][t], sums[1][t]);
    store(out + t * kPanelRows, sums[0][t]);
  }
}

// Where the products of a panel's rows go: `n_rows` of sixteen for each token, which are `stride`
// floats apart.
struct ProductOut {
  float* at;
  int64_t stride;
  int64_t n_rows;
  const float* bias;  // [n_rows], or null
};

// The sums over all lanes of partial[kSums, kTokens, 16], which are those of one lane each, or of
// two, as multiply_tokens() puts them.
template <int64_t kTokens, int64_t kSums>
void store_lane_sums(const float* partial, const ProductOut& out) {
  constexpr int64_t kLane = kTokens * kPanelRows;
  const auto store_each = [&](const auto& put) {
    for (int64_t t = 0; t < kTokens; ++t) {
      const float* at = partial + t * kPanelRows;
      const auto pair = [&](int64_t lane) {
        const F32x16 first = load(at + lane * kLane);
        if constexpr (kSums == 4) return first;
        return add(first, load(at + (lane + 4) * kLane));
      };
      put(out.at + t * out.stride, add(add(pair(0), pair(2)), add(pair(1), pair(3))));
    }
  };
  if (out.n_rows == kPanelRows && out.bias == nullptr) {
    return store_each([](float* to, const F32x16& sums) { store(to, sums); });
  }
  const int64_t n = out.n_rows;
  const F32x16 bias = out.bias == nullptr ? zero() : load_partial(out.bias, n);
  store_each([&](float* to, const F32x16& sums) {
    const F32x16 all = out.bias == nullptr ? sums : add(sums, bias);
    if (n == kPanelRows) {
      store(to, all);
    } else {
      store_partial(to, n, all);
    }
  });
}

// Sixteen rows of so many blocks with n_tokens <= kTokens of a tile. tile(n) is that of n tokens.
// partial[8, kTokens, 16].
template <class Traits, int64_t kTokens, class Tile>
void multiply_tokens(const RowPanel& panel, int64_t blocks, const Tile& tile, int64_t n_tokens,
                     float* partial, const ProductOut& out) {
  if constexpr (kTokens > 0) {
    if (n_tokens < kTokens) {
      return multiply_tokens<Traits, kTokens - 1>(panel, blocks, tile, n_tokens, partial, out);
    }
    const TokenTile x = tile(kTokens);
    const int64_t each = (blocks + 7) / 8;
    const auto lane = [&](int64_t p) {
      return LaneBlocks{p * each, p * each + (blocks - p + 7) / 8};
    };
    constexpr int64_t kSum = kTokens * kPanelRows;
    if constexpr (Traits::kLanesTogether == 2) {
      for (int64_t p = 0; p < 4; ++p) {
        for (int64_t half = 0; half < kScales<Traits>; ++half) {
          multiply_lanes<Traits, kTokens, 2>(panel, x, {lane(p), lane(p + 4)}, half,
                                             partial + (p + 4 * half) * kSum);
        }
      }
    } else {
      static_assert(!Traits::kTwoScales);
      for (int64_t p = 0; p < 8; ++p) {
        multiply_lanes<Traits, kTokens, 1>(panel, x, {lane(p)}, 0, partial + p * kSum);
      }
    }
    store_lane_sums<kTokens, kLanes<Traits> / Traits::kLanesTogether>(partial, out);
  }
}

}  // namespace assay::ASSAY_ISA
