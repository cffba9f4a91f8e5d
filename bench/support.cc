#include "bench/support.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "base/error.h"

namespace assay::bench {
namespace {

Environment* current = nullptr;

// Bytes a second that the threads read from a buffer far larger than the caches; the best of a few
// passes, as other work on the machine can only lower it. Of many processes that make up one run,
// the first measures it and the others get it (ASSAY_BENCH_BANDWIDTH, GB/s): it takes longer than
// a benchmark.
double measure_bandwidth(ThreadPool& pool) {
  if (const char* told = std::getenv("ASSAY_BENCH_BANDWIDTH")) {
    const double bandwidth = std::strtod(told, nullptr) * 1e9;
    if (bandwidth > 0 && std::isfinite(bandwidth)) return bandwidth;
    throw Error(fmt::format("'{}' is not a bandwidth", told), "ASSAY_BENCH_BANDWIDTH",
                "give GB/s, or unset it");
  }
  constexpr int64_t kWords = int64_t{384} << 17U;  // 384 MB
  constexpr int kPasses = 5;
  std::vector<uint64_t> buffer(static_cast<size_t>(kWords), 1);
  double best = 0.0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    pool.parallel_for(kWords, 4096, [&](int64_t begin, int64_t end) {
      uint64_t sum = 0;
      for (int64_t i = begin; i < end; ++i) sum += buffer[static_cast<size_t>(i)];
      benchmark::DoNotOptimize(sum);
    });
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, static_cast<double>(kWords) * sizeof(uint64_t) / seconds.count());
  }
  return best;
}

// Fast enough for hundreds of megabytes.
class Random {
 public:
  uint64_t bits() {
    state_ ^= state_ << 13U;
    state_ ^= state_ >> 7U;
    state_ ^= state_ << 17U;
    return state_;
  }

 private:
  uint64_t state_ = 0x9E3779B97F4A7C15U;
};

}  // namespace

Environment::Environment(int n_threads)
    : pool(n_threads),
      kernels(make_cpu_kernels(pool)),
      fast_kernels(make_cpu_kernels(pool, best_instruction_set(), Math::kFast)),
      memory_bandwidth(measure_bandwidth(pool)) {}

Environment& environment() {
  return *current;
}

void set_environment(Environment* made) {
  current = made;
}

void report_bytes(benchmark::State& state, double bytes) {
  const double total = bytes * static_cast<double>(state.iterations());
  state.SetBytesProcessed(static_cast<int64_t>(total));
  state.counters["bandwidth_share"] =
      benchmark::Counter(total / environment().memory_bandwidth, benchmark::Counter::kIsRate);
}

void report_flop(benchmark::State& state, double flop) {
  state.counters["flop_per_second"] = benchmark::Counter(
      flop * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::vector<float> random_floats(int64_t n) {
  Random random;
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) value = static_cast<float>(random.bits() >> 40U) * 0x1p-23F - 1.0F;
  return values;
}

std::vector<uint8_t> random_weights(TensorType type, int64_t rows, int64_t columns) {
  const size_t n_bytes = static_cast<size_t>(rows) * row_bytes(type, columns);
  std::vector<uint8_t> bytes(n_bytes);
  Random random;
  if (type == TensorType::kF32) {
    const std::vector<float> values = random_floats(rows * columns);
    std::memcpy(bytes.data(), values.data(), n_bytes);
    return bytes;
  }
  // No 16 bits of these read as a huge or infinite float16 or bfloat16, so that no product is NaN.
  for (size_t i = 0; i < n_bytes; i += 8) {
    const uint64_t word = random.bits() & 0xBFBFBFBFBFBFBFBFU;
    std::memcpy(bytes.data() + i, &word, std::min<size_t>(8, n_bytes - i));
  }
  return bytes;
}

}  // namespace assay::bench
