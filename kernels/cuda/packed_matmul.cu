#include <algorithm>

#include "kernels/cuda/ops.h"
#include "kernels/cuda/packed_lane.h"

// Products of a matrix that is stored in blocks with several tokens, in `fast` math. The weights
// are packed first, as many rows at a time as stay in the second-level cache, so that one kernel
// multiplies those of all types.
namespace assay::ASSAY_DEVICE {
namespace {

constexpr int kPackThreads = 256;

// A tile of rows as they are stored, from row `first_row` on; those behind the last are the last
// once more. load_codes() and factor() are of block `block`.
template <class Type>
class StoredRows {
 public:
  __device__ StoredRows(const Rows& rows, int64_t first_row)
      : rows_{row_at(rows, first_row, own_.row(0)), row_at(rows, first_row, own_.row(1)),
              row_at(rows, first_row, own_.row(2)), row_at(rows, first_row, own_.row(3))},
        of_factor_(row_at(rows, first_row, own_.row(own_.lane % 4))) {}

  // The thread's word `i`, as packed rows have it.
  __device__ void load_codes(int block, int i, FourWords& codes) const {
    const int element = block * kActivationBlock + own_.lane % 4 * 4;
    codes.of[0] = codes_at(rows_[2 * i], element);
    codes.of[1] = codes_at(rows_[2 * i + 1], element);
    codes.of[2] = codes_at(rows_[2 * i], element + kHalf);
    codes.of[3] = codes_at(rows_[2 * i + 1], element + kHalf);
  }

  // Of thread 4g + t that of row g + 8t: the scale of a unit, and what is added for each total of
  // what it is multiplied with.
  __device__ Factor factor(int block, int unit) const {
    const int element = block * kActivationBlock + unit * kHalf;
    const uint32_t in_block = static_cast<uint32_t>(element) % Type::kElements;
    Factor factor = Type::factor(stored_at(of_factor_, element), in_block / Type::kGroup);
    if constexpr (Type::kShift == Shift::kSubtracted) factor.shift = -factor.shift;
    return factor;
  }

 private:
  using Row = Global<const uint8_t>;

  __device__ static Row row_at(const Rows& rows, int64_t first_row, int row) {
    const int64_t own = first_row + row < rows.n_rows ? first_row + row : rows.n_rows - 1;
    return rows.data.from(own * rows.stride);
  }
  __device__ static const uint8_t* stored_at(const Row& row, int element) {
    return row.range(element / Type::kElements * Type::kBytes, Type::kBytes);
  }
  __device__ static uint32_t codes_at(const Row& row, int element) {
    const uint32_t in_block = static_cast<uint32_t>(element) % Type::kElements;
    return signed_bytes<Type::kOffset>(Type::four_codes(stored_at(row, element), in_block));
  }

