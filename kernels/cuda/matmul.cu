#include "kernels/cuda/lanes.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/weights.h"

namespace assay::ASSAY_DEVICE {
namespace {

constexpr int kThreads = 256;
constexpr int kRowsPerBlock = kThreads / kLanes;
constexpr int kTileTokens = 8;
constexpr unsigned kMaxGridY = 65535;

struct Product {
  Global<const uint8_t> w;
  int64_t row_stride;  // bytes
  int64_t rows;
  int64_t columns;
  Global<const float> bias;
  Global<const float> x;
  int64_t n_tokens;
  Global<float> out;
};

// sums[t] += w[row, first + i] * x[token + t, first + i] for the lane's elements of one step.
template <class Type, int kTokens>
__device__ void multiply_step(const Product& p, int64_t row, int64_t first, int64_t token,
                              int n_tokens, float (&sums)[kTokens]) {
  constexpr int kStep = Type::kElements > kLanes ? Type::kElements : kLanes;
  const int lane = lane_of_group();
  const uint8_t* block = nullptr;
  if constexpr (Type::kElements > 1) {
    const int64_t offset = row * p.row_stride + first / Type::kElements * Type::kBytes;
    block = p.w.range(offset, Type::kBytes);
  } else {
    if (first + lane >= p.columns) return;
    block = p.w.range(row * p.row_stride + (first + lane) * Type::kBytes, Type::kBytes);
  }
  // All of a K type's 16 parts at once would take more registers than there are.
  ASSAY_UNROLL_BY_2
  for (int i = lane; i < kStep; i += kLanes) {
    const float w = Type::value(block, i);
    ASSAY_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      if (t < n_tokens) sums[t] = fmaf(w, p.x[(token + t) * p.columns + first + i], sums[t]);
    }
  }
}

// A group of 16 lanes computes one row's products with up to kTokens tokens. What is summed for a
// token does not depend on which others are in its tile.
template <class Type, int kTokens>
__global__ void matmul_kernel(Product p) {
  const int64_t row = int64_t{blockIdx.x} * kRowsPerBlock + threadIdx.x / kLanes;
  const int64_t token = int64_t{blockIdx.y} * kTokens;
  if (row >= p.rows) return;  // the whole group
  const int64_t left = p.n_tokens - token;
  const int n_tokens = left < kTokens ? static_cast<int>(left) : kTokens;
  float sums[kTokens] = {};
  constexpr int kStep = Type::kElements > kLanes ? Type::kElements : kLanes;
  for (int64_t first = 0; first < p.columns; first += kStep) {
    multiply_step<Type, kTokens>(p, row, first, token, n_tokens, sums);
  }
  ASSAY_UNROLL
  for (int t = 0; t < kTokens; ++t) {
    if (t >= n_tokens) break;
    const float sum = sum_lanes(sums[t]);
    if (lane_of_group() != 0) continue;
    p.out[(token + t) * p.rows + row] = p.bias ? sum + p.bias[row] : sum;
  }
}

template <class Type>
__global__ void get_rows_kernel(Global<const uint8_t> table, int64_t row_stride, int64_t columns,
                                Global<const int32_t> ids, Global<float> out) {
  const int64_t column = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  const int64_t row = blockIdx.y;
  const int64_t offset = ids[row] * row_stride + column / Type::kElements * Type::kBytes;
  const uint8_t* block = table.range(offset, Type::kBytes);
  out[row * columns + column] = Type::value(block, static_cast<int>(column % Type::kElements));
}

}  // namespace

void matmul(Device& device, const WeightMatrix& w, const float* bias, const float* x,
            int64_t n_tokens, float* out) {
  const auto stride = static_cast<int64_t>(row_bytes(w.type, w.columns));
  with_type(w.type, [&](auto type) {
    using Type = decltype(type);
    const auto* data = static_cast<const uint8_t*>(w.data);
    const Product p = {data, stride, w.rows, w.columns, bias, x, n_tokens, out};
    const unsigned blocks = blocks_for(w.rows, kRowsPerBlock);
    if (n_tokens == 1) {
      ASSAY_LAUNCH(device, (LaunchShape{{blocks, 1, 1}, {kThreads, 1, 1}, 0}),
                   (matmul_kernel<Type, 1>), p);
    } else {
      const unsigned tiles = blocks_for(n_tokens, kTileTokens);
      ASSAY_LAUNCH(device, (LaunchShape{{blocks, tiles, 1}, {kThreads, 1, 1}, 0}),
                   (matmul_kernel<Type, kTileTokens>), p);
    }
  });
}

void get_rows(Device& device, const WeightMatrix& table, const int32_t* ids, int64_t n_ids,
              float* out) {
  const auto stride = static_cast<int64_t>(row_bytes(table.type, table.columns));
  const auto* data = static_cast<const uint8_t*>(table.data);
  with_type(table.type, [&](auto type) {
    for (int64_t first = 0; first < n_ids; first += kMaxGridY) {
      const auto rows =
          static_cast<unsigned>(n_ids - first < kMaxGridY ? n_ids - first : kMaxGridY);
      const unsigned blocks = blocks_for(table.columns, kThreads);
      ASSAY_LAUNCH(device, (LaunchShape{{blocks, rows, 1}, {kThreads, 1, 1}, 0}),
                   (get_rows_kernel<decltype(type)>), data, stride, table.columns, ids + first,
                   out + first * table.columns);
    }
  });
}

}  // namespace assay::ASSAY_DEVICE
