#include "kernels/cuda/device.h"

#include <string>
#include <utility>

#include "base/error.h"
#include "kernels/cuda/check.h"

namespace assay::cuda {
namespace {

constexpr int kOldestMajor = 8;       // sm_80
constexpr int kOldestEarlyStart = 9;  // sm_90

std::string version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

std::string mebibytes(size_t bytes) {
  return std::to_string(bytes / (size_t{1024} * 1024)) + " MiB";
}

void require_driver() {
  int driver = 0;
  int runtime = 0;
  ASSAY_CUDA_CHECK(cudaDriverGetVersion(&driver));
  ASSAY_CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  if (driver == 0) {
    throw Error("there is no NVIDIA driver", "--backend", "install one, or use --backend cpu");
  }
  if (driver / 1000 < runtime / 1000) {
    throw Error("the NVIDIA driver is for CUDA " + version(driver) + ", this build needs CUDA " +
                    version(runtime),
                "--backend", "install a newer driver, or use --backend cpu");
  }
}

std::string what_to_do(cudaError_t error) {
  // The first by a launch, the second where a kernel is asked about.
  if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction) {
    return "this build has no code for this device: build in a new folder with CUDAARCHS=native in "
           "the environment, or use --backend cpu";
  }
  return "if it lasts, use --backend cpu and report it";
}

void require_device() {
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result == cudaErrorNoDevice || (result == cudaSuccess && count == 0)) {
    throw Error("there is no CUDA device", "--backend",
                "check nvidia-smi and CUDA_VISIBLE_DEVICES, or use --backend cpu");
  }
  check(result, "cudaGetDeviceCount(&count)", __FILE__, __LINE__);
  cudaDeviceProp properties;
  ASSAY_CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
  if (properties.major < kOldestMajor) {
    throw Error("the device '" + std::string(properties.name) + "' has compute capability " +
                    std::to_string(properties.major) + "." + std::to_string(properties.minor) +
                    ", this build needs 8.0 or newer",
                "--backend", "use another device, or --backend cpu");
  }
}

void* take_block(size_t bytes) {
  void* address = nullptr;
  const cudaError_t result = cudaMalloc(&address, bytes);
  if (result == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    size_t available = 0;
    size_t total = 0;
    ASSAY_CUDA_CHECK(cudaMemGetInfo(&available, &total));
    throw Error("the device has no memory for " + mebibytes(bytes) + ": " + mebibytes(available) +
                    " of " + mebibytes(total) + " are free",
                "cuda",
                "use a model of fewer bits a weight, a shorter context, --kv f16, a smaller "
                "--batch, or --backend cpu");
  }
  check(result, "cudaMalloc(&address, bytes)", __FILE__, __LINE__);
  return address;
}

// A graph that was instantiated once.
class Graph final : public Recording {
 public:
  Graph(GraphHandle graph, const Device& device) : device_(device) {
    ASSAY_CUDA_CHECK(cudaGraphGetNodes(graph.get(), nullptr, &n_nodes_));
    cudaGraphExec_t executable = nullptr;
    ASSAY_CUDA_CHECK(cudaGraphInstantiate(&executable, graph.get(), 0));
    executable_.reset(executable);
  }

  void replay() override {
    device_.reject_while_recording("a replay");
    ASSAY_CUDA_CHECK(cudaGraphLaunch(executable_.get(), device_.stream()));
  }
  int64_t n_nodes() const override { return static_cast<int64_t>(n_nodes_); }

 private:
  const Device& device_;
  GraphExecutable executable_;
  size_t n_nodes_ = 0;
};

// Sets a flag while it lives.
class Flagged {
 public:
  explicit Flagged(bool& flag) : flag_(flag) { flag_ = true; }
  ~Flagged() { flag_ = false; }
  Flagged(const Flagged&) = delete;
  Flagged& operator=(const Flagged&) = delete;

 private:
  bool& flag_;
};

}  // namespace

void check(cudaError_t result, const char* call, const char* file, int line) {
  if (result == cudaSuccess) return;
  cudaGetLastError();  // clears the error: it is reported here, not by the next call
  throw Error(std::string(call) + " failed: " + cudaGetErrorString(result) + " (" +
                  cudaGetErrorName(result) + ")",
              std::string(file) + ":" + std::to_string(line), what_to_do(result));
}

