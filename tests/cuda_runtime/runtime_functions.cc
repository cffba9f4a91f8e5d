// The functions of the CUDA runtime, on FakeCuda.

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/cuda_runtime/fake_cuda.h"

using assay::testing_support::FakeCuda;

namespace {

FakeCuda& fake() {
  return FakeCuda::get();
}

FakeCuda::Stream* stream_of(cudaStream_t handle, const char* what) {
  const auto found = fake().streams.find(handle);
  if (found != fake().streams.end()) return &found->second;
  fake().misuse(std::string(what) + " of a stream that does not exist");
  return nullptr;
}

// Puts work into a stream, or into its capture.
cudaError_t put(FakeCuda::Stream* stream, std::function<void()> work) {
  if (stream == nullptr) return fake().report(cudaErrorInvalidResourceHandle);
  if (stream->is_captured) {
    stream->captured.push_back(std::move(work));
  } else {
    stream->work.push_back({std::move(work)});
  }
  return cudaSuccess;
}

// Gives back a handle of `from`; a failure that was asked for is returned all the same.
template <class Handles>
cudaError_t give_back(Handles& from, const void* handle, const char* name) {
  const cudaError_t failed = fake().enter(name);
  if (from.erase(handle) == 0) fake().misuse(std::string(name) + " of what does not exist");
  return failed;
}

}  // namespace

#define ENTER()                                                                   \
  if (const cudaError_t failed = fake().enter(__func__); failed != cudaSuccess) { \
    return failed;                                                                \
  }                                                                               \
  static_assert(true)

#define NOT_WHILE_CAPTURING()                                                        \
  if (const cudaError_t refused = fake().break_captures(); refused != cudaSuccess) { \
    return refused;                                                                  \
  }                                                                                  \
  static_assert(true)

cudaError_t cudaDriverGetVersion(int* version) {
  ENTER();
  *version = fake().machine.driver;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  ENTER();
  *version = fake().machine.runtime;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  ENTER();
  *count = fake().machine.devices;
  return *count == 0 ? fake().report(cudaErrorNoDevice) : cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int /*device*/) {
  ENTER();
  *properties = {};
  properties->major = fake().machine.major;
  std::snprintf(properties->name, sizeof(properties->name), "a device");
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  ENTER();
  return device < fake().machine.devices ? cudaSuccess : fake().report(cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int /*device*/) {
  ENTER();
  switch (attribute) {
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = fake().machine.most_shared_bytes;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = fake().machine.multiprocessors;
      return cudaSuccess;
    case cudaDevAttrL2CacheSize:
      *value = fake().machine.cache_bytes;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = fake().machine.major;
      return cudaSuccess;
    default:
      return fake().report(cudaErrorInvalidValue);
  }
}

// As many as have the shared memory of a block that is given the most.
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel,
                                                          int threads, size_t dynamic_bytes) {
  ENTER();
  const FakeCuda::Kernel* const found = fake().kernel(kernel);
  if (found == nullptr) return fake().report(cudaErrorInvalidDeviceFunction);
  const size_t bytes = found->static_bytes + dynamic_bytes;
  const auto most = static_cast<size_t>(fake().machine.most_shared_bytes);
  *blocks = bytes > most || threads > found->most_threads
                ? 0
                : static_cast<int>(bytes == 0 ? size_t{32} : most / bytes);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** address, size_t bytes) {
  ENTER();
  NOT_WHILE_CAPTURING();
  size_t used = 0;
  for (const auto& [first, size] : fake().device_memory) used += size;
  if (bytes > fake().machine.memory_bytes - used) {
    return fake().report(cudaErrorMemoryAllocation);
  }
  *address = fake().take(fake().device_memory, bytes);
  return cudaSuccess;
}

cudaError_t cudaFree(void* address) {
  const cudaError_t failed = fake().enter(__func__);
  fake().give_back(fake().device_memory, address, __func__);
  return failed;
}

cudaError_t cudaMallocHost(void** address, size_t bytes) {
  ENTER();
  NOT_WHILE_CAPTURING();
  size_t used = 0;
  for (const auto& [first, size] : fake().pinned_memory) used += size;
  if (bytes > fake().machine.pinned_bytes - used) {
    return fake().report(cudaErrorMemoryAllocation);
  }
  *address = fake().take(fake().pinned_memory, bytes);
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* address) {
  const cudaError_t failed = fake().enter(__func__);
  fake().give_back(fake().pinned_memory, address, __func__);
  return failed;
}

cudaError_t cudaMemGetInfo(size_t* available, size_t* total) {
  ENTER();
  size_t used = 0;
  for (const auto& [first, size] : fake().device_memory) used += size;
  *total = fake().machine.memory_bytes;
  *available = *total - used;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
  ENTER();
  const void* const handle = fake().make_handle();
  fake().streams[handle];
  *stream = static_cast<cudaStream_t>(const_cast<void*>(handle));
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return give_back(fake().streams, stream, __func__);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  ENTER();
  if (stream_of(stream, __func__) == nullptr) return fake().report(cudaErrorInvalidResourceHandle);
  NOT_WHILE_CAPTURING();
  return fake().finish();
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  ENTER();
  const void* const handle = fake().make_handle();
  fake().events.insert(handle);
  *event = static_cast<cudaEvent_t>(const_cast<void*>(handle));
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return give_back(fake().events, event, __func__);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  ENTER();
  FakeCuda::Stream* const stream = stream_of(handle, __func__);
  if (stream == nullptr || !fake().events.contains(event)) {
    return fake().report(cudaErrorInvalidResourceHandle);
  }
  if (!stream->is_captured) stream->work.push_back({nullptr, event});
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  ENTER();
  if (!fake().events.contains(event)) return fake().report(cudaErrorInvalidResourceHandle);
  NOT_WHILE_CAPTURING();
  return fake().finish(event);
}

