#include <benchmark/benchmark.h>

#include <numeric>
#include <string>
#include <vector>

#include "bench/support.h"

namespace assay::bench {
namespace {

// All rows of a matrix from memory, a batch at a time into the same place.
void dequantize(benchmark::State& state, TensorType type) {
  constexpr int64_t kColumns = 2048;
  constexpr int64_t kBatch = 32;
  const int64_t rows =
      (int64_t{96} << 20U) / static_cast<int64_t>(row_bytes(type, kColumns)) / kBatch * kBatch;
  const std::vector<uint8_t> weights = random_weights(type, rows, kColumns);
  std::vector<int32_t> ids(static_cast<size_t>(rows));
  std::iota(ids.begin(), ids.end(), 0);
  std::vector<float> out(kBatch * kColumns);
  while (state.KeepRunning()) {
    for (int64_t row = 0; row < rows; row += kBatch) {
      environment().kernels->run(GetRowsCall{
          {type, rows, kColumns, weights.data()}, ids.data() + row, kBatch, out.data()});
    }
    benchmark::ClobberMemory();
  }
  report_bytes(state, static_cast<double>(weights.size()));
}

[[maybe_unused]] const bool kRegistered = [] {
  for (const TensorType type : kAllTensorTypes) {
    const std::string name(tensor_type_info(type).name);
    benchmark::RegisterBenchmark(("dequantize/" + name).c_str(), dequantize, type)
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace
}  // namespace assay::bench
