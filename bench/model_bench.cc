// Whole-model prefill and decode on SmolLM2-135M (scripts/fetch.sh smollm2), or on the file that
// ASSAY_BENCH_MODEL names.

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <vector>

#include "assay/golden/verify.h"
#include "bench/support.h"
#include "engine/session.h"

namespace assay::bench {
namespace {

// Loaded once, when the first benchmark asks; null if the file is not there.
const Model* model() {
  static const std::unique_ptr<const Model> loaded = [] {
    const char* named = std::getenv("ASSAY_BENCH_MODEL");
    const std::string path =
        named != nullptr ? named : cache_folder() + "/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
    return std::filesystem::exists(path)
               ? std::make_unique<const Model>(std::make_shared<Gguf>(path))
               : nullptr;
  }();
  return loaded.get();
}

std::vector<int32_t> some_tokens(int64_t count) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<int32_t>((i * 37 + 11) % model()->config().n_vocab));
  }
  return tokens;
}

double weight_bytes() {
  double bytes = 0.0;
  for (const GgufTensor& tensor : model()->gguf().tensors()) {
    bytes += static_cast<double>(tensor.data.size());
  }
  return bytes;
}

void prefill(benchmark::State& state) {
  if (model() == nullptr) return state.SkipWithError("no model: scripts/fetch.sh smollm2");
  const int64_t n_tokens = state.range(0);
  Session session(*model(), *environment().kernels, {.capacity = n_tokens});
  const std::vector<int32_t> tokens = some_tokens(n_tokens);
  for (auto _ : state) {
    session.clear();
    benchmark::DoNotOptimize(session.eval(tokens));
  }
  report_bytes(state, weight_bytes());
  state.counters["tokens_per_second"] = benchmark::Counter(
      static_cast<double>(n_tokens), benchmark::Counter::kIsIterationInvariantRate);
}

constexpr int64_t kTokens = 64;

double bytes_of_tokens(int64_t position) {
  const ModelConfig& config = model()->config();
  const double kv = static_cast<double>(position * config.n_layers * config.kv_width() * 2 * 4);
  return static_cast<double>(kTokens) * (weight_bytes() + kv);
}

// Tokens that a CUDA device chooses itself, after `position` others.
void cuda_decode(benchmark::State& state, Math math) {
  if (model() == nullptr) return state.SkipWithError("no model: scripts/fetch.sh smollm2");
  if (cuda(math).kernels == nullptr) return state.SkipWithError(cuda(math).missing.c_str());
  const int64_t position = state.range(0);
  Session session(*model(), *cuda(math).kernels, {.capacity = position + kTokens});
  session.set_choosable(std::vector<bool>(static_cast<size_t>(model()->config().n_vocab), true));
  const std::vector<int32_t> tokens = some_tokens(position);
  for (auto _ : state) {
    state.PauseTiming();
    session.clear();
    session.eval(tokens);
    state.ResumeTiming();
    int32_t token = tokens.back();
    for (int64_t i = 0; i < kTokens; ++i) token = session.eval_greedy(token);
  }
  const double total = bytes_of_tokens(position) * static_cast<double>(state.iterations());
  state.SetBytesProcessed(static_cast<int64_t>(total));
  state.counters["bandwidth_share"] =
      benchmark::Counter(total / cuda(math).bandwidth, benchmark::Counter::kIsRate);
  state.counters["tokens_per_second"] = benchmark::Counter(
      static_cast<double>(kTokens), benchmark::Counter::kIsIterationInvariantRate);
}

// One token after `position` others.
void decode(benchmark::State& state) {
  if (model() == nullptr) return state.SkipWithError("no model: scripts/fetch.sh smollm2");
  const int64_t position = state.range(0);
  Session session(*model(), *environment().kernels, {.capacity = position + kTokens});
  const std::vector<int32_t> tokens = some_tokens(position + kTokens);
  for (auto _ : state) {
    state.PauseTiming();
    session.clear();
    session.eval({tokens.data(), static_cast<size_t>(position)});
    state.ResumeTiming();
    for (int64_t i = 0; i < kTokens; ++i) {
      benchmark::DoNotOptimize(session.eval({tokens.data() + position + i, 1}));
    }
  }
  report_bytes(state, bytes_of_tokens(position));
  state.counters["tokens_per_second"] = benchmark::Counter(
      static_cast<double>(kTokens), benchmark::Counter::kIsIterationInvariantRate);
}

BENCHMARK(prefill)->Arg(16)->Arg(512)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(cuda_decode, exact, Math::kExact)
    ->Arg(16)
    ->Arg(512)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(cuda_decode, fast, Math::kFast)
    ->Arg(16)
    ->Arg(512)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(decode)->Arg(16)->Arg(512)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace assay::bench
