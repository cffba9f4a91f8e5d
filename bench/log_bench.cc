// Writing, reading and comparing logs of full logits, and layers with sketches.

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "assay/compare/compare_logs.h"
#include "assay/log/log_reader.h"
#include "assay/log/log_writer.h"
#include "assay/log/sketch.h"
#include "bench/support.h"

namespace assay::bench {
namespace {

constexpr int64_t kLogits = 151936;  // the vocabulary of Qwen2
constexpr int64_t kTokens = 16;

// A file that goes away with it.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& name)
      : path_(std::filesystem::temp_directory_path() /
              (name + "." + std::to_string(getpid()) + ".jsonl")) {}
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  std::string path() const { return path_.string(); }
  double bytes() const { return static_cast<double>(std::filesystem::file_size(path_)); }

 private:
  std::filesystem::path path_;
};

void write_logits(const std::string& path, float scale) {
  std::vector<float> logits = random_floats(kLogits);
  for (float& value : logits) value *= scale;
  LogWriter writer(path, {.team = "bench", .head_values = kAllValues});
  for (int64_t t = 0; t < kTokens; ++t) writer.write("logits", t, logits);
  writer.close();
}

void log_write_full_logits(benchmark::State& state) {
  const TemporaryFile file("assay_bench_write");
  for (auto _ : state) write_logits(file.path(), 10.0F);
  report_bytes(state, file.bytes());
}

void log_write_layer_with_sketch(benchmark::State& state) {
  const TemporaryFile file("assay_bench_sketch");
  const std::vector<float> values = random_floats(2048);
  LogWriter writer(file.path(), {.team = "bench", .summary = true, .sketch = true});
  int64_t token_idx = 0;
  for (auto _ : state) writer.write("layer_0_output", token_idx++, values);
  report_bytes(state, static_cast<double>(values.size() * sizeof(float)));
}

// What `--checkpoints layers --sketch`, or `ops`, writes of one token.
struct LoggedModel {
  int64_t layers;
  std::vector<int64_t> widths;  // of a layer's records
  int64_t vocabulary;
};
const LoggedModel kSmolLm2 = {30, {576}, 49152};
const LoggedModel kSmolLm2Ops = {
    30, {576, 576, 192, 192, 576, 192, 576, 576, 576, 576, 1536, 1536, 1536, 576, 576}, 49152};
const LoggedModel kTinyLlama = {22, {2048}, 32000};
const LoggedModel kQwen = {24, {896}, 151936};

void log_write_token(benchmark::State& state, const LoggedModel& model) {
  const TemporaryFile file("assay_bench_token");
  const std::vector<float> values = random_floats(model.vocabulary);
  LogWriter writer(file.path(), {.team = "bench", .summary = true, .sketch = true},
                   &environment().pool);
  int64_t token_idx = 0;
  for (auto _ : state) {
    for (int64_t layer = 0; layer < model.layers; ++layer) {
      for (const int64_t width : model.widths) {
        writer.write("layer_0_output", token_idx,
                     std::span(values).first(static_cast<size_t>(width)));
      }
    }
    writer.write("logits", token_idx++, values);
  }
  const int64_t layer_width = std::accumulate(model.widths.begin(), model.widths.end(), int64_t{0});
  report_bytes(state, static_cast<double>(model.layers * layer_width + model.vocabulary) * 4);
}

void log_read_full_logits(benchmark::State& state) {
  const TemporaryFile file("assay_bench_read");
  write_logits(file.path(), 10.0F);
  for (auto _ : state) {
    LogReader reader(file.path());
    while (const Record* record = reader.next()) benchmark::DoNotOptimize(record->values.data());
  }
  report_bytes(state, file.bytes());
}

// Bytes of both logs together.
void log_compare_full_logits(benchmark::State& state) {
  const TemporaryFile ref("assay_bench_ref");
  const TemporaryFile got("assay_bench_got");
  write_logits(ref.path(), 10.0F);
  write_logits(got.path(), 10.0001F);
  CompareOptions options;
  options.n_threads = environment().pool.n_threads();
  for (auto _ : state) {
    benchmark::DoNotOptimize(compare_logs(ref.path(), got.path(), options));
  }
  report_bytes(state, ref.bytes() + got.bytes());
}

void sketch(benchmark::State& state) {
  const std::vector<float> values = random_floats(kLogits);
  for (auto _ : state) benchmark::DoNotOptimize(compute_sketch(values));
  report_bytes(state, static_cast<double>(values.size() * sizeof(float)));
}

BENCHMARK(log_write_full_logits)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(log_write_layer_with_sketch)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(log_write_token, smollm2, kSmolLm2)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(log_write_token, smollm2_ops, kSmolLm2Ops)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(log_write_token, tinyllama, kTinyLlama)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(log_write_token, qwen, kQwen)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(log_read_full_logits)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(log_compare_full_logits)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(sketch)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace assay::bench
