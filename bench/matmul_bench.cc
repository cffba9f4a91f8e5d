#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bench/support.h"

namespace assay::bench {
namespace {

constexpr int64_t kColumns = 2048;

// Rows that make a matrix of `megabytes`, more than the caches hold.
int64_t rows_of(TensorType type, int64_t megabytes) {
  return (megabytes << 20U) / static_cast<int64_t>(row_bytes(type, kColumns)) / 16 * 16;
}

Kernels& kernels_of(Math math) {
  return math == Math::kFast ? *environment().fast_kernels : *environment().kernels;
}

// Random weights of a matrix, kept until another is asked for: a benchmark's function is called for
// each repetition, and to make 96 MB takes longer than all products of one.
const std::vector<uint8_t>& kept_weights(TensorType type, int64_t rows, int64_t columns) {
  static TensorType kept_type;
  static std::vector<uint8_t> kept;
  if (kept_type != type || kept.size() != static_cast<size_t>(rows) * row_bytes(type, columns)) {
    kept_type = type;
    kept = random_weights(type, rows, columns);
  }
  return kept;
}

// A matrix from memory times one vector: what decoding a token does.
void matrix_vector(benchmark::State& state, TensorType type, Math math) {
  const int64_t rows = rows_of(type, 96);
  const std::vector<uint8_t>& weights = kept_weights(type, rows, kColumns);
  const std::vector<float> x = random_floats(kColumns);
  std::vector<float> out(static_cast<size_t>(rows));
  while (state.KeepRunning()) {
    kernels_of(math).run(
        MatmulCall{{type, rows, kColumns, weights.data()}, nullptr, x.data(), 1, out.data()});
    benchmark::ClobberMemory();
  }
  report_bytes(state, static_cast<double>(weights.size() + (x.size() + out.size()) * 4));
  report_flop(state, 2.0 * static_cast<double>(rows * kColumns));
}

// A matrix times many vectors: what prefill does with a batch of tokens.
void matrix_matrix(benchmark::State& state, TensorType type, Math math) {
  const int64_t rows = 1536;
  const int64_t n_tokens = state.range(0);
  const std::vector<uint8_t>& weights = kept_weights(type, rows, kColumns);
  const std::vector<float> x = random_floats(n_tokens * kColumns);
  std::vector<float> out(static_cast<size_t>(n_tokens * rows));
  while (state.KeepRunning()) {
    kernels_of(math).run(MatmulCall{
        {type, rows, kColumns, weights.data()}, nullptr, x.data(), n_tokens, out.data()});
    benchmark::ClobberMemory();
  }
  report_bytes(state, static_cast<double>(weights.size() + (x.size() + out.size()) * 4));
  report_flop(state, 2.0 * static_cast<double>(n_tokens * rows * kColumns));
}

// All products with weights of SmolLM2-135M as it is shipped, for one token or a batch of them
// (then without the logits, which are wanted of the last token only).
struct Product {
  int64_t rows;
  int64_t columns;
};

constexpr Product kLayer[] = {{576, 576},  {192, 576},  {192, 576}, {576, 576},
                              {1536, 576}, {1536, 576}, {576, 1536}};

void smollm2_products(benchmark::State& state) {
  constexpr int64_t kLayers = 30;
  constexpr int64_t kVocabulary = 49152;
  constexpr int64_t kWidth = 576;
  const int64_t n_tokens = state.range(0);
  std::vector<std::vector<uint8_t>> weights;
  double bytes = 0.0;
  double flop = 0.0;
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    for (const Product& p : kLayer) {
      weights.push_back(random_weights(TensorType::kQ4_1, p.rows, p.columns));
      bytes += static_cast<double>(weights.back().size());
      flop += 2.0 * static_cast<double>(p.rows * p.columns * n_tokens);
    }
  }
  const std::vector<uint8_t> embedding = random_weights(TensorType::kQ8_0, kVocabulary, kWidth);
  const std::vector<float> x = random_floats(1536 * n_tokens);
  std::vector<float> out(static_cast<size_t>(std::max(kVocabulary, 1536 * n_tokens)));
  Kernels& kernels = *environment().kernels;
  while (state.KeepRunning()) {
    size_t next = 0;
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      for (const Product& p : kLayer) {
        kernels.run(MatmulCall{{TensorType::kQ4_1, p.rows, p.columns, weights[next++].data()},
                               nullptr,
                               x.data(),
                               n_tokens,
                               out.data()});
      }
    }
    if (n_tokens == 1) {
      kernels.run(MatmulCall{{TensorType::kQ8_0, kVocabulary, kWidth, embedding.data()},
                             nullptr,
                             x.data(),
                             1,
                             out.data()});
    }
    benchmark::ClobberMemory();
  }
  if (n_tokens == 1) bytes += static_cast<double>(embedding.size());
  report_bytes(state, bytes);
  report_flop(state, flop);
  state.counters["tokens_per_second"] = benchmark::Counter(
      static_cast<double>(n_tokens * state.iterations()), benchmark::Counter::kIsRate);
}

[[maybe_unused]] const bool kRegistered = [] {
  const auto add = [](TensorType type, Math math, const std::string& name) {
    benchmark::RegisterBenchmark(("matrix_vector/" + name).c_str(), matrix_vector, type, math)
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark(("matrix_matrix/" + name).c_str(), matrix_matrix, type, math)
        ->Arg(2)
        ->Arg(512)
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  };
  for (const TensorType type : kAllTensorTypes) {
    const std::string name(tensor_type_info(type).name);
    add(type, Math::kExact, name);
    if (rounding_of(type) != Rounding::kNone) add(type, Math::kFast, name + "/fast");
  }
  benchmark::RegisterBenchmark("smollm2_products", smollm2_products)
      ->Arg(1)
      ->Arg(512)
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
  return true;
}();

}  // namespace
}  // namespace assay::bench
