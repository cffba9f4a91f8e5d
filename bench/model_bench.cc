#include "bench/model_bench.h"

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "assay/golden/change.h"
#include "assay/golden/fast_floors.h"
#include "assay/golden/verify.h"
#include "base/error.h"
#include "bench/support.h"
#include "engine/file_type.h"
#include "engine/session.h"
#include "engine/tokenizer/tokenizer.h"

namespace assay::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct ModelFile {
  std::string path;
  std::string model;  // "smollm2"
  std::string type;   // "Q4_1"
};

// One benchmark of a model.
struct ModelBench {
  ModelFile file;
  Math math;
  int64_t n_tokens;
};

// A model as `assay run` has it, and whose it is.
struct Loaded {
  explicit Loaded(const std::string& path)
      : gguf(std::make_shared<Gguf>(path)), model(gguf), tokenizer(Tokenizer::from_gguf(*gguf)) {
    gguf->release_arrays();
  }

  std::shared_ptr<Gguf> gguf;
  Model model;
  std::unique_ptr<Tokenizer> tokenizer;
};

std::unique_ptr<Loaded> loaded;
const ModelBench* loaded_for = nullptr;

// The most that was resident since restart_peak(), in bytes: of the heap, of the model's file, of
// the program. 0 where the system does not say.
double peak_resident() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with("VmHWM:")) return std::strtod(line.c_str() + 6, nullptr) * 1024;
  }
  return 0;
}

void restart_peak() {
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";
}

// Loaded anew for each benchmark, so that its peak is its own.
const Model& model_for(const ModelBench& bench) {
  if (loaded_for != &bench) {
    unload_model();
    restart_peak();
    loaded = std::make_unique<Loaded>(bench.file.path);
    loaded_for = &bench;
  }
  return loaded->model;
}

// peak_mb: the most memory that was resident while the model was loaded and run, its mapped file
// among it. peak_of_limit: the same as a share of what it may be, the file and the keys and values
// of the session and 15 % more.
void report_memory(benchmark::State& state, const Session& session) {
  const double peak = peak_resident();
  const auto needed = static_cast<double>(loaded->gguf->file_bytes() + session.kv_bytes());
  state.counters["peak_mb"] = peak / 1e6;
  state.counters["peak_of_limit"] = peak / (1.15 * needed);
}

Kernels& kernels_of(Math math) {
  return math == Math::kFast ? *environment().fast_kernels : *environment().kernels;
}

std::vector<int32_t> some_tokens(const Model& model, int64_t count) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<int32_t>((i * 37 + 11) % model.config().n_vocab));
  }
  return tokens;
}

double weight_bytes(const Model& model) {
  double bytes = 0.0;
  for (const GgufTensor& tensor : model.gguf().tensors()) {
    bytes += static_cast<double>(tensor.data.size());
  }
  return bytes;
}

// Of the keys and values that a token reads after `position` others.
double kv_bytes(const Model& model, int64_t position) {
  const ModelConfig& config = model.config();
  return static_cast<double>(position * config.n_layers * config.kv_width() * 2 * 4);
}

void report_tokens(benchmark::State& state, int64_t n_tokens) {
  state.counters["tokens_per_second"] = benchmark::Counter(
      static_cast<double>(n_tokens), benchmark::Counter::kIsIterationInvariantRate);
}

// A prompt, to the logits of its last token.
void eval_prompt(benchmark::State& state, const ModelBench& bench, Session& session) {
  const std::vector<int32_t> tokens = some_tokens(model_for(bench), bench.n_tokens);
  while (state.KeepRunning()) {
    session.clear();
    benchmark::DoNotOptimize(session.eval(tokens));
  }
  report_tokens(state, bench.n_tokens);
}

void prefill(benchmark::State& state, const ModelBench& bench) {
  const Model& model = model_for(bench);
  Session session(model, kernels_of(bench.math), {.capacity = bench.n_tokens});
  eval_prompt(state, bench, session);
  report_bytes(state, weight_bytes(model));
  report_memory(state, session);
}

void cuda_prefill(benchmark::State& state, const ModelBench& bench) {
  Session session(model_for(bench), *cuda(bench.math).kernels, {.capacity = bench.n_tokens});
  eval_prompt(state, bench, session);
}

void decode(benchmark::State& state, const ModelBench& bench) {
  constexpr int64_t kTokens = 16;
  const Model& model = model_for(bench);
  Session session(model, kernels_of(bench.math), {.capacity = bench.n_tokens + kTokens});
  const std::vector<int32_t> tokens = some_tokens(model, bench.n_tokens + kTokens);
  while (state.KeepRunning()) {
    state.PauseTiming();
    session.clear();
    session.eval({tokens.data(), static_cast<size_t>(bench.n_tokens)});
    state.ResumeTiming();
    for (int64_t i = 0; i < kTokens; ++i) {
      benchmark::DoNotOptimize(session.eval({tokens.data() + bench.n_tokens + i, 1}));
    }
  }
  report_bytes(state, static_cast<double>(kTokens) *
                          (weight_bytes(model) + kv_bytes(model, bench.n_tokens)));
  report_tokens(state, kTokens);
  report_memory(state, session);
}

