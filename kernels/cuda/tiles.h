#pragma once

#include "kernels/cuda/products.h"

// Products of a matrix with several tokens, by tiles of 32 rows and 32 tokens. A block computes a
// tile. Each of its sixteen warps is one of the sixteen lanes of a dot product (lanes.h) for all
// products of the tile, or of eight for half of them, so that what one token's sum is does not
// depend on the others; the lanes are added at the end. The rows go through the stage, as with one
// token: group r of the block stages row r, and all warps read it. In `fast` math, those that are
// stored in blocks are packed for more than 32 tokens (packed.h).
namespace assay::ASSAY_DEVICE {

constexpr int kTile = 32;
constexpr int kTileThreads = kTile * kLanes;
constexpr int kTileWarp = 32;
constexpr int kSide = 4;  // of the products of a thread

// Of the tile, thread 4g + t of a warp has the products of rows g + 8i with tokens 8j + 2t + k, for
// i and j in [0, 4), k in [0, 2), as the matrix instruction has them.
struct ThreadInTile {
  int warp;
  int lane;
  __device__ ThreadInTile()
      : warp(static_cast<int>(threadIdx.x) / kTileWarp),
        lane(static_cast<int>(threadIdx.x) % kTileWarp) {}
  __device__ int row(int i) const { return lane / 4 + 8 * i; }
  __device__ int token(int j, int k) const { return 8 * j + lane % 4 * 2 + k; }
};

template <class Number, int kRowsOfThread = kSide>
struct TileSums {
  Number of[kRowsOfThread][kSide][2];  // [i][j][k]
};

// The sums of a warp that has only half of the rows, the first or the last, to their places; the
// others stay 0. So eight lanes are the sixteen: those of the first half's warps and of the last's.
__device__ inline void store_half(int half, const TileSums<float, kSide / 2>& of_half,
                                  TileSums<float>& sums) {
  ASSAY_UNROLL
  for (int i = 0; i < kSide; ++i) {
    if (i / (kSide / 2) != half) continue;
    ASSAY_UNROLL
    for (int j = 0; j < kSide; ++j) {
      sums.of[i][j][0] = of_half.of[i % (kSide / 2)][j][0];
      sums.of[i][j][1] = of_half.of[i % (kSide / 2)][j][1];
    }
  }
}

// The tokens of a tile, column by column, at place_of_token().
struct FloatTiles {
  Global<const float4> x;  // [tiles, columns, 8]
};

// The tokens of a tile as whole numbers of 14 bits (int16.h), block by block.
struct Int16Tiles {
  // [tiles, blocks, 4, 32]: for thread 4g + t of a warp part t of tokens g, g + 8, g + 16, g + 24.
  Global<const uint4> codes;
  Global<const float4> scales;  // [tiles, blocks, 8]: one for each token, at place_of_token()
};

// Where token `token` of a tile is among 32 floats: those of the tokens whose products thread
// 4g + t of a warp has are words t and t + 4 of eight, each in the order of j and k.
__device__ inline int place_of_token(int token) {
  return token / 16 * 16 + token % 8 / 2 * 4 + token / 8 % 2 * 2 + token % 2;
}

// Those words of the eight from `first` on.
struct TokenFloats {
  float of[kSide][2];  // [j][k]

  __device__ void load(const Global<const float4>& words, int64_t first, int thread) {
    ASSAY_UNROLL
    for (int i = 0; i < 2; ++i) {
      const float4 four = words[first + thread % 4 + 4 * i];
      of[2 * i][0] = four.x;
      of[2 * i][1] = four.y;
      of[2 * i + 1][0] = four.z;
      of[2 * i + 1][1] = four.w;
    }
  }
};

inline int64_t tiles_of(int64_t n) {
  return (n + kTile - 1) / kTile;
}

// The rows of a tile on their way through the stage.
template <class Type>
class TileRows {
 public:
  __device__ TileRows(const Rows& rows, int64_t first_row, Stage& stage)
      : rows_(rows),
        first_row_(first_row),
        stage_(stage),
        reader_(rows, row_of(static_cast<int>(threadIdx.x) / kLanes), stage) {}

  // Stages the next chunk, of n elements. All threads of the block must call it.
  __device__ void next(int n) {
    [[maybe_unused]] const uint8_t* own = reader_.await();
    turn_ ^= 1;
    if constexpr (Type::kElements > 1) reader_.share_factors(own, n, turn_);
    __syncthreads();  // no warp still reads the chunk before this one
    reader_.request_another();
  }

  // By how many bytes a row begins after a multiple of 16.
  __device__ uint32_t begin_of(int row) const {
    return static_cast<uint32_t>(row_of(row) * rows_.stride % 16);
  }

  // Of row `row`, which begins at `begin`: the block of element `element` of chunk `chunk`.
  __device__ const uint8_t* block(int row, uint32_t begin, uint32_t chunk, uint32_t element) const {
    const uint32_t at =
        (begin + chunk * (kChunkBytes<Type> % 16)) % 16 + element / Type::kElements * Type::kBytes;
    const int word = row * kGroupWords + reader_.slot() * kChunkWords<Type>;
    const uint32_t n_words = (at % 16 + Type::kBytes + 15) / 16;
    return reinterpret_cast<const uint8_t*>(range_of(stage_.words, word + at / 16, n_words)) +
           at % 16;
  }

  __device__ Factor factor(int row, int element) const {
    return stage_.factors[row * kGroupFactors + turn_ * kLanes + element / Type::kGroup];
  }

 private:
  // Those after the last are the last once more.
  __device__ int64_t row_of(int row) const {
    const int64_t all = rows_.n_rows;
    return first_row_ + row < all ? first_row_ + row : all - 1;
  }

  const Rows& rows_;
  int64_t first_row_;
  Stage& stage_;
  RowReader<Type, kLanes> reader_;
  int turn_ = 1;
};

}  // namespace assay::ASSAY_DEVICE
