#include <cstring>

#include "kernels/cuda/int16_tiles.h"
#include "kernels/cuda/ops.h"

// Products of a matrix with several tokens.
namespace assay::ASSAY_DEVICE {
namespace {

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

__global__ void quantize_tiles_kernel(Global<const float> x, int64_t n_tokens, int64_t columns,
                                      int64_t count, Global<uint32_t> codes,
                                      Global<float> factors) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const int64_t n_halves = columns / kHalf;
  const auto in_tile = static_cast<int>(i % kTile);
  const int64_t half = i / kTile % n_halves;
  const int64_t tile = i / kTile / n_halves;
  const int64_t token = tile * kTile + in_tile;
  const QuantizedHalf own = quantize_half(
      [&](int e) { return token < n_tokens ? x[token * columns + half * kHalf + e] : 0.0F; });
  const int64_t first = (tile * n_halves + half) * kTile;
  ASSAY_UNROLL
  for (int t = 0; t < 4; ++t) {
    codes[(first + in_tile % 8 * 4 + t) * 4 + in_tile / 8] = own.codes[t];
  }
  const int64_t pair = first / 2 + in_tile / 8 * 4 + in_tile % 8 / 2;
  factors[pair * 4 + in_tile % 2] = own.scale;
  factors[pair * 4 + 2 + in_tile % 2] = own.sum;
}

// Eight neighbouring threads have a block, four elements each.
__global__ void quantize_int16_tiles_kernel(Global<const float> x, int64_t n_tokens,
                                            int64_t columns, int64_t count, Global<uint32_t> codes,
                                            Global<float> scales) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const int64_t n_blocks = int16_blocks(columns);
  const auto four = static_cast<int>(i % 8);
  const auto in_tile = static_cast<int>(i / 8 % kTile);
  const int64_t block = i / 8 / kTile;  // of those of all tiles
  const int64_t token = block / n_blocks * kTile + in_tile;
  const int64_t first = block % n_blocks * kInt16Block + four * 4;
  const QuantizedFour own = quantize_four([&](int e) {
    return token < n_tokens && first + e < columns ? x[token * columns + first + e] : 0.0F;
  });
  const int64_t part = (block * kSide + in_tile / 8) * kTileWarp + in_tile % 8 * kParts + four / 2;
  codes[part * 4 + four % 2] = own.codes.high;
  codes[part * 4 + 2 + four % 2] = own.codes.low;
  if (four == 0) scales[block * kTile + place_of_token(in_tile)] = own.scale;
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
      const int64_t at = ((tile * rows.columns + first + element) * 4 + own.lane % 4) * 2;
      const float4 low = x.x[at];
      const float4 high = x.x[at + 1];
      const Number of_tokens[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
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

// Codes that are `kOffset` too large, each from 0 to 127, as signed bytes.
template <int kOffset>
__device__ uint32_t signed_bytes(uint32_t codes) {
  if constexpr (kOffset == 0) return codes;
  constexpr uint32_t kEach = 0x01010101U;
  return ((codes | 0x80U * kEach) - static_cast<uint32_t>(kOffset) * kEach) ^ 0x80U * kEach;
}

// Fast math. A warp has one half of each chunk: sixteen products that have one scale.
template <class Type, class Number>
__device__ void add_products(const Rows& rows, int64_t first_row, Stage& stage, const Int8Tiles& x,
                             int64_t tile, int n_tokens, TileSums<Number>& sums) {
  const ThreadInTile own;
  const int half = half_of_lane(own.warp);
  const int n_halves = rows.columns / kHalf;
  const int element = half * kHalf;
  TileRows<Type> weights(rows, first_row, stage);
  uint32_t begins[kSide];
  ASSAY_UNROLL
  for (int i = 0; i < kSide; ++i) begins[i] = weights.begin_of(own.row(i));
  ASSAY_NO_UNROLL
  for (int first = 0; first < rows.columns; first += kChunk<Type>) {
    const int n = rows.columns - first < kChunk<Type> ? rows.columns - first : kChunk<Type>;
    const int64_t at = tile * n_halves + (element < n ? first / kHalf + half : 0);
    const uint4 x_codes = x.codes[at * kTileWarp + own.lane];
    float4 x_factors[kSide];
    ASSAY_UNROLL
    for (int j = 0; j < kSide; ++j) x_factors[j] = x.factors[(at * kSide + j) * 4 + own.lane % 4];
    weights.next(n);
    if (element >= n) continue;
    uint32_t codes[kSide];
    Factor factors[kSide];
    ASSAY_UNROLL
    for (int i = 0; i < kSide; ++i) {
      const uint8_t* block = weights.block(own.row(i), begins[i], first / kChunk<Type>, element);
      codes[i] = signed_bytes<Type::kOffset>(
          Type::four_codes(block, element % Type::kElements + own.lane % 4 * 4));
      factors[i] = weights.factor(own.row(i), element);
      if constexpr (Type::kShift == Shift::kSubtracted) factors[i].shift = -factors[i].shift;
    }
    const uint32_t of_tokens[kSide] = {x_codes.x, x_codes.y, x_codes.z, x_codes.w};
    ASSAY_UNROLL
    for (int j = 0; j < kSide; ++j) {
      if (8 * j >= n_tokens) break;
      const float scales[2] = {x_factors[j].x, x_factors[j].y};
      const float shifts[2] = {x_factors[j].z, x_factors[j].w};
      ASSAY_UNROLL
      for (int i = 0; i < kSide; i += 2) {
        const uint32_t two[2] = {codes[i], codes[i + 1]};
        int32_t dots[4] = {kZeroBits, kZeroBits, kZeroBits, kZeroBits};
        multiply_16x16x8(two, of_tokens[j], dots);
        ASSAY_UNROLL
        for (int d = 0; d < 4; ++d) {
          const Factor& factor = factors[i + d / 2];
          float& sum = sums.of[i + d / 2][j][d % 2];
          sum = fmaf(__int_as_float(dots[d]) - kZero, factor.scale * scales[d % 2], sum);
          if constexpr (Type::kShift != Shift::kNone) {
            sum = fmaf(factor.shift, shifts[d % 2], sum);
          }
        }
      }
    }
  }
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

int64_t tiles_of(int64_t n_tokens) {
  return (n_tokens + kTile - 1) / kTile;
}

// Of tiles of whole numbers the codes come first, then the factors.
struct TileBytes {
  size_t codes;
  size_t factors;
};

TileBytes bytes_of_tiles(int64_t columns, int64_t n_tokens, Rounding rounding) {
  const auto tokens = static_cast<size_t>(tiles_of(n_tokens) * kTile);
  const auto halves = static_cast<size_t>(columns / kHalf);
  const auto blocks = static_cast<size_t>(int16_blocks(columns));
  if (rounding == Rounding::kInt8) {
    return {tokens * halves * kHalf, tokens * halves * 2 * sizeof(float)};
  }
  if (rounding == Rounding::kInt16) {
    return {tokens * blocks * kInt16Block * 2, tokens * blocks * sizeof(float)};
  }
  return {tokens * static_cast<size_t>(columns) * sizeof(float), 0};
}

}  // namespace

size_t tiles_bytes(int64_t columns, int64_t n_tokens, Rounding rounding) {
  const TileBytes bytes = bytes_of_tiles(columns, n_tokens, rounding);
  return bytes.codes + bytes.factors;
}

void arrange_tiles(Device& device, const float* x, int64_t columns, int64_t n_tokens,
                   Rounding rounding, void* tiles) {
  const int64_t tokens = tiles_of(n_tokens) * kTile;
  auto* codes = static_cast<uint8_t*>(tiles);
  auto* words = reinterpret_cast<uint32_t*>(codes);
  auto* factors =
      reinterpret_cast<float*>(codes + bytes_of_tiles(columns, n_tokens, rounding).codes);
  if (rounding == Rounding::kInt8) {
    const int64_t count = tokens * (columns / kHalf);
    ASSAY_LAUNCH(device, one_thread_each(count), quantize_tiles_kernel, x, n_tokens, columns, count,
                 words, factors);
  } else if (rounding == Rounding::kInt16) {
    const int64_t count = tokens * int16_blocks(columns) * 8;
    ASSAY_LAUNCH(device, one_thread_each(count), quantize_int16_tiles_kernel, x, n_tokens, columns,
                 count, words, factors);
  } else {
    const int64_t count = tokens * columns;
    ASSAY_LAUNCH(device, one_thread_each(count), arrange_kernel, x, n_tokens, columns, count,
                 static_cast<float*>(tiles));
  }
}

// Of F16 and BF16 alone, the tokens are always rounded.
template <int kTypes, class Number = float>
void multiply_tiles(Device& device, const MatmulCall& call, const Vectors& x) {
  const Rows rows = rows_of(call.w, call.bias);
  const LaunchShape shape = {
      {static_cast<unsigned>(tiles_of(x.n_tokens)), blocks_for(rows.n_rows, kTile), 1},
      {kTileThreads, 1, 1},
      0};
  const auto* tiles = static_cast<const uint8_t*>(x.data);
  const auto* codes = reinterpret_cast<const uint4*>(tiles);
  const auto* factors = reinterpret_cast<const float4*>(
      tiles + bytes_of_tiles(call.w.columns, x.n_tokens, x.rounding).codes);
  if constexpr (kTypes == kHalfFloats) {
    ASSAY_LAUNCH(device, shape, (tile_kernel<Int16Tiles, kTypes, float>), rows,
                 (Int16Tiles{codes, factors}), x.n_tokens, call.out);
  } else {
    if constexpr ((kTypes & kPlain) == 0) {
      if (x.rounding == Rounding::kInt8) {
        ASSAY_LAUNCH(device, shape, (tile_kernel<Int8Tiles, kTypes, float>), rows,
                     (Int8Tiles{codes, factors}), x.n_tokens, call.out);
        return;
      }
    }
    const FloatTiles of_floats = {reinterpret_cast<const float4*>(tiles)};
    ASSAY_LAUNCH(device, shape, (tile_kernel<FloatTiles, kTypes, Number>), rows, of_floats,
                 x.n_tokens, call.out);
  }
}

void multiply_tiles(Device& device, Math math, const MatmulCall& call, const Vectors& x) {
  if (is_coded(call.w.type)) return multiply_tiles<kCoded>(device, call, x);
  if (!is_plain(call.w.type)) return multiply_tiles<kBlocks>(device, call, x);
  if (math == Math::kExact) return multiply_tiles<kPlain, double>(device, call, x);
  if (x.rounding == Rounding::kInt16) return multiply_tiles<kHalfFloats>(device, call, x);
  multiply_tiles<kFloats>(device, call, x);
}

}  // namespace assay::ASSAY_DEVICE
