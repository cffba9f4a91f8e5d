#include <string>

#include "base/error.h"
#include "kernels/cuda/device.h"

namespace assay::cuda {
namespace {

constexpr int kOldestMajor = 8;  // sm_80

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

void require_device() {
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result == cudaErrorNoDevice || (result == cudaSuccess && count == 0)) {
    throw Error("there is no CUDA device", "--backend",
                "check nvidia-smi and CUDA_VISIBLE_DEVICES, or use --backend cpu");
  }
  ASSAY_CUDA_CHECK(result);
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
  ASSAY_CUDA_CHECK(result);
  return address;
}

// A graph that was instantiated once.
class Graph final : public Recording {
 public:
  Graph(cudaGraph_t graph, cudaStream_t stream) : stream_(stream) {
    const cudaError_t counted = cudaGraphGetNodes(graph, nullptr, &n_nodes_);
    const cudaError_t made = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    ASSAY_CUDA_CHECK(counted);
    ASSAY_CUDA_CHECK(made);
  }
  ~Graph() override { cudaGraphExecDestroy(executable_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void replay() override { ASSAY_CUDA_CHECK(cudaGraphLaunch(executable_, stream_)); }
  int64_t n_nodes() const override { return static_cast<int64_t>(n_nodes_); }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t executable_ = nullptr;
  size_t n_nodes_ = 0;
};

}  // namespace

void check(cudaError_t result, const char* call, const char* file, int line) {
  if (result == cudaSuccess) return;
  cudaGetLastError();  // the error is told here, and not again by the next call
  throw Error(std::string(call) + " failed: " + cudaGetErrorString(result) + " (" +
                  cudaGetErrorName(result) + ")",
              std::string(file) + ":" + std::to_string(line),
              "if it lasts, use --backend cpu and report it");
}

Device::Device() : arena_({take_block, [](void* block) { cudaFree(block); }}) {
  require_driver();
  require_device();
  ASSAY_CUDA_CHECK(cudaSetDevice(0));
  ASSAY_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  ASSAY_CUDA_CHECK(
      cudaDeviceGetAttribute(&most_shared_bytes_, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
  ASSAY_CUDA_CHECK(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, 0));
  int major = 0;
  ASSAY_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  can_start_early_ = major >= 9;
  ASSAY_CUDA_CHECK(cudaHostAlloc(reinterpret_cast<void**>(&host_words_), kChoices * sizeof(int32_t),
                                 cudaHostAllocMapped));
  for (cudaEvent_t& mark : marks_) {
    ASSAY_CUDA_CHECK(cudaEventCreateWithFlags(&mark, cudaEventDisableTiming));
  }
  copies_ = std::make_unique<StagedCopies>(stream_);
}

// Errors of an asynchronous kernel would come back here once more: they were reported before.
Device::~Device() {
  cudaStreamSynchronize(stream_);
  copies_.reset();
  for (const cudaEvent_t mark : marks_) cudaEventDestroy(mark);
  cudaFreeHost(host_words_);
  cudaStreamDestroy(stream_);
}

void Device::reserve(std::span<const size_t> sizes) {
  size_t total = 0;
  for (const size_t size : sizes) total += arena_.rounded(size);
  arena_.reserve(total);
}

void Device::upload(const void* from, size_t bytes, void* to) {
  copies_->upload(from, bytes, to);
}

void Device::download(const void* from, size_t bytes, void* to) {
  copies_->download(from, bytes, to);
}

void Device::reject_while_recording(const char* what) const {
  if (only_loads_) throw Error(std::string(what) + " while launches are recorded", "cuda");
}

std::unique_ptr<Recording> Device::record(const std::function<void()>& steps) {
  only_loads_ = true;
  try {
    steps();
  } catch (...) {
    only_loads_ = false;
    throw;
  }
  only_loads_ = false;
  cudaGraph_t graph = nullptr;
  ASSAY_CUDA_CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  try {
    steps();
  } catch (...) {
    cudaStreamEndCapture(stream_, &graph);
    cudaGetLastError();  // of the capture that was broken off: not for the next launch to tell
    if (graph != nullptr) cudaGraphDestroy(graph);
    throw;
  }
  ASSAY_CUDA_CHECK(cudaStreamEndCapture(stream_, &graph));
  return std::make_unique<Graph>(graph, stream_);
}

namespace {

void check_launch_of(std::string_view name, cudaError_t result) {
  if (result == cudaSuccess) return;
  throw Error("kernel " + std::string(name) + " cannot be launched: " + cudaGetErrorString(result) +
                  " (" + cudaGetErrorName(result) + ")",
              "cuda", "if it lasts, use --backend cpu and report it");
}

}  // namespace

void Device::check_launch(std::string_view name, cudaError_t result) {
  if (result != cudaSuccess) cudaGetLastError();  // reported here, and not again by the next call
  check_launch_of(name, result);
}

Residency Device::residency(std::string_view name, const void* kernel, unsigned threads,
                            size_t shared_bytes) {
  load(name, kernel);
  unsigned& blocks = resident_[{kernel, shared_bytes}];
  if (blocks == 0) {
    int count = 0;
    check_launch(name, cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                           &count, kernel, static_cast<int>(threads), shared_bytes));
    blocks = count > 0 ? static_cast<unsigned>(count) : 1;  // 0: the launch will say what is wrong
  }
  return {static_cast<unsigned>(multiprocessors_), blocks};
}

void Device::load(std::string_view name, const void* kernel) {
  if (loaded_.contains(kernel)) return;
  cudaFuncAttributes attributes = {};
  cudaError_t result = cudaFuncGetAttributes(&attributes, kernel);
  if (result == cudaSuccess) {
    const int dynamic = most_shared_bytes_ - static_cast<int>(attributes.sharedSizeBytes);
    result = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, dynamic);
  }
  check_launch(name, result);
  loaded_.insert(kernel);
}

}  // namespace assay::cuda
