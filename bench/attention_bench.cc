#include <benchmark/benchmark.h>

#include <vector>

#include "bench/support.h"

namespace assay::bench {
namespace {

// `n_tokens` queries that end at position n_positions - 1; heads as SmolLM2 has them.
void attention(benchmark::State& state, KvType type) {
  const int64_t n_tokens = state.range(0);
  const int64_t n_positions = state.range(1);
  const AttentionShape shape = {9, 3, 64, 0.125F, 0};
  const int64_t kv_elements = n_positions * shape.n_kv_heads * shape.head_dim;
  const std::vector<float> q = random_floats(n_tokens * shape.n_heads * shape.head_dim);
  const std::vector<float> floats = random_floats(kv_elements);
  std::vector<float> out(q.size());
  std::vector<uint8_t> k(floats.size() * kv_element_bytes(type));
  std::vector<uint8_t> v(k.size());
  Kernels& kernels = *environment().kernels;
  kernels.run(StoreKvCall{floats.data(), type, kv_elements, k.data()});
  kernels.run(StoreKvCall{floats.data(), type, kv_elements, v.data()});
  while (state.KeepRunning()) {
    kernels.run(AttentionCall{
        q.data(), {type, k.data(), v.data()}, shape, n_positions - n_tokens, n_tokens, out.data()});
    benchmark::ClobberMemory();
  }
  report_bytes(state, static_cast<double>(k.size() + v.size() + (q.size() + out.size()) * 4));
  const double pairs = static_cast<double>(n_tokens) *
                       (static_cast<double>(n_positions) - static_cast<double>(n_tokens - 1) / 2);
  report_flop(state, 4.0 * pairs * static_cast<double>(shape.n_heads * shape.head_dim));
}

void shapes(benchmark::internal::Benchmark* b) {
  b->Args({1, 512})
      ->Args({1, 4096})
      ->Args({512, 512})
      ->UseRealTime()
      ->Unit(benchmark::kMicrosecond);
}

BENCHMARK_CAPTURE(attention, f32, KvType::kF32)->Apply(shapes);
BENCHMARK_CAPTURE(attention, f16, KvType::kF16)->Apply(shapes);

}  // namespace
}  // namespace assay::bench
