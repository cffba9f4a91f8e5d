// The CUDA kernels: each with its share of what the device's memory gives a kernel that only
// streams. Skipped, with what is missing, where no device can be used.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "bench/support.h"
#include "kernels/cuda/cuda.h"
#include "kernels/fused.h"
#include "kernels/library.h"

#if defined(ASSAY_HAS_CUDA)
#include "kernels/cuda/check.h"
#endif

namespace assay::bench {
namespace {

constexpr int kLaunches = 50;  // between two times that the device is waited for

template <class T>
Buffer<T> on_device(Kernels& kernels, const std::vector<T>& values) {
  Buffer<T> buffer(kernels.memory(), values.size());
  kernels.memory().upload(values.data(), buffer.bytes(), buffer.data());
  return buffer;
}

void wait_for(Kernels& kernels, const float* written) {
  float host = 0.0F;
  kernels.memory().download(written, sizeof(host), &host);
}

// What copying within the device, between arrays far larger than the caches, reads and writes in a
// second. cudaMemcpyAsync is the driver's own way, and wider than a float at a time: a ceiling that
// does not depend on how well a kernel of ours is written.
double measure_bandwidth() {
#if defined(ASSAY_HAS_CUDA)
  constexpr size_t kBytes = size_t{384} << 20;
  void* from = nullptr;
  void* to = nullptr;
  ASSAY_CUDA_CHECK(cudaMalloc(&from, kBytes));
  ASSAY_CUDA_CHECK(cudaMalloc(&to, kBytes));
  const auto copy = [&](int times) {
    for (int i = 0; i < times; ++i) {
      ASSAY_CUDA_CHECK(cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDeviceToDevice));
    }
    ASSAY_CUDA_CHECK(cudaDeviceSynchronize());
  };
  copy(1);
  const double seconds = seconds_of([&] { copy(kLaunches); });
  cudaFree(from);
  cudaFree(to);
  return 2.0 * kBytes * kLaunches / seconds;
#else
  return 0.0;  // there are no kernels to compare
#endif
}

}  // namespace

const Cuda& cuda(Math math) {
  const auto make = [](Math of) {
    Cuda made;
    try {
      made.kernels = make_cuda_kernels(of);
      made.bandwidth = measure_bandwidth();
    } catch (const Error& error) {
      made.missing = error.what();
    }
    return made;
  };
  static const Cuda exact = make(Math::kExact);
  static const Cuda fast = make(Math::kFast);
  static const Cuda library = make(Math::kLibrary);
  return math == Math::kLibrary ? library : math == Math::kFast ? fast : exact;
}

