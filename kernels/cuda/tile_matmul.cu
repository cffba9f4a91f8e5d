#include <cstring>

#include "kernels/cuda/int16_tiles.h"
#include "kernels/cuda/int8_tiles.h"
#include "kernels/cuda/ops.h"

// Products of a matrix with several tokens.
namespace assay::ASSAY_DEVICE {
namespace {

// Of the codes of a block, before the scales of all.
constexpr int64_t kInt16Words = kActivationBlock * 2 / sizeof(uint32_t);

// x[token, column] to its place in a tile; 0 where there is no token.
__global__ void arrange_kernel(Global<const float> x, int64_t n_tokens, int64_t columns,
                               int64_t count, Global<float> tiles) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const auto in_tile = static_cast<int>(i % kTile);
  const int64_t column = i / kTile % columns;
  const int64_t tile = i / kTile / columns;
  const int64_t token = tile * kTile + in_tile;
  tiles[(tile * columns + column) * kTile + place_of_token(in_tile)] =
      token < n_tokens ? x[token * columns + column] : 0.0F;
}

// What a thread rounds of tiles: eight neighbouring threads have a block of a token.
struct FourOfTile {
  int four;       // of the block's
  int in_tile;    // the token
  int64_t block;  // of those of all tiles
  int64_t token;
  int64_t column;  // the first

  __device__ FourOfTile(int64_t i, int64_t columns)
      : four(static_cast<int>(i % 8)),
        in_tile(static_cast<int>(i / 8 % kTile)),
        block(i / 8 / kTile),
        token(block / activation_blocks(columns) * kTile + in_tile),
        column(block % activation_blocks(columns) * kActivationBlock + four * 4) {}
};

__global__ void quantize_int16_tiles_kernel(Global<const float> x, int64_t n_tokens,
                                            int64_t columns, int64_t count, Global<uint32_t> codes,
                                            Global<float> scales) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const FourOfTile at(i, columns);
  float4 values[1] = {};
  if (at.token < n_tokens) {
    values[0] = four_of<false>(x.from(at.token * columns), at.column, columns);
  }
  const Int16Fours<1> own(values);
  const int64_t part =
      (at.block * kSide + at.in_tile / 8) * kTileWarp + at.in_tile % 8 * kParts + at.four / 2;
  codes[part * 4 + at.four % 2] = own.codes[0].high;
  codes[part * 4 + 2 + at.four % 2] = own.codes[0].low;
  if (at.four == 0) scales[at.block * kTile + place_of_token(at.in_tile)] = own.scale;
}

// Exact math, and F32. Each thread takes one row's weight, and gives it to those who need it.
template <class Type, class Number>
__device__ void add_products(const Rows& rows, int64_t first_row, Stage& stage, const FloatTiles& x,
                             int64_t tile, int /*n_tokens*/, TileSums<Number>& sums) {
  const ThreadInTile own;
  TileRows<Type> weights(rows, first_row, stage);
  const uint32_t begin = weights.begin_of(own.lane);
  ASSAY_NO_UNROLL
  for (int first = 0; first < rows.columns; first += kChunk<Type>) {
    const int n = rows.columns - first < kChunk<Type> ? rows.columns - first : kChunk<Type>;
    weights.next(n);
    ASSAY_NO_UNROLL
    for (int element = own.warp; element < n; element += kLanes) {
      const uint8_t* block = weights.block(own.lane, begin, first / kChunk<Type>, element);
      Number mine;
      if constexpr (Type::kElements > 1) {
        mine = Type::weight(weights.factor(own.lane, element),
                            Type::code(block, element % Type::kElements));
      } else {
        mine = Type::value(block);
      }
      TokenFloats floats;
      floats.load(x.x, (tile * rows.columns + first + element) * 8, own.lane);
      Number of_tokens[8];
      ASSAY_UNROLL
      for (int token = 0; token < 8; ++token) of_tokens[token] = floats.of[token / 2][token % 2];
      ASSAY_UNROLL
      for (int i = 0; i < kSide; ++i) {
        const Number w = __shfl_sync(0xFFFFFFFFU, mine, own.row(i));
        ASSAY_UNROLL
        for (int token = 0; token < 8; ++token) {
          Number& sum = sums.of[i][token / 2][token % 2];
          sum = add_product(w, of_tokens[token], sum);
        }
      }
    }
  }
}