Device::Device() : arena_({take_block, [](void* block) { cudaFree(block); }}) {
  require_driver();
  require_device();
  ASSAY_CUDA_CHECK(cudaSetDevice(0));
  cudaStream_t stream = nullptr;
  ASSAY_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  stream_.reset(stream);
  ASSAY_CUDA_CHECK(
      cudaDeviceGetAttribute(&most_shared_bytes_, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
  ASSAY_CUDA_CHECK(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, 0));
  ASSAY_CUDA_CHECK(cudaDeviceGetAttribute(&cache_bytes_, cudaDevAttrL2CacheSize, 0));
  int major = 0;
  ASSAY_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  can_start_early_ = major >= kOldestEarlyStart;
  void* words = nullptr;
  ASSAY_CUDA_CHECK(cudaMallocHost(&words, kChoices * sizeof(int32_t)));
  host_words_.reset(words);
  for (Event& mark : marks_) {
    cudaEvent_t event = nullptr;
    ASSAY_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    mark.reset(event);
  }
  copies_ = std::make_unique<StagedCopies>(stream);
}

// Errors of an asynchronous kernel would come back here once more: they were reported before.
Device::~Device() {
  cudaStreamSynchronize(stream());
}

void Device::reserve(std::span<const size_t> sizes) {
  size_t total = 0;
  for (const size_t size : sizes) total += arena_.rounded(size);
  arena_.reserve(total);
}

void* Device::allocate(size_t bytes) {
  reject_while_recording("an allocation");
  void* const piece = arena_.allocate(bytes);
  // Kernels copy 16 bytes at a time: what is behind the last of them is read, too, and left.
  const size_t behind = (16 - bytes % 16) % 16;
  if (behind > 0) {
    ASSAY_CUDA_CHECK(
        cudaMemsetAsync(static_cast<unsigned char*>(piece) + bytes, 0, behind, stream()));
  }
  return piece;
}

void Device::upload(const void* from, size_t bytes, void* to) {
  reject_while_recording("a copy");
  copies_->upload(from, bytes, to);
}

void Device::download(const void* from, size_t bytes, void* to) {
  reject_while_recording("a copy");
  copies_->download(from, bytes, to);
}

void Device::mark(int32_t slot) {
  reject_while_recording("a mark");
  ASSAY_CUDA_CHECK(cudaEventRecord(marks_.at(static_cast<size_t>(slot)).get(), stream()));
}

void Device::await(int32_t slot) {
  reject_while_recording("a wait");
  ASSAY_CUDA_CHECK(cudaEventSynchronize(marks_.at(static_cast<size_t>(slot)).get()));
}

void Device::reject_while_recording(const char* what) const {
  if (is_recording_) throw Error(std::string(what) + " while launches are recorded", "cuda");
}

std::unique_ptr<Recording> Device::record(const std::function<void()>& steps) {
  reject_while_recording("a recording");
  const Flagged is_recording(is_recording_);
  {
    const Flagged only_loads(only_loads_);
    steps();
  }
  cudaGraph_t graph = nullptr;
  ASSAY_CUDA_CHECK(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal));
  try {
    steps();
  } catch (...) {
    cudaStreamEndCapture(stream(), &graph);
    cudaGetLastError();  // of the capture that was broken off: not for the next launch to tell
    const GraphHandle unfinished(graph);
    throw;
  }
  const cudaError_t ended = cudaStreamEndCapture(stream(), &graph);
  GraphHandle whole(graph);
  check(ended, "cudaStreamEndCapture(stream(), &graph)", __FILE__, __LINE__);
  return std::make_unique<Graph>(std::move(whole), *this);
}

namespace {

void check_launch_of(std::string_view name, cudaError_t result) {
  if (result == cudaSuccess) return;
  throw Error("kernel " + std::string(name) + " cannot be launched: " + cudaGetErrorString(result) +
                  " (" + cudaGetErrorName(result) + ")",
              "cuda", what_to_do(result));
}

}  // namespace

void Device::enqueue(std::string_view name, const LaunchShape& shape, const void* kernel,
                     void** arguments) {
  load(name, kernel);
  if (only_loads_) return;
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream();
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &early;
  config.numAttrs = shape.starts_early && can_start_early_ ? 1 : 0;
  const cudaError_t result = cudaLaunchKernelExC(&config, kernel, arguments);
  if (result != cudaSuccess) cudaGetLastError();  // reported here, and not again by the next call
  check_launch_of(name, result);
}

Residency Device::residency_of(std::string_view name, const void* kernel, unsigned threads,
                               size_t shared_bytes) {
  load(name, kernel);
  unsigned& blocks = resident_[{kernel, shared_bytes}];
  if (blocks == 0) {
    int count = 0;
    const cudaError_t result = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &count, kernel, static_cast<int>(threads), shared_bytes);
    if (result != cudaSuccess) cudaGetLastError();  // reported here, and not again by the next call
    check_launch_of(name, result);
    blocks = count > 0 ? static_cast<unsigned>(count) : 1;  // 0: the launch will say what is wrong
  }
  return {multiprocessors(), blocks};
}

void Device::load(std::string_view name, const void* kernel) {
  if (loaded_.contains(kernel)) return;
  cudaFuncAttributes attributes = {};
  cudaError_t result = cudaFuncGetAttributes(&attributes, kernel);
  if (result == cudaSuccess) {
    const int dynamic = most_shared_bytes_ - static_cast<int>(attributes.sharedSizeBytes);
    result = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, dynamic);
  }
  if (result != cudaSuccess) cudaGetLastError();  // reported here, and not again by the next call
  check_launch_of(name, result);
  loaded_.insert(kernel);
}

}  // namespace assay::cuda
