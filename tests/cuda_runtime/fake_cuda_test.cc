// That the fake runtime refuses what a real one does: what it lets pass, no test of the device
// layer could find.

#include "tests/cuda_runtime/fake_cuda.h"

#include <gtest/gtest.h>

namespace assay::testing_support {
namespace {

void kernel(int* at) {
  *at = 1;
}

class FakeCudaTest : public testing::Test {
 protected:
  FakeCudaTest() {
    fake_.begin({});
    fake_.add_kernel(kernel, 64, 0);
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, 0), cudaSuccess);
  }
  cudaError_t launch(unsigned threads, size_t shared_bytes = 0) {
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1);
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream_;
    int* at = &value_;
    void* arguments[] = {&at};
    return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel), arguments);
  }

  FakeCuda& fake_ = FakeCuda::get();
  cudaStream_t stream_ = nullptr;
  int value_ = 0;
};

TEST_F(FakeCudaTest, WorkIsDoneWhenItIsWaitedFor) {
  ASSERT_EQ(launch(1), cudaSuccess);
  EXPECT_EQ(value_, 0);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(value_, 1);
}

TEST_F(FakeCudaTest, LaunchesBeyondBoundsAndLimits) {
  EXPECT_EQ(launch(65), cudaErrorLaunchOutOfResources);
  EXPECT_EQ(launch(1, 48 * 1024 + 1), cudaErrorInvalidValue);
  const auto* const address = reinterpret_cast<const void*>(kernel);
  EXPECT_EQ(cudaFuncSetAttribute(address, cudaFuncAttributeMaxDynamicSharedMemorySize, 60 * 1024),
            cudaSuccess);
  EXPECT_EQ(launch(1, 60 * 1024), cudaSuccess);
  EXPECT_EQ(cudaFuncSetAttribute(address, cudaFuncAttributeMaxDynamicSharedMemorySize, 228 * 1024),
            cudaErrorInvalidValue);
}

TEST_F(FakeCudaTest, ACaptureRefusesWhatAStreamRefuses) {
  const auto capture = [&](auto step) {
    EXPECT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    const cudaError_t result = step();
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(stream_, &graph);
    EXPECT_EQ(ended == cudaSuccess, result == cudaSuccess);
    EXPECT_EQ(graph == nullptr, result != cudaSuccess);
    if (graph != nullptr) cudaGraphDestroy(graph);
    return result;
  };
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, 0), cudaSuccess);
  void* memory = nullptr;
  EXPECT_EQ(capture([&] { return launch(1); }), cudaErrorStreamCaptureUnsupported);  // its first
  EXPECT_EQ(launch(1), cudaSuccess);
  EXPECT_EQ(capture([&] { return launch(1); }), cudaSuccess);
  EXPECT_EQ(capture([&] { return cudaMalloc(&memory, 1); }), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(capture([&] { return cudaMallocHost(&memory, 1); }), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(capture([&] { return cudaStreamSynchronize(stream_); }),
            cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(capture([&] { return cudaEventSynchronize(event); }),
            cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorIllegalState);
  EXPECT_TRUE(fake_.misuses().empty());
}

TEST_F(FakeCudaTest, LeaksAndMisusesAreKept) {
  EXPECT_EQ(fake_.leaks(), "1 streams, ");
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 100), cudaSuccess);
  EXPECT_EQ(fake_.leaks(), "1 allocations, 1 streams, ");
  char host[4];
  EXPECT_EQ(
      cudaMemcpyAsync(host, static_cast<char*>(memory) + 97, 4, cudaMemcpyDeviceToHost, stream_),
      cudaErrorInvalidValue);
  EXPECT_EQ(fake_.take_last_error(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(host, memory, 4, cudaMemcpyDeviceToHost, stream_), cudaSuccess);
  EXPECT_EQ(fake_.misuses().size(), 1U);  // memory that is not pinned
  cudaFree(memory);
  cudaFree(memory);
  cudaStreamDestroy(stream_);
  cudaStreamDestroy(stream_);
  EXPECT_EQ(fake_.misuses().size(), 3U);
  EXPECT_EQ(fake_.leaks(), "");
}

TEST_F(FakeCudaTest, TheCallThatWasAskedForFails) {
  fake_.fail(fake_.calls().size() + 2, cudaErrorUnknown);
  int count = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorUnknown);
  EXPECT_EQ(cudaGetLastError(), cudaErrorUnknown);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(fake_.calls().back(), "cudaGetDeviceCount");
}

}  // namespace
}  // namespace assay::testing_support