// Fast math of up to 32 tokens.
template <class Type, class Number>
__device__ void add_products(const Rows& rows, int64_t first_row, Stage& stage,
                             const PackedTokens& x, int64_t /*tile*/, int /*n_tokens*/,
                             TileSums<Number>& sums) {
  Int8Lane<Type> own(rows, first_row, stage, x);
  own.multiply();
  own.store(sums);
}

// Fast math of F16 and BF16.
template <class Type, class Number>
__device__ void add_products(const Rows& rows, int64_t first_row, Stage& /*stage*/,
                             const Int16Tiles& x, int64_t tile, int n_tokens,
                             TileSums<Number>& sums) {
  Int16Lane<Type> own(rows, first_row, x, tile, n_tokens);
  own.multiply();
  own.store(sums);
}

// The sums of the lanes to `out`, by way of the stage, which has room for those of sixteen tokens
// as floats, of eight as doubles. All threads of the block must call it.
template <class Number>
__device__ void store_sums(const Rows& rows, int64_t first_row, int64_t first_token, int n_tokens,
                           const TileSums<Number>& sums, const Stage& stage,
                           const Global<float>& out) {
  constexpr int kRows = 16 / sizeof(Number);  // of which a word has the sums
  constexpr int kWords = kSide / kRows;       // of a thread's sums with a token
  constexpr int kRoom = 4;                    // words of a thread
  constexpr int kTokens = kRoom / kWords;     // each two tokens are one j
  const ThreadInTile own;
  const auto place = [&](int warp, int word) {
    return (warp * kRoom + word) * kTileWarp + own.lane;
  };
  ASSAY_UNROLL
  for (int first = 0; first < kSide; first += kTokens / 2) {
    if (8 * first >= n_tokens) break;
    __syncthreads();  // the stage is no longer read
    ASSAY_UNROLL
    for (int word = 0; word < kRoom; ++word) {
      const int token = word / kWords;
      Number numbers[kRows];
      ASSAY_UNROLL
      for (int r = 0; r < kRows; ++r) {
        numbers[r] = sums.of[word % kWords * kRows + r][first + token / 2][token % 2];
      }
      uint4 bits;
      std::memcpy(&bits, numbers, sizeof(bits));
      stage.words[place(own.warp, word)] = bits;
    }
    __syncthreads();
    // A warp adds up one word of each.
    const int word = own.warp;
    const int token = own.token(first + word / kWords / 2, word / kWords % 2);
    if (word >= kRoom || token >= n_tokens) continue;
    Number lanes[kRows][kLanes];
    ASSAY_UNROLL
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint4 bits = stage.words[place(lane, word)];
      Number numbers[kRows];
      std::memcpy(numbers, &bits, sizeof(bits));
      ASSAY_UNROLL
      for (int r = 0; r < kRows; ++r) lanes[r][lane] = numbers[r];
    }
    ASSAY_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const Number sum = sum_of_lanes(lanes[r]);
      const int64_t row = first_row + own.row(word % kWords * kRows + r);
      if (row >= rows.n_rows) continue;
      out[(first_token + token) * rows.n_rows + row] = with_bias(rows, row, sum);
    }
  }
}

template <class Tiles, int kTypes, class Number>
ASSAY_KERNEL(kTileThreads, 1, tile_kernel, ASSAY_CONSTANT(Rows) rows, Tiles x, int64_t n_tokens,
             Global<float> out) {
  ASSAY_STAGE(stage, kTile, kTile);
  const int64_t tile = blockIdx.x;
  const int64_t first_row = int64_t{blockIdx.y} * kTile;
  const int64_t left = n_tokens - tile * kTile;
  const int count = left < kTile ? static_cast<int>(left) : kTile;
  TileSums<Number> sums = {};
  with_type<kTypes>(rows.type, [&](auto type) {
    add_products<decltype(type)>(rows, first_row, stage, x, tile, count, sums);
  });
  store_sums(rows, first_row, tile * kTile, count, sums, stage, out);
}

}  // namespace

