#include "kernels/cuda/int8.h"
#include "kernels/cuda/ops.h"

namespace assay::ASSAY_DEVICE {
namespace {

constexpr int kTileTokens = 8;
constexpr unsigned kMaxGridY = 65535;

// Where a group's products go: those of row `row` with `count` tokens from `token` on.
struct Tile {
  int64_t row;
  int64_t token;
  int count;
  bool inside;  // all lanes of a warp go on: they read together

  __device__ Tile(const Rows& rows, int64_t n_tokens, int most)
      : row(int64_t{blockIdx.x} * kGroups + threadIdx.x / kLanes),
        token(int64_t{blockIdx.y} * most),
        count(n_tokens - token < most ? static_cast<int>(n_tokens - token) : most),
        inside(row < rows.n_rows) {
    if (!inside) row = rows.n_rows - 1;
  }

  template <int kTokens>
  __device__ void store(const Rows& rows, const float (&sums)[kTokens],
                        const Global<float>& out) const {
    if (!inside || lane_of_group() != 0) return;
    ASSAY_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      if (t >= count) break;
      out[(token + t) * rows.n_rows + row] = rows.bias ? sums[t] + rows.bias[row] : sums[t];
    }
  }
};

// Up to kTokens tokens at once. What is summed for a token does not depend on which others are in
// its tile.
template <int kTokens>
__global__ void matmul_kernel(Rows rows, GlobalVectors x, int64_t n_tokens, Global<float> out) {
  ASSAY_STAGE(stage);
  const Tile tile(rows, n_tokens, kTokens);
  float sums[kTokens];
  const GlobalVectors own = {x.x.from(tile.token * x.stride), x.stride};
  dot_row<kTokens>(rows, tile.row, stage, own, tile.count, sums);
  tile.store(rows, sums, out);
}

template <int kTokens>
__global__ void int8_matmul_kernel(Rows rows, GlobalHalves x, int64_t n_tokens, Global<float> out) {
  ASSAY_STAGE(stage);
  const Tile tile(rows, n_tokens, kTokens);
  float sums[kTokens];
  const GlobalHalves own = {x.halves.from(tile.token * x.stride), x.stride};
  dot_row_int8<kTokens>(rows, tile.row, stage, own, tile.count, sums);
  tile.store(rows, sums, out);
}

__global__ void quantize_kernel(Global<const float> x, int64_t n_halves,
                                Global<QuantizedHalf> halves) {
  const int64_t half = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (half >= n_halves) return;
  halves[half] = quantize_half([&](int i) { return x[half * kHalf + i]; });
}

__global__ void get_rows_kernel(Rows table, Global<const int32_t> ids, Global<float> out) {
  const int64_t column = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (column >= table.columns) return;
  out[int64_t{blockIdx.y} * table.columns + column] = element_of(table, ids[blockIdx.y], column);
}

LaunchShape shape_of(const WeightMatrix& w, int64_t n_tokens) {
  const unsigned tiles = n_tokens == 1 ? 1 : blocks_for(n_tokens, kTileTokens);
  return {{blocks_for(w.rows, kGroups), tiles, 1}, {kThreads, 1, 1}, 0};
}

}  // namespace

void matmul(Device& device, const WeightMatrix& w, const float* bias, const float* x,
            int64_t n_tokens, float* out) {
  const Rows rows = rows_of(w, bias);
  const GlobalVectors vectors = {x, w.columns};
  if (n_tokens == 1) {
    ASSAY_LAUNCH(device, shape_of(w, n_tokens), (matmul_kernel<1>), rows, vectors, n_tokens, out);
  } else {
    ASSAY_LAUNCH(device, shape_of(w, n_tokens), (matmul_kernel<kTileTokens>), rows, vectors,
                 n_tokens, out);
  }
}

size_t int8_scratch(const WeightMatrix& w, int64_t n_tokens) {
  return static_cast<size_t>(n_tokens * w.columns / kHalf) * sizeof(QuantizedHalf);
}

void int8_matmul(Device& device, const WeightMatrix& w, const float* bias, const float* x,
                 int64_t n_tokens, void* scratch, float* out) {
  const int64_t n_halves = n_tokens * w.columns / kHalf;
  auto* halves = static_cast<QuantizedHalf*>(scratch);
  ASSAY_LAUNCH(device, (LaunchShape{{blocks_for(n_halves, kThreads), 1, 1}, {kThreads, 1, 1}, 0}),
               quantize_kernel, x, n_halves, halves);
  const Rows rows = rows_of(w, bias);
  const GlobalHalves vectors = {halves, w.columns / kHalf};
  if (n_tokens == 1) {
    ASSAY_LAUNCH(device, shape_of(w, n_tokens), (int8_matmul_kernel<1>), rows, vectors, n_tokens,
                 out);
  } else {
    ASSAY_LAUNCH(device, shape_of(w, n_tokens), (int8_matmul_kernel<kTileTokens>), rows, vectors,
                 n_tokens, out);
  }
}

void get_rows(Device& device, const WeightMatrix& table, const int32_t* ids, int64_t n_ids,
              float* out) {
  for (int64_t first = 0; first < n_ids; first += kMaxGridY) {
    const auto rows = static_cast<unsigned>(n_ids - first < kMaxGridY ? n_ids - first : kMaxGridY);
    const unsigned blocks = blocks_for(table.columns, kThreads);
    ASSAY_LAUNCH(device, (LaunchShape{{blocks, rows, 1}, {kThreads, 1, 1}, 0}), get_rows_kernel,
                 rows_of(table, nullptr), ids + first, out + first * table.columns);
  }
}

}  // namespace assay::ASSAY_DEVICE
