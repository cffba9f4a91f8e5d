#pragma once

#include "kernels/cuda/packed_blocks.h"

namespace assay::ASSAY_DEVICE {

// Words of shared memory that the lanes of some sums pass through.
constexpr int kSumWords = kBlockLanes * kBlockLanes * kTileWarp;

// A warp's lane of kRowTiles tiles of rows and kTokenTiles tiles of tokens, of which a thread has
// what ThreadInTile says.
template <class Form, int kRowTiles, int kTokenTiles>
class PackedLane {
 public:
  explicit __device__ PackedLane(int64_t n_tokens) : n_tokens_(n_tokens) {}

  __device__ static int64_t first_row_tile() { return int64_t{blockIdx.y} * kRowTiles; }

  __device__ static int64_t first_token_tile() { return int64_t{blockIdx.x} * kTokenTiles; }

  // Rows and tokens from these tiles on, of so many blocks each.
  template <class RowBlocks, class TokenBlocks>
  __device__ void multiply(RowBlocks& rows, TokenBlocks& x, int n_blocks) {
    if (own_.warp >= n_blocks) return;
    rows.request(own_.warp);
    x.request(own_.warp);
    ASSAY_NO_UNROLL
    for (int block = own_.warp; block < n_blocks; block += kBlockLanes) {
      close_copies();
      wait_for_copies<0>();
      __syncwarp();  // all of the block has come, and the one before it is no longer read
      rows.take();
      x.take();
      rows.request(block + kBlockLanes);
      x.request(block + kBlockLanes);
      add_block(rows, x);
    }
  }

  // By way of words[kSumWords]. All threads of the block must call it.
  __device__ void store(const Shared<uint4>& words, const PackedOut& out) const {
    constexpr int kAtOnce = kBlockLanes / kUnits;
    const auto place = [&](int warp, int word, int unit) {
      return ((warp * kAtOnce + word) * kUnits + unit) * kTileWarp + own_.lane;
    };
    ASSAY_UNROLL
    for (int first = 0; first < kWords; first += kAtOnce) {
      __syncthreads();  // what stands there is no longer read
      ASSAY_UNROLL
      for (int word = 0; word < kAtOnce; ++word) {
        ASSAY_UNROLL
        for (int unit = 0; unit < kUnits; ++unit) {
          words[place(own_.warp, word, unit)] = bits_of(sums_of(Word(first + word), unit));
        }
      }
      __syncthreads();
      // A warp adds up one word of each.
      if (own_.warp >= kAtOnce) continue;
      float lanes[kSide][kBlockLanes * kUnits];
      ASSAY_UNROLL
      for (int warp = 0; warp < kBlockLanes; ++warp) {
        ASSAY_UNROLL
        for (int unit = 0; unit < kUnits; ++unit) {
          const uint4 bits = words[place(warp, own_.warp, unit)];
          const int lane = lane_of(warp, unit);
          lanes[0][lane] = float_from_bits(bits.x);
          lanes[1][lane] = float_from_bits(bits.y);
          lanes[2][lane] = float_from_bits(bits.z);
          lanes[3][lane] = float_from_bits(bits.w);
        }
      }
      const Word word(first + own_.warp);
      const int64_t token =
          (first_token_tile() + word.token_tile) * kTile + own_.token(word.j, word.k);
      if (token >= n_tokens_) continue;
      ASSAY_UNROLL
      for (int i = 0; i < kSide; ++i) {
        const int64_t row = (first_row_tile() + word.row_tile) * kTile + own_.row(i);
        if (row >= out.n_rows) continue;
        const float sum = sum_of_lanes(lanes[i]);
        out.out[token * out.stride + row] = out.bias ? sum + out.bias[row] : sum;
      }
    }
  }

 private:
  static constexpr int kUnits = Form::kUnits;
  static constexpr int kWords = kRowTiles * kTokenTiles * kSide * 2;

  // Of a thread's sums, those of its four rows of a tile with one token.
  struct Word {
    int row_tile;
    int token_tile;
    int j;
    int k;
    __device__ explicit Word(int word)
        : row_tile(word / (kTokenTiles * kSide * 2)),
          token_tile(word / (kSide * 2) % kTokenTiles),
          j(word / 2 % kSide),
          k(word % 2) {}
  };
  struct FourSums {
    float of[kSide];
  };

  // Of sixteen lanes, half h of block j goes into lane j / 4 * 8 + h * 4 + j % 4.
  __device__ static constexpr int lane_of(int block, int unit) {
    return kUnits == 1 ? block : block / 4 * 8 + unit * 4 + block % 4;
  }

  __device__ const FourSums& sums_of(const Word& word, int unit) const {
    return sums_[unit][word.row_tile][word.token_tile][word.j][word.k];
  }
  __device__ static uint4 bits_of(const FourSums& sums) {
    return {float_bits(sums.of[0]), float_bits(sums.of[1]), float_bits(sums.of[2]),
            float_bits(sums.of[3])};
  }

  template <class RowBlocks, class TokenBlocks>
  __device__ void add_block(const RowBlocks& row_blocks, const TokenBlocks& x) {
    BlockOfRows<Form> rows[kRowTiles];
    ASSAY_UNROLL
    for (int r = 0; r < kRowTiles; ++r) row_blocks.load(r, rows[r]);
    ASSAY_UNROLL
    for (int t = 0; t < kTokenTiles; ++t) {
      BlockOfTokens<Form> tokens;
      x.load(t, tokens);
      ASSAY_UNROLL
      for (int j = 0; j < kSide; ++j) {
        ASSAY_UNROLL
        for (int r = 0; r < kRowTiles; ++r) {
          ASSAY_UNROLL
          for (int unit = 0; unit < kUnits; ++unit) {
            add_products(rows[r], tokens, unit, j, sums_[unit][r][t][j]);
          }
        }
      }
    }
  }

  // Those of the four rows with the two tokens j.
  __device__ static void add_products(const BlockOfRows<Form>& rows,
                                      const BlockOfTokens<Form>& tokens, int unit, int j,
                                      FourSums (&sums)[2]) {
    ASSAY_UNROLL
    for (int i = 0; i < 2; ++i) {
      const uint32_t(&codes)[4] = rows.codes[i].of;
      const uint32_t(&x)[4] = tokens.codes[j / 2].of;
      int32_t dots[4];  // kZeroBits and the products of row 2i or 2i + 1 with either token
      if constexpr (kUnits == 1) {
        multiply_16x32x8(codes, {x[j % 2 * 2], x[j % 2 * 2 + 1]}, kZeroBits, dots);
      } else {
        multiply_16x16x8({codes[2 * unit], codes[2 * unit + 1]}, x[j % 2 * 2 + unit], kZeroBits,
                         dots);
      }
      ASSAY_UNROLL
      for (int d = 0; d < 4; ++d) {
        const int row = 2 * i + d / 2;
        const int token = j % 2 * 2 + d % 2;  // of four
        float& sum = sums[d % 2].of[row];
        sum = fmaf(__int_as_float(dots[d]) - kZero,
                   rows.scales[unit].of[row] * tokens.scales[j / 2].of[token], sum);
        if constexpr (Form::kHasShifts) {
          sum = fmaf(rows.shifts[unit].of[row], tokens.sums[unit][j / 2].of[token], sum);
        }
      }
    }
  }

  const ThreadInTile own_;
  int64_t n_tokens_;
  FourSums sums_[kUnits][kRowTiles][kTokenTiles][kSide][2] = {};  // [..][j][k]
};

}  // namespace assay::ASSAY_DEVICE