namespace {

// Times `launch`, which reads and writes `bytes` at least once and fills `out`.
template <class Launch>
void measure(benchmark::State& state, Math math, double bytes, const float* out,
             const Launch& launch) {
  Kernels& kernels = *cuda(math).kernels;
  launch();
  wait_for(kernels, out);
  for (auto _ : state) {
    for (int i = 0; i < kLaunches; ++i) launch();
    wait_for(kernels, out);
  }
  const double total = bytes * kLaunches * static_cast<double>(state.iterations());
  state.SetBytesProcessed(static_cast<int64_t>(total));
  state.counters["bandwidth_share"] =
      benchmark::Counter(total / cuda(math).bandwidth, benchmark::Counter::kIsRate);
  state.counters["launches"] = benchmark::Counter(
      kLaunches * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

// A layer's products as Llama-3-8B has them.
constexpr int64_t kWidth = 4096;
constexpr int64_t kInner = 14336;

// A matrix in several places of the device, which are read by turns: a model's weights come from
// memory, and one matrix alone would stay in the second-level cache (50 MB on an H100).
class Matrix {
 public:
  Matrix(Kernels& kernels, TensorType type, int64_t rows, int64_t columns)
      : shape_{type, rows, columns, nullptr} {
    constexpr size_t kBeyondCaches = size_t{256} << 20;
    const auto weights = random_weights(type, rows, columns);
    const size_t n_copies = (kBeyondCaches + weights.size() - 1) / weights.size();
    for (size_t i = 0; i < n_copies; ++i) copies_.push_back(on_device(kernels, weights));
  }

  double bytes() const { return static_cast<double>(copies_.front().bytes()); }

  // The next of the copies.
  WeightMatrix next() {
    next_ = (next_ + 1) % copies_.size();
    WeightMatrix matrix = shape_;
    matrix.data = copies_[next_].data();
    return matrix;
  }

 private:
  WeightMatrix shape_;
  std::vector<Buffer<uint8_t>> copies_;
  size_t next_ = 0;
};

void matrix_vector(benchmark::State& state, TensorType type, Math math) {
  Kernels& kernels = *cuda(math).kernels;
  Matrix weights(kernels, type, kInner, kWidth);
  const auto x = on_device(kernels, random_floats(kWidth));
  Buffer<float> out(kernels.memory(), kInner);
  measure(state, math, weights.bytes(), out.data(), [&] {
    kernels.run(MatmulCall{weights.next(), nullptr, x.data(), 1, out.data()});
  });
}

constexpr int64_t kTokens = 512;

void prompt(benchmark::State& state, TensorType type, Math math) {
  Kernels& kernels = *cuda(math).kernels;
  Matrix weights(kernels, type, kWidth, kWidth);
  const auto x = on_device(kernels, random_floats(kTokens * kWidth));
  Buffer<float> out(kernels.memory(), kTokens * kWidth);
  const double bytes = weights.bytes() + static_cast<double>(x.bytes() + out.bytes());
  measure(state, math, bytes, out.data(), [&] {
    kernels.run(MatmulCall{weights.next(), nullptr, x.data(), kTokens, out.data()});
  });
}

// cuBLAS alone, of weights that are F16, BF16 or F32 already: what the products above are beside.
void cublas(benchmark::State& state, TensorType type, int64_t rows, int64_t n_tokens) {
  Kernels& kernels = *cuda(Math::kLibrary).kernels;
  Matrix weights(kernels, type, rows, kWidth);
  const auto x = on_device(kernels, random_weights(type, n_tokens, kWidth));
  Buffer<float> out(kernels.memory(), static_cast<size_t>(n_tokens * rows));
  const double bytes = weights.bytes() + static_cast<double>(x.bytes() + out.bytes());
  measure(state, Math::kLibrary, bytes, out.data(), [&] {
    kernels.library()->multiply(
        {type, weights.next().data, x.data(), rows, kWidth, n_tokens, false, out.data()});
  });
}

void activation(benchmark::State& state, TensorType type, Math math) {
  Kernels& kernels = *cuda(math).kernels;
  Matrix gate(kernels, type, kInner, kWidth);
  Matrix up(kernels, type, kInner, kWidth);
  const auto x = on_device(kernels, random_floats(kWidth));
  Buffer<float> act(kernels.memory(), kInner);
  FusedActivation step;
  step.x = x.data();
  step.norm = {NormKind::kRms, x.data(), nullptr, 1e-5F};
  step.act = act.data();
  measure(state, math, gate.bytes() + up.bytes(), act.data(), [&] {
    step.gate.weight = gate.next();
    step.up.weight = up.next();
    kernels.fused()->activation(step);
  });
}

void residual(benchmark::State& state, TensorType type, Math math) {
  Kernels& kernels = *cuda(math).kernels;
  Matrix down(kernels, type, kWidth, kInner);
  const auto x = on_device(kernels, random_floats(kInner));
  auto sum = on_device(kernels, random_floats(kWidth));
  FusedResidual step;
  step.x = x.data();
  step.residual = sum.data();
  measure(state, math, down.bytes(), sum.data(), [&] {
    step.w.weight = down.next();
    kernels.fused()->residual(step);
  });
}

constexpr AttentionShape kHeads = {32, 8, 128, 0.088F, 0};

// Of as many positions, that may stand for keys as well as for values.
Buffer<std::byte> random_kv(Kernels& kernels, KvType type, int64_t n_keys) {
  const int64_t count = n_keys * kHeads.n_kv_heads * kHeads.head_dim;
  const auto floats = on_device(kernels, random_floats(count));
  Buffer<std::byte> kv(kernels.memory(), static_cast<size_t>(count) * kv_element_bytes(type));
  kernels.run(StoreKvCall{floats.data(), type, count, kv.data()});
  return kv;
}

void prompt_attention(benchmark::State& state, KvType type) {
  Kernels& kernels = *cuda(Math::kExact).kernels;
  const int64_t n_tokens = state.range(0);
  const Buffer<std::byte> kv = random_kv(kernels, type, n_tokens);
  const auto q = on_device(kernels, random_floats(n_tokens * kHeads.n_heads * kHeads.head_dim));
  Buffer<float> out(kernels.memory(), q.size());
  const auto bytes = static_cast<double>(2 * kv.bytes() + q.bytes() + out.bytes());
  measure(state, Math::kExact, bytes, out.data(), [&] {
    kernels.run(
        AttentionCall{q.data(), {type, kv.data(), kv.data()}, kHeads, 0, n_tokens, out.data()});
  });
}

void attention(benchmark::State& state, KvType type) {
  Kernels& kernels = *cuda(Math::kExact).kernels;
  const int64_t n_keys = state.range(0);
  const AttentionShape& shape = kHeads;
  const Buffer<std::byte> kv = random_kv(kernels, type, n_keys);
  const auto q = on_device(kernels, random_floats(shape.n_heads * shape.head_dim));
  const auto position = on_device(kernels, std::vector<int32_t>{static_cast<int32_t>(n_keys - 1)});
  Buffer<std::byte> scratch(kernels.memory(), kernels.fused()->attention_scratch(shape, n_keys));
  Buffer<float> out(kernels.memory(), q.size());
  FusedToken token;
  token.position = position.data();
  const FusedAttention step = {
      q.data(), {type, kv.data(), kv.data()}, shape, token, n_keys, scratch.data(), out.data()};
  measure(state, Math::kExact, 2.0 * static_cast<double>(kv.bytes()), out.data(),
          [&] { kernels.fused()->attention(step); });
}

}  // namespace

void register_cuda() {
  const Cuda& device = cuda(Math::kExact);
  if (device.kernels == nullptr) {
    fmt::print(stderr, "assay_bench: no CUDA benchmarks: {}\n", device.missing);
    return;
  }
  const auto add = [](const std::string& name, auto function, auto... arguments) {
    return benchmark::RegisterBenchmark(("cuda/" + name).c_str(), function, arguments...)
        ->UseRealTime()
        ->Unit(benchmark::kMicrosecond);
  };
  for (const TensorType type : kAllTensorTypes) {
    for (const Math math : {Math::kExact, Math::kFast}) {
      if (math == Math::kFast && rounding_of(type) == Rounding::kNone) continue;
      const std::string name =
          std::string(tensor_type_info(type).name) + (math == Math::kFast ? "/fast" : "");
      add("matrix_vector/" + name, matrix_vector, type, math);
      add("prompt/" + name, prompt, type, math);
      add("activation/" + name, activation, type, math);
      add("residual/" + name, residual, type, math);
    }
  }
  if (const Cuda& library = cuda(Math::kLibrary); library.kernels == nullptr) {
    fmt::print(stderr, "assay_bench: no benchmarks of cuBLAS: {}\n", library.missing);
  } else {
    for (const TensorType type : kAllTensorTypes) {
      const std::string name(tensor_type_info(type).name);
      add("prompt/" + name + "/library", prompt, type, Math::kLibrary);
      if (tensor_type_info(type).block_elements > 1) continue;
      add("cublas/matrix_vector/" + name, cublas, type, kInner, 1);
      add("cublas/prompt/" + name, cublas, type, kWidth, kTokens);
    }
  }
  for (const KvType type : {KvType::kF32, KvType::kF16}) {
    const std::string name = type == KvType::kF32 ? "attention/f32" : "attention/f16";
    add(name, attention, type)->Arg(512)->Arg(4096);
    add("prompt_" + name, prompt_attention, type)->Arg(512)->Arg(4096);
  }
}

}  // namespace assay::bench
