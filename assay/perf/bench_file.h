#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace assay {

// The JSON that assay_bench, like every program of Google Benchmark, writes with
// --benchmark_format=json: for each benchmark the real time of its repetitions, in nanoseconds an
// iteration, in the order of the file. Aggregates (mean, median …) are passed over.
struct BenchFile {
  std::string path;
  std::map<std::string, std::vector<double>> times;  // by the benchmark's name
  std::map<std::string, std::string> context = {};   // its description of the machine, as text
  std::map<std::string, std::string> skipped = {};   // why, by name; of some repetitions is enough
  std::map<std::string, int64_t> threads = {};       // of those that say on how many they ran
};

// More repetitions of one benchmark than these are refused: the interval takes memory in their
// square.
inline constexpr size_t kMaxRepetitions = 2000;

// Throws Error naming the file and the benchmark if it is no such file, holds no repetition or too
// many, or holds a time that is not a number above 0, or a benchmark that failed or whose
// repetitions ran on different numbers of threads.
BenchFile read_bench_file(const std::string& path);

}  // namespace assay
