#pragma once

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/kernels.h"

namespace assay::bench {

// What every benchmark of a run shares: the threads, the kernels on them, and what this machine's
// memory gives those threads at this time.
struct Environment {
  explicit Environment(int n_threads);

  ThreadPool pool;
  std::unique_ptr<Kernels> kernels;
  std::unique_ptr<Kernels> fast_kernels;
  double memory_bandwidth;  // bytes a second of a streaming read, all threads together
};

// The CUDA kernels of one math, or why there are none.
struct Cuda {
  std::unique_ptr<Kernels> kernels;
  std::string missing;
  double bandwidth = 0.0;  // bytes a second of a kernel that only streams
};

// Made when it is first asked for.
const Cuda& cuda(Math math);

// Registers the benchmarks of CUDA kernels; where there is no device, says so on stderr and why.
void register_cuda();

// Made by main before the first benchmark runs.
Environment& environment();
void set_environment(Environment* made);

// What running `work` once takes.
template <class Work>
double seconds_of(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Reports bytes_per_second, and as bandwidth_share what part of the memory bandwidth measured in
// this run that is. `bytes` is what one iteration must read and write at least once.
void report_bytes(benchmark::State& state, double bytes);

// Reports flop_per_second.
void report_flop(benchmark::State& state, double flop);

// "AMD EPYC 9V74 80-Core Processor"; "unknown" where the system does not say.
std::string processor_name();

// `n` numbers in [-1, 1), the same in each run.
std::vector<float> random_floats(int64_t n);

// Bytes of a matrix of random codes with small, finite scales.
std::vector<uint8_t> random_weights(TensorType type, int64_t rows, int64_t columns);

}  // namespace assay::bench
