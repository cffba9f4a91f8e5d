#include "kernels/cuda/int16.h"
#include "kernels/cuda/int8.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/packed.h"

// Products with the one vector of a single token; those of several are in tile_matmul.cu.
namespace assay::ASSAY_DEVICE {
namespace {

constexpr unsigned kMaxGridY = 65535;

using Int8Vector = Int8Blocks<Global<uint32_t>>;
using Int16Vector = Int16Blocks<Global<uint32_t>>;

// The row of this group is computed by dot(row).
template <class Dot>
__device__ void multiply_own_row(const Rows& rows, const Global<float>& out, const Dot& dot) {
  int64_t row = int64_t{blockIdx.x} * kGroups + threadIdx.x / kRowThreads;
  const bool inside = row < rows.n_rows;  // all threads of a warp go on: they read together
  if (!inside) row = rows.n_rows - 1;
  const float product = dot(row);
  if (inside && thread_of_row() == 0) out[row] = product;
}

template <int kTypes, class Number>
__global__ void matmul_kernel(Rows rows, Global<const float> x, Global<float> out) {
  ASSAY_STAGE(stage, kGroups, kGroups);
  multiply_own_row(rows, out,
                   [&](int64_t row) { return dot_row<kTypes, Number>(rows, row, stage, x); });
}

template <int kTypes>
__global__ void int8_matmul_kernel(Rows rows, Int8Blocks<Global<const uint32_t>> x,
                                   Global<float> out) {
  ASSAY_STAGE(stage, kGroups, 0);
  multiply_own_row(rows, out,
                   [&](int64_t row) { return dot_row_int8<kTypes>(rows, row, stage, x); });
}

__global__ void int16_matmul_kernel(Rows rows, Int16Blocks<Global<const uint32_t>> x,
                                    Global<float> out) {
  multiply_own_row(rows, out, [&](int64_t row) { return dot_row_int16(rows, row, x); });
}

template <class Form>
__global__ void quantize_kernel(Global<const float> x, Form rounded) {
  rounded.fill(static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x),
               static_cast<int>(gridDim.x * blockDim.x),
               [&](int i) { return four_of<Form::kWhole>(x, i, rounded.columns); });
}

__global__ void get_rows_kernel(Rows table, Global<const int32_t> ids, Global<float> out) {
  const int64_t column = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (column >= table.columns) return;
  out[int64_t{blockIdx.y} * table.columns + column] = element_of(table, ids[blockIdx.y], column);
}

}  // namespace

size_t vectors_bytes(int64_t columns, int64_t n_tokens, Rounding rounding) {
  if (n_tokens > 1) return tiles_bytes(columns, n_tokens, rounding);
  if (rounding == Rounding::kNone) return 0;
  const int words =
      rounding == Rounding::kInt8 ? Int8Vector::words_of(columns) : Int16Vector::words_of(columns);
  return static_cast<size_t>(words) * sizeof(uint32_t);
}

Vectors vectors_of(Device& device, const float* x, int64_t columns, int64_t n_tokens,
                   Rounding rounding, void* scratch) {
  const Global<uint32_t> words = static_cast<uint32_t*>(scratch);
  const LaunchShape a_thread_each_16 = one_thread_each(activation_blocks(columns) * 2);
  if (n_tokens > 1) {
    arrange_tiles(device, x, columns, n_tokens, rounding, scratch);
  } else if (rounding == Rounding::kInt8) {
    ASSAY_LAUNCH(device, a_thread_each_16, (quantize_kernel<Int8Vector>), x,
                 Int8Vector::of(words, columns));
  } else if (rounding == Rounding::kInt16) {
    ASSAY_LAUNCH(device, a_thread_each_16, (quantize_kernel<Int16Vector>), x,
                 Int16Vector::of(words, columns));
  } else {
    return {x, n_tokens, rounding};
  }
  return {scratch, n_tokens, rounding};
}

// Of F16 and BF16 alone, the vector is always rounded.
template <int kTypes, class Number = float>
void multiply_vector(Device& device, const MatmulCall& call, const Vectors& x) {
  const Rows rows = rows_of(call.w, call.bias);
  const LaunchShape shape = {{blocks_for(rows.n_rows, kGroups), 1, 1}, {kThreads, 1, 1}, 0};
  const Global<const uint32_t> words = static_cast<const uint32_t*>(x.data);
  if constexpr (kTypes == kHalfFloats) {
    ASSAY_LAUNCH(device, shape, int16_matmul_kernel, rows,
                 Int16Blocks<Global<const uint32_t>>::of(words, rows.columns), call.out);
  } else {
    if constexpr ((kTypes & kPlain) == 0) {
      if (x.rounding == Rounding::kInt8) {
        ASSAY_LAUNCH(device, shape, (int8_matmul_kernel<kTypes>), rows,
                     Int8Blocks<Global<const uint32_t>>::of(words, rows.columns), call.out);
        return;
      }
    }
    ASSAY_LAUNCH(device, shape, (matmul_kernel<kTypes, Number>), rows,
                 static_cast<const float*>(x.data), call.out);
  }
}

size_t matmul_scratch(const Device& device, const WeightMatrix& w, const Vectors& x) {
  return are_packed(x) ? packed_scratch(device, w) : 0;
}

void matmul(Device& device, Math math, const MatmulCall& call, const Vectors& x, void* scratch) {
  if (x.n_tokens > 1) return multiply_tiles(device, math, call, x, scratch);
  if (is_coded(call.w.type)) return multiply_vector<kCoded>(device, call, x);
  if (!is_plain(call.w.type)) return multiply_vector<kBlocks>(device, call, x);
  if (math == Math::kExact) return multiply_vector<kPlain, double>(device, call, x);
  if (x.rounding == Rounding::kInt16) return multiply_vector<kHalfFloats>(device, call, x);
  multiply_vector<kFloats>(device, call, x);
}

void run(Device& device, const GetRowsCall& call) {
  const int64_t columns = call.table.columns;
  for (int64_t first = 0; first < call.n_ids; first += kMaxGridY) {
    const int64_t left = call.n_ids - first;
    const auto rows = static_cast<unsigned>(left < kMaxGridY ? left : kMaxGridY);
    const LaunchShape shape = {{blocks_for(columns, kThreads), rows, 1}, {kThreads, 1, 1}, 0};
    ASSAY_LAUNCH(device, shape, get_rows_kernel, rows_of(call.table, nullptr), call.ids + first,
                 call.out + first * columns);
  }
}

}  // namespace assay::ASSAY_DEVICE