// Tokens that a CUDA device chooses itself, each after the one before.
void cuda_decode(benchmark::State& state, const ModelBench& bench) {
  constexpr int64_t kTokens = 64;
  const Cuda& device = cuda(bench.math);
  const Model& model = model_for(bench);
  Session session(model, *device.kernels, {.capacity = bench.n_tokens + kTokens});
  session.set_choosable(std::vector<bool>(static_cast<size_t>(model.config().n_vocab), true));
  const std::vector<int32_t> tokens = some_tokens(model, bench.n_tokens);
  while (state.KeepRunning()) {
    state.PauseTiming();
    session.clear();
    session.eval(tokens);
    state.ResumeTiming();
    int32_t token = tokens.back();
    for (int64_t i = 0; i < kTokens; ++i) token = session.eval_greedy(token);
  }
  const double total = static_cast<double>(kTokens * state.iterations()) *
                       (weight_bytes(model) + kv_bytes(model, bench.n_tokens));
  state.SetBytesProcessed(static_cast<int64_t>(total));
  state.counters["bandwidth_share"] =
      benchmark::Counter(total / device.bandwidth, benchmark::Counter::kIsRate);
  report_tokens(state, kTokens);
}

// Seconds that it takes to read a file as `cat` does, into memory that is there already.
double reading_time(const std::string& path) {
  static std::vector<char> buffer(size_t{1} << 20);
  const auto start = Clock::now();
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  while (fd >= 0 && read(fd, buffer.data(), buffer.size()) > 0) {
  }
  close(fd);
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Model and vocabulary, with the file in the system's cache. of_reading: the best time as a share
// of the best time in which the file was read, by turns with it.
void load(benchmark::State& state, const ModelBench& bench) {
  unload_model();
  double read_best = std::numeric_limits<double>::infinity();
  double load_best = read_best;
  while (state.KeepRunning()) {
    state.PauseTiming();
    loaded.reset();
    read_best = std::min(read_best, reading_time(bench.file.path));
    const auto start = Clock::now();
    state.ResumeTiming();
    loaded = std::make_unique<Loaded>(bench.file.path);
    load_best = std::min(load_best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  state.counters["read_ms"] = read_best * 1e3;
  state.counters["of_reading"] = load_best / read_best;
}

std::vector<ModelFile> model_files() {
  std::vector<ModelFile> files;
  if (const char* named = std::getenv("ASSAY_BENCH_MODEL")) {
    const Gguf gguf(named);
    files.push_back({named, std::filesystem::path(named).stem(), file_type_name(gguf)});
  }
  for (const std::string root : {"golden", "tests/published/golden"}) {
    if (!std::filesystem::is_directory(root)) continue;
    for (const std::string& model : golden_models(root)) {
      const GoldenManifest manifest =
          read_golden_manifest(golden_folder(root, model) + kManifestName);
      for (const GoldenFile& file : manifest.files) {
        const std::string path = find_model_file(manifest, file);
        if (!path.empty()) files.push_back({path, model, file.type});
      }
    }
  }
  return files;
}

void add(const std::string& name, void (*run)(benchmark::State&, const ModelBench&),
         const ModelBench& bench) {
  // The address tells which benchmark a model was loaded for.
  const auto kept = std::make_shared<const ModelBench>(bench);
  benchmark::RegisterBenchmark(name.c_str(),
                               [run, kept](benchmark::State& state) { run(state, *kept); })
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
}

}  // namespace

void register_models() {
  for (const ModelFile& file : model_files()) {
    const std::string name = file.model + "/" + file.type;
    add("load/" + name, load, {file, Math::kExact, 0});
    for (const auto& [math, math_name] :
         {std::pair(Math::kExact, "exact"), std::pair(Math::kFast, "fast"),
          std::pair(Math::kLibrary, "library")}) {
      if (math == Math::kFast && !rounds_activations(file.type)) continue;
      for (const int64_t n_tokens : {16, 512}) {
        const std::string rest = fmt::format("{}/{}/{}", name, math_name, n_tokens);
        if (math == Math::kLibrary) {
          // Of fewer tokens, and in decoding, it is fast.
          if (cuda(math).kernels == nullptr || n_tokens < kLibraryTokens) continue;
          add("cuda_prefill/" + rest, cuda_prefill, {file, math, n_tokens});
          continue;
        }
        add("prefill/" + rest, prefill, {file, math, n_tokens});
        add("decode/" + rest, decode, {file, math, n_tokens});
        if (cuda(math).kernels != nullptr) {
          add("cuda_decode/" + rest, cuda_decode, {file, math, n_tokens});
          add("cuda_prefill/" + rest, cuda_prefill, {file, math, n_tokens});
        }
      }
    }
  }
}

void unload_model() {
  loaded.reset();
  loaded_for = nullptr;
}

}  // namespace assay::bench