// The memory is looked at when the copy is done, as a device does.
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  ENTER();
  const bool is_upload = kind == cudaMemcpyHostToDevice;
  const bool is_download = kind == cudaMemcpyDeviceToHost;
  if (!is_upload && !is_download) return fake().report(cudaErrorInvalidMemcpyDirection);
  const void* const device = is_upload ? to : from;
  const void* const host = is_upload ? from : to;
  if (!fake().holds(fake().device_memory, device, bytes)) {
    return fake().report(cudaErrorInvalidValue);
  }
  if (!fake().holds(fake().pinned_memory, host, bytes)) {
    fake().misuse("an asynchronous copy of memory that is not pinned");
  }
  return put(stream_of(stream, __func__), [=] { std::memcpy(to, from, bytes); });
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  ENTER();
  if (!fake().holds(fake().device_memory, to, bytes)) {
    return fake().report(cudaErrorInvalidValue);
  }
  return put(stream_of(stream, __func__), [=] { std::memset(to, value, bytes); });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  ENTER();
  FakeCuda::Kernel* const found = fake().kernel(kernel);
  if (found == nullptr) return fake().report(cudaErrorInvalidDeviceFunction);
  if (!found->is_loaded) NOT_WHILE_CAPTURING();
  found->is_loaded = true;
  *attributes = {};
  attributes->sharedSizeBytes = found->static_bytes;
  attributes->maxThreadsPerBlock = found->most_threads;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  ENTER();
  FakeCuda::Kernel* const found = fake().kernel(kernel);
  if (found == nullptr) return fake().report(cudaErrorInvalidDeviceFunction);
  const auto bytes = static_cast<size_t>(value);
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
      bytes + found->static_bytes > static_cast<size_t>(fake().machine.most_shared_bytes)) {
    return fake().report(cudaErrorInvalidValue);
  }
  found->dynamic_bytes = bytes;
  return cudaSuccess;
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel,
                                void** arguments) {
  ENTER();
  FakeCuda::Kernel* const found = fake().kernel(kernel);
  if (found == nullptr) return fake().report(cudaErrorInvalidDeviceFunction);
  if (!found->is_loaded) NOT_WHILE_CAPTURING();
  found->is_loaded = true;
  const dim3& block = config->blockDim;
  if (block.x * block.y * block.z > static_cast<unsigned>(found->most_threads)) {
    return fake().report(cudaErrorLaunchOutOfResources);
  }
  if (config->dynamicSmemBytes > found->dynamic_bytes) {
    return fake().report(cudaErrorInvalidValue);
  }
  return put(stream_of(config->stream, __func__), found->bind(arguments));
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode /*mode*/) {
  ENTER();
  FakeCuda::Stream* const stream = stream_of(handle, __func__);
  if (stream == nullptr || stream->is_captured) return fake().report(cudaErrorIllegalState);
  stream->is_captured = true;
  stream->is_capture_broken = false;
  stream->captured.clear();
  return cudaSuccess;
}

// A failure that was asked for ends the capture all the same.
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  const cudaError_t failed = fake().enter(__func__);
  FakeCuda::Stream* const stream = stream_of(handle, __func__);
  if (stream == nullptr || !stream->is_captured) return fake().report(cudaErrorIllegalState);
  stream->is_captured = false;
  *graph = nullptr;
  if (stream->is_capture_broken) return fake().report(cudaErrorStreamCaptureInvalidated);
  if (failed != cudaSuccess) return failed;
  const void* const made = fake().make_handle();
  fake().graphs[made] = stream->captured;
  *graph = static_cast<cudaGraph_t>(const_cast<void*>(made));
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* /*nodes*/, size_t* count) {
  ENTER();
  const auto found = fake().graphs.find(graph);
  if (found == fake().graphs.end()) return fake().report(cudaErrorInvalidValue);
  *count = found->second.size();
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long /*flags*/) {
  ENTER();
  const auto found = fake().graphs.find(graph);
  if (found == fake().graphs.end()) return fake().report(cudaErrorInvalidValue);
  const void* const made = fake().make_handle();
  fake().executables[made] = found->second;
  *executable = static_cast<cudaGraphExec_t>(const_cast<void*>(made));
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return give_back(fake().graphs, graph, __func__);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return give_back(fake().executables, executable, __func__);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t handle) {
  ENTER();
  FakeCuda::Stream* const stream = stream_of(handle, __func__);
  const auto found = fake().executables.find(executable);
  if (stream == nullptr || found == fake().executables.end()) {
    return fake().report(cudaErrorInvalidValue);
  }
  NOT_WHILE_CAPTURING();
  for (const auto& work : found->second) stream->work.push_back({work});
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  return fake().take_last_error();
}

const char* cudaGetErrorString(cudaError_t /*error*/) {
  return "the text of the error";
}

const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorUnknown ? "cudaErrorUnknown" : "cudaErrorOther";
}