  const ThreadInTile own_;
  Row rows_[kSide];
  Row of_factor_;
};

// Packs tiles 2 * blockIdx.y and 2 * blockIdx.y + 1 of those from row first_row on. Each thread has
// a word of codes, and some a scale and a shift.
template <int kTypes>
ASSAY_KERNEL(kPackThreads, 1, pack_kernel, ASSAY_CONSTANT(Rows) rows, int64_t first_row,
             Global<uint4> words, Global<float> floats) {
  const int n_blocks = rows.columns / kActivationBlock;
  const auto own = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int block = own / kFloatsAt;
  if (block >= n_blocks) return;
  const int tile = own / kTileWords % kPackedTiles;
  const int i = own / kTileWarp % 2;
  const int64_t at = (int64_t{blockIdx.y} * n_blocks + block) * kPackedWords;
  with_type<kTypes>(rows.type, [&](auto type) {
    using Type = decltype(type);
    const int64_t row = first_row + (int64_t{blockIdx.y} * kPackedTiles + tile) * kTile;
    FourWords codes;
    StoredRows<Type>(rows, row + i * (kTile / 2)).load_codes(block, 0, codes);
    words[at + own % kFloatsAt] = {codes.of[0], codes.of[1], codes.of[2], codes.of[3]};
    if (!Type::kTwoScales && i == 1) return;
    const Factor factor = StoredRows<Type>(rows, row).factor(block, i);
    const int lane = ThreadInTile().lane;
    floats[4 * at + float_at(kScales + i, tile, lane)] = factor.scale;
    if constexpr (Type::kShift != Shift::kNone) {
      floats[4 * at + float_at(kShifts + i, tile, lane)] = factor.shift;
    }
  });
}

// A thread rounds four neighbouring elements, eight of them a block of a token; behind the last
// token zeros.
ASSAY_KERNEL(kPackThreads, 1, pack_tokens_kernel, Global<const float> x, int64_t n_tokens,
             int columns, Global<uint32_t> words, Global<float> floats) {
  const int n_blocks = columns / kActivationBlock;
  const auto own = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int four = own % 8;
  const int in_tile = own / 8 % kTile;
  const int tile = own / 8 / kTile % kPackedTiles;
  const int block = own / 8 / kTile / kPackedTiles;
  const int64_t token = (int64_t{blockIdx.y} * kPackedTiles + tile) * kTile + in_tile;
  if (block >= n_blocks) return;
  float4 values[1] = {};
  if (token < n_tokens) {
    values[0] = load_from<float4>(x, token * columns + block * kActivationBlock + 4 * four);
  }
  const Int8Fours<1> rounded(values);
  const int64_t at = (int64_t{blockIdx.y} * n_blocks + block) * kPackedWords * 4;
  const int half = four / 4;
  const int thread = in_tile % 8 * 4 + four % 4;
  const int word = tile * kTileWords + in_tile / 16 * kTileWarp + thread;
  words[at + 4 * word + in_tile / 8 % 2 * 2 + half] = rounded.codes[0];
  const int place = place_of_token(in_tile);
  if (four % 4 == 0) {
    floats[at + float_at(kXHalfSums + half, tile, place)] =
        rounded.scale * static_cast<float>(rounded.total_of_half);
  }
  if (four != 0) return;
  floats[at + float_at(kXScales, tile, place)] = rounded.scale;
  floats[at + float_at(kXSums, tile, place)] =
      rounded.scale * static_cast<float>(rounded.total_of_block);
}

// The words of a warp's blocks of tokens stand behind those of its rows.
template <class RowBlocks, class TokenBlocks>
constexpr int kWarpWords = RowBlocks::kWarpWords + TokenBlocks::kWarpWords;

// In shared memory, which later has sums.
template <class RowBlocks, class TokenBlocks>
constexpr size_t kPackedBytes = std::max(kSumWords,
                                         kBlockLanes* kWarpWords<RowBlocks, TokenBlocks>) *
                                sizeof(uint4);

template <class Form, int kTiles>
using RowBlocksOf = PackedBlocks<Form, FloatsOfRows<Form>, kTiles>;
template <class Form, int kTiles>
using TokenBlocksOf = PackedBlocks<Form, FloatsOfTokens<Form>, kTiles>;

// kRowTiles times 32 rows and kTokenTiles times 32 tokens are a block's.
template <class Form, int kRowTiles, int kTokenTiles>
ASSAY_KERNEL(kPackedThreads, (kRowTiles * kTokenTiles == 1 ? 2 : 1), packed_kernel,
             ASSAY_CONSTANT(PackedRows) rows, ASSAY_CONSTANT(PackedTokens) x,
             ASSAY_CONSTANT(PackedOut) out) {
  using RowBlocks = RowBlocksOf<Form, kRowTiles>;
  using TokenBlocks = TokenBlocksOf<Form, kTokenTiles>;
  ASSAY_DYNAMIC_SHARED(uint4, dynamic);
  const Shared<uint4> words = dynamic;
  PackedLane<Form, kRowTiles, kTokenTiles> lane(x.n_tokens);
  const int room = ThreadInTile().warp * kWarpWords<RowBlocks, TokenBlocks>;
  RowBlocks of_rows(rows.blocks, lane.first_row_tile(), rows.n_blocks, words, room);
  TokenBlocks of_tokens(x.blocks, lane.first_token_tile(), rows.n_blocks, words,
                        room + RowBlocks::kWarpWords);
  lane.multiply(of_rows, of_tokens, rows.n_blocks);
  lane.store(words, out);
}

struct Scaling {
  bool has_two;  // scales for a block of 32
  bool has_shifts;
};

constexpr Scaling scaling_of(TensorType type) {
  switch (type) {
#define ASSAY_CASE(name, Type) \
  case TensorType::k##name:    \
    return {Type::kTwoScales, Type::kShift != Shift::kNone};
#define ASSAY_BLOCK_CASE(name) ASSAY_CASE(name, name)
#define ASSAY_CODED_CASE(name) ASSAY_CASE(name, Coded<coded::name>)
    ASSAY_BLOCK_TYPES(ASSAY_BLOCK_CASE)
    ASSAY_CODED_TYPES(ASSAY_CODED_CASE)
#undef ASSAY_CODED_CASE
#undef ASSAY_BLOCK_CASE
#undef ASSAY_CASE
    default:
      return {};
  }
}

// As many rows as half of the second-level cache holds once they are packed.
int64_t rows_at_once(const Device& device, const WeightMatrix& w) {
  constexpr int64_t kRows = kPackedTiles * kTile;
  const auto bytes = packed_words(kRows, w.columns) * static_cast<int64_t>(sizeof(uint4));
  const int64_t most = device.cache_bytes() / 2 / bytes * kRows;
  return most < kRows ? kRows : most < w.rows ? most : w.rows;
}

struct Product {
  PackedRows rows;
  PackedTokens x;
  PackedOut out;