size_t tiles_bytes(int64_t columns, int64_t n_tokens, Rounding rounding) {
  if (rounding == Rounding::kInt8) {
    return static_cast<size_t>(packed_words(n_tokens, columns)) * sizeof(uint4);
  }
  const int64_t tokens = tiles_of(n_tokens) * kTile;
  const int64_t words = rounding == Rounding::kNone
                            ? tokens * columns
                            : tokens * activation_blocks(columns) * (kInt16Words + 1);
  return static_cast<size_t>(words) * sizeof(float);
}

void arrange_tiles(Device& device, const float* x, int64_t columns, int64_t n_tokens,
                   Rounding rounding, void* tiles) {
  const int64_t tokens = tiles_of(n_tokens) * kTile;
  if (rounding == Rounding::kInt8) return pack_tokens(device, x, columns, n_tokens, tiles);
  if (rounding == Rounding::kNone) {
    const int64_t count = tokens * columns;
    ASSAY_LAUNCH(device, one_thread_each(count), arrange_kernel, x, n_tokens, columns, count,
                 static_cast<float*>(tiles));
    return;
  }
  auto* const codes = static_cast<uint32_t*>(tiles);
  const int64_t blocks = tokens * activation_blocks(columns);
  ASSAY_LAUNCH(device, one_thread_each(blocks * 8), quantize_int16_tiles_kernel, x, n_tokens,
               columns, blocks * 8, codes, static_cast<float*>(tiles) + blocks * kInt16Words);
}

// Of F16 and BF16 alone, the tokens are always rounded.
template <int kTypes, class Number = float>
void multiply_tiles(Device& device, const MatmulCall& call, const Vectors& x) {
  const Rows rows = rows_of(call.w, call.bias);
  const LaunchShape shape = {
      {static_cast<unsigned>(tiles_of(x.n_tokens)), blocks_for(rows.n_rows, kTile), 1},
      {kTileThreads, 1, 1},
      0};
  if constexpr (kTypes == kHalfFloats) {
    const int64_t words =
        tiles_of(x.n_tokens) * kTile * activation_blocks(call.w.columns) * kInt16Words;
    const auto* scales = reinterpret_cast<const float4*>(static_cast<const float*>(x.data) + words);
    ASSAY_LAUNCH(device, shape, (tile_kernel<Int16Tiles, kTypes, float>), rows,
                 (Int16Tiles{static_cast<const uint4*>(x.data), scales}), x.n_tokens, call.out);
  } else {
    if constexpr ((kTypes & kPlain) == 0) {
      if (x.rounding == Rounding::kInt8) {
        const PackedTokens tokens = {static_cast<const uint8_t*>(x.data), x.n_tokens};
        ASSAY_LAUNCH(device, shape, (tile_kernel<PackedTokens, kTypes, float>), rows, tokens,
                     x.n_tokens, call.out);
        return;
      }
    }
    const FloatTiles of_floats = {static_cast<const float4*>(x.data)};
    ASSAY_LAUNCH(device, shape, (tile_kernel<FloatTiles, kTypes, Number>), rows, of_floats,
                 x.n_tokens, call.out);
  }
}

void multiply_tiles(Device& device, Math math, const MatmulCall& call, const Vectors& x,
                    void* scratch) {
  if (are_packed(x)) return multiply_packed(device, call, x.data, scratch);
  if (is_coded(call.w.type)) return multiply_tiles<kCoded>(device, call, x);
  if (!is_plain(call.w.type)) return multiply_tiles<kBlocks>(device, call, x);
  if (math == Math::kExact) return multiply_tiles<kPlain, double>(device, call, x);
  if (x.rounding == Rounding::kInt16) return multiply_tiles<kHalfFloats>(device, call, x);
  multiply_tiles<kFloats>(device, call, x);
}

}  // namespace assay::ASSAY_DEVICE
