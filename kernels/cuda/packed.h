#pragma once

#include "kernels/cuda/int8.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/tiles.h"

// Products of packed weights with several tokens, in `fast` math, by the tensor cores, whose sums
// of whole numbers are the same in any order. Each of a block's eight warps has one of the eight
// lanes that blocks go into (int8.h), or the two of the sixteen that their halves go into, for all
// products of the block's tile; the lanes are added at the end. So what one token's sum is does not
// depend on the others.
//
// Both sides stand as the threads of a warp pass them to the tensor cores: 64 rows, or tokens, and
// then the next 64; of these the blocks of 32 columns one after the other; and of such a block two
// tiles of 32 rows, or tokens.
namespace assay::ASSAY_DEVICE {

constexpr int kPackedThreads = kBlockLanes * kTileWarp;
constexpr int kPackedTiles = 2;

// Of a block, in words of 16 bytes: the codes of each tile, each thread's first and second word;
// then floats, 32 of a tile, eight words.
constexpr int kTileWords = 2 * kTileWarp;
constexpr int kFloatWords = kTile / 4;
constexpr int kFloatsAt = kPackedTiles * kTileWords;
constexpr int kPackedWords = kFloatsAt + 4 * kPackedTiles * kFloatWords;

// Which of the floats: of rows [tile, 8], word g those of rows g, g + 8, g + 16 and g + 24; of
// tokens [tile, 8] at place_of_token().
enum PackedFloats : int {
  kScales,   // of a block, or of its first half
  kScales2,  // of its second half, where it has an own one
  kShifts,   // what is added for each total of what it is multiplied with
  kShifts2,  // likewise
  kXScales = 0,
  kXSums,      // scale * total of a block
  kXHalfSums,  // of its first half
  kXHalfSums2,
};

constexpr int64_t kPackedBlockBytes = kPackedWords * sizeof(uint4);

// Word `word` of a block.
__device__ inline uint4 packed_word(const Global<const uint8_t>& block, int word) {
  constexpr int64_t kBytes = sizeof(uint4);
  return load_as<uint4>(block.range(word * kBytes, kBytes));
}

// Float `i` of a tile's, in floats from where the block begins.
__host__ __device__ constexpr int float_at(int which, int tile, int i) {
  return 4 * (kFloatsAt + (which * kPackedTiles + tile) * kFloatWords) + i;
}

// Codes that are `kOffset` too large, each from 0 to 127, as signed bytes.
template <int kOffset>
__device__ uint32_t signed_bytes(uint32_t codes) {
  if constexpr (kOffset == 0) return codes;
  constexpr uint32_t kEach = 0x01010101U;
  return ((codes | 0x80U * kEach) - static_cast<uint32_t>(kOffset) * kEach) ^ 0x80U * kEach;
}

// Which products have one scale: those of a block, or of each half of it. kShifted: something is
// added for each of these, too.
template <bool kTwoScales, bool kShifted>
struct PackedForm {
  static constexpr bool kHasShifts = kShifted;
  static constexpr int kUnits = kTwoScales ? 2 : 1;  // of a block, each with a scale
};

// Thread 4g + t of a warp has in its word i (0 or 1) of a tile of rows the bytes 4t to 4t + 3 of
// row g + 16i, of row g + 16i + 8, and then those of both 16 bytes on; of a tile of tokens those of
// token g + 16i, the same 16 bytes on, and then both of token g + 16i + 8. What stands behind the
// last row or token is not used.
struct PackedRows {
  Global<const uint8_t> blocks;  // [tiles / 2, n_blocks, kPackedWords] words
  int n_blocks;
};
struct PackedTokens {
  Global<const uint8_t> blocks;  // likewise
  int64_t n_tokens;
};

// Of the packed rows.
struct PackedOut {
  int64_t n_rows;
  Global<const float> bias;  // [n_rows] or null
  Global<float> out;
  int64_t stride;  // floats from token to token
};

// In words of 16 bytes, of so many rows or tokens.
inline int64_t packed_words(int64_t n, int64_t columns) {
  return (tiles_of(n) + kPackedTiles - 1) / kPackedTiles * activation_blocks(columns) *
         kPackedWords;
}

void pack_tokens(Device& device, const float* x, int64_t columns, int64_t n_tokens, void* tokens);
// Whether weights are packed for these: each is used by more than one tile.
inline bool are_packed(const Vectors& x) {
  return x.rounding == Rounding::kInt8 && x.n_tokens > kTile;
}
// Bytes that multiply_packed() needs.
size_t packed_scratch(const Device& device, const WeightMatrix& w);
void multiply_packed(Device& device, const MatmulCall& call, const void* tokens, void* scratch);

}  // namespace assay::ASSAY_DEVICE
