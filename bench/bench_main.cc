#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "bench/model_bench.h"
#include "bench/support.h"

// assay_bench [--threads=N] [flags of Google Benchmark]; from the root of the sources, so that the
// models of the goldens are found.
int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  int n_threads = 0;
  if (argc > 1 && std::strncmp(argv[1], "--threads=", 10) == 0) {
    n_threads = std::atoi(argv[1] + 10);
    argv[1] = argv[0];
    --argc;
    ++argv;
  }
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  try {
    assay::bench::Environment environment(n_threads);
    assay::bench::set_environment(&environment);
    assay::bench::register_cuda();
    assay::bench::register_models();
    benchmark::AddCustomContext("processor", assay::bench::processor_name());
    benchmark::AddCustomContext("assay_threads", fmt::format("{}", environment.pool.n_threads()));
    benchmark::AddCustomContext("assay_kernels", std::string(environment.kernels->name()));
    benchmark::AddCustomContext("memory_bandwidth_gb_s",
                                fmt::format("{:.2f}", environment.memory_bandwidth / 1e9));
    benchmark::RunSpecifiedBenchmarks();
    assay::bench::unload_model();
  } catch (const assay::Error& error) {
    fmt::print(stderr, "assay_bench: {}\n", error.what());
    return 2;
  }
  benchmark::Shutdown();
  return 0;
}