  template <int kTiles>
  unsigned row_blocks() const {
    return blocks_for(out.n_rows, int64_t{kTiles} * kTile);
  }
  template <int kTiles>
  unsigned token_blocks() const {
    return blocks_for(x.n_tokens, int64_t{kTiles} * kTile);
  }
};

template <class Form, int kRowTiles, int kTokenTiles>
void launch(Device& device, const Product& product) {
  const LaunchShape shape = {
      {product.token_blocks<kTokenTiles>(), product.row_blocks<kRowTiles>(), 1},
      {kPackedThreads, 1, 1},
      kPackedBytes<RowBlocksOf<Form, kRowTiles>, TokenBlocksOf<Form, kTokenTiles>>};
  ASSAY_LAUNCH(device, shape, (packed_kernel<Form, kRowTiles, kTokenTiles>), product.rows,
               product.x, product.out);
}

// By blocks of kRowTiles x kTokenTiles tiles if there are enough of them for all multiprocessors,
// else by blocks of one tile.
template <class Form, int kRowTiles, int kTokenTiles>
void multiply_in_form(Device& device, const Product& product) {
  const unsigned blocks = product.row_blocks<kRowTiles>() * product.token_blocks<kTokenTiles>();
  if (blocks < device.multiprocessors()) return launch<Form, 1, 1>(device, product);
  launch<Form, kRowTiles, kTokenTiles>(device, product);
}

void multiply(Device& device, TensorType type, const Product& product) {
  const Scaling scaling = scaling_of(type);
  if (scaling.has_two && scaling.has_shifts) {
    return multiply_in_form<PackedForm<true, true>, 1, 2>(device, product);
  }
  if (scaling.has_two) return multiply_in_form<PackedForm<true, false>, 1, 2>(device, product);
  if (scaling.has_shifts) return multiply_in_form<PackedForm<false, true>, 2, 2>(device, product);
  multiply_in_form<PackedForm<false, false>, 2, 2>(device, product);
}

}  // namespace

size_t packed_scratch(const Device& device, const WeightMatrix& w) {
  return static_cast<size_t>(packed_words(rows_at_once(device, w), w.columns)) * sizeof(uint4);
}

void pack_tokens(Device& device, const float* x, int64_t columns, int64_t n_tokens, void* tokens) {
  const LaunchShape shape = {{blocks_for(columns / 4 * kTile * kPackedTiles, kPackThreads),
                              blocks_for(n_tokens, kPackedTiles * kTile), 1},
                             {kPackThreads, 1, 1},
                             0};
  ASSAY_LAUNCH(device, shape, pack_tokens_kernel, x, n_tokens, static_cast<int>(columns),
               static_cast<uint32_t*>(tokens), static_cast<float*>(tokens));
}

void multiply_packed(Device& device, const MatmulCall& call, const void* tokens, void* scratch) {
  const WeightMatrix& w = call.w;
  const Rows rows = rows_of(w, nullptr);
  const PackedTokens x = {static_cast<const uint8_t*>(tokens), call.n_tokens};
  auto* const packed = static_cast<uint4*>(scratch);
  auto* const floats = static_cast<float*>(scratch);
  const int n_blocks = rows.columns / kActivationBlock;
  const int64_t at_once = rows_at_once(device, w);
  for (int64_t first = 0; first < w.rows; first += at_once) {
    const int64_t n_rows = w.rows - first < at_once ? w.rows - first : at_once;
    const LaunchShape shape = {{blocks_for(int64_t{n_blocks} * kFloatsAt, kPackThreads),
                                blocks_for(n_rows, kPackedTiles * kTile), 1},
                               {kPackThreads, 1, 1},
                               0};
    if (is_coded(w.type)) {
      ASSAY_LAUNCH(device, shape, (pack_kernel<kCoded>), rows, first, packed, floats);
    } else {
      ASSAY_LAUNCH(device, shape, (pack_kernel<kBlocks>), rows, first, packed, floats);
    }
    const float* bias = call.bias == nullptr ? nullptr : call.bias + first;
    multiply(device, w.type,
             {{static_cast<const uint8_t*>(scratch), n_blocks},
              x,
              {n_rows, bias, call.out + first, w.rows}});
  }
}

}  // namespace assay::ASSAY_DEVICE
