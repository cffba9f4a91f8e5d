#include <benchmark/benchmark.h>

#include <vector>

#include "bench/support.h"

// Norms, rotary embedding and activations, of one token and of a batch.
namespace assay::bench {
namespace {

constexpr int64_t kWidth = 2048;

// Runs op(kernels, x, weight, n_tokens, out) on n_tokens rows of kWidth; it reads and writes each
// element once.
template <class Op>
void rows(benchmark::State& state, Op op) {
  const int64_t n_tokens = state.range(0);
  const std::vector<float> x = random_floats(n_tokens * kWidth);
  const std::vector<float> weight = random_floats(n_tokens * kWidth);
  std::vector<float> out(x.size());
  while (state.KeepRunning()) {
    op(*environment().kernels, x.data(), weight.data(), n_tokens, out.data());
    benchmark::ClobberMemory();
  }
  report_bytes(state, static_cast<double>((x.size() + out.size()) * sizeof(float)));
}

void rms_norm(benchmark::State& state) {
  rows(state, [](Kernels& k, const float* x, const float* weight, int64_t n_tokens, float* out) {
    k.run(NormCall{NormKind::kRms, x, weight, nullptr, 1e-5F, n_tokens, kWidth, out});
  });
}

void layer_norm(benchmark::State& state) {
  rows(state, [](Kernels& k, const float* x, const float* weight, int64_t n_tokens, float* out) {
    k.run(NormCall{NormKind::kLayer, x, weight, weight, 1e-5F, n_tokens, kWidth, out});
  });
}

void silu_mul(benchmark::State& state) {
  rows(state, [](Kernels& k, const float* x, const float* up, int64_t n_tokens, float* out) {
    k.run(ActivateCall{ActivationKind::kSilu, x, up, n_tokens * kWidth, out});
  });
}

void gelu_tanh(benchmark::State& state) {
  rows(state, [](Kernels& k, const float* x, const float*, int64_t n_tokens, float* out) {
    k.run(ActivateCall{ActivationKind::kGeluTanh, x, nullptr, n_tokens * kWidth, out});
  });
}

template <RopePairing kPairing>
void rope(benchmark::State& state) {
  rows(state, [](Kernels& k, const float* x, const float* angles, int64_t n_tokens, float* out) {
    k.run(RopeCall{x, angles, kPairing, n_tokens, kWidth / 64, 64, 64, out});
  });
}

void sizes(benchmark::internal::Benchmark* b) {
  b->Arg(1)->Arg(512)->UseRealTime()->Unit(benchmark::kMicrosecond);
}

BENCHMARK(rms_norm)->Apply(sizes);
BENCHMARK(layer_norm)->Apply(sizes);
BENCHMARK(silu_mul)->Apply(sizes);
BENCHMARK(gelu_tanh)->Apply(sizes);
BENCHMARK(rope<RopePairing::kAdjacent>)->Apply(sizes)->Name("rope/adjacent");
BENCHMARK(rope<RopePairing::kHalves>)->Apply(sizes)->Name("rope/halves");

}  // namespace
}  // namespace assay::bench
