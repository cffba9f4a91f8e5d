// The device layer on a fake runtime. What would break: a failing call that is not reported or that
// leaves something behind, a buffer that is filled again while it is copied, a capture that a real
// stream refuses, a launch with more shared memory than the kernel was allowed.

#include "kernels/cuda/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "kernels/cuda/staged_copies.h"
#include "tests/cuda_runtime/fake_cuda.h"

namespace assay::cuda {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;
using testing_support::FakeCuda;

constexpr size_t kMiB = size_t{1} << 20;

// Stand for kernels: the fake runs them in one thread, when the stream comes to them.
void add(float* data, int64_t count, float value) {
  for (int64_t i = 0; i < count; ++i) data[i] += value;
}
void set_to_two(int* at) {
  *at = 2;
}
void set_word(int32_t* at, int32_t value) {
  *at = value;
}
void fails() {
  throw cudaErrorIllegalAddress;
}

LaunchShape shape(unsigned threads, size_t shared_bytes = 0) {
  return {dim3(1), dim3(threads), shared_bytes};
}

class CudaDeviceTest : public testing::Test {
 protected:
  CudaDeviceTest() { begin({}); }
  ~CudaDeviceTest() override {
    EXPECT_EQ(fake_.leaks(), "");
    EXPECT_THAT(fake_.misuses(), IsEmpty());
  }

  void begin(const FakeCuda::Machine& machine) {
    fake_.begin(machine);
    fake_.add_kernel(add, 256, 1024);
    fake_.add_kernel(set_to_two, 256, 0);
    fake_.add_kernel(set_word, 256, 0);
    fake_.add_kernel(fails, 256, 0);
  }

  FakeCuda& fake_ = FakeCuda::get();
};

std::vector<float> ascending(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

// All that the layer does: a large copy, launches, a recording that is replayed, a copy back.
void live() {
  Device device;
  const size_t count = 5 * kMiB / 2;
  const std::vector<size_t> sizes = {70 * kMiB, count * sizeof(float)};
  device.reserve(sizes);
  Buffer<float> data(device, count);
  Buffer<int> flag(device, 1);
  const std::vector<float> host = ascending(count);
  device.upload(host.data(), data.bytes(), data.data());
  device.mark(0);
  device.await(0);
  ASSERT_EQ(device.residency("add", add, 256, 0).multiprocessors, 132U);
  device.launch("add", shape(256), add, data.data(), static_cast<int64_t>(count), 1.0F);
  const auto recording = device.record([&] {
    device.launch("add", shape(256), add, data.data(), int64_t{1}, 10.0F);
    device.launch("set_to_two", shape(1), set_to_two, flag.data());
  });
  ASSERT_EQ(recording->n_nodes(), 2);
  recording->replay();
  recording->replay();
  std::vector<float> got(count);
  device.download(data.data(), data.bytes(), got.data());
  int two = 0;
  device.download(flag.data(), sizeof(two), &two);
  ASSERT_EQ(two, 2);
  ASSERT_EQ(got[0], 21.0F);
  ASSERT_TRUE(std::equal(got.begin() + 1, got.end(), host.begin() + 1,
                         [](float sum, float value) { return sum == value + 1.0F; }));
}

TEST_F(CudaDeviceTest, CopiesLaunchesAndReplays) {
  live();
}

// The host reads what was launched before a mark while what came after it has not run.
TEST_F(CudaDeviceTest, WaitsForAMarkAndNotForWhatCameAfterIt) {
  Device device;
  int32_t* const words = device.host_words();
  words[0] = words[1] = 0;
  device.launch("set_word", shape(1), set_word, words, 5);
  device.mark(0);
  device.launch("set_word", shape(1), set_word, words + 1, 6);
  device.mark(1);
  device.await(0);
  EXPECT_EQ(words[0], 5);
  EXPECT_EQ(words[1], 0) << "the fake does nothing before somebody waits for it";
  device.await(1);
  EXPECT_EQ(words[1], 6);
}

// As many blocks as find room beside a kernel's own shared memory; one where none does, so that the
// launch is what fails.
// A kernel that copies 16 bytes at a time reads up to 15 behind an allocation.
TEST_F(CudaDeviceTest, WhatIsReadBehindAnAllocationIsWritten) {
  Device device;
  std::vector<unsigned char> bytes(128, 0xFF);
  void* const before = device.allocate(bytes.size());
  device.upload(bytes.data(), bytes.size(), before);
  device.release(before);
  void* const piece = device.allocate(100);
  ASSERT_EQ(piece, before);
  device.download(piece, bytes.size(), bytes.data());
  EXPECT_EQ(std::count(bytes.begin() + 100, bytes.begin() + 112, 0), 12);
  EXPECT_EQ(bytes[99], 0xFF);
  EXPECT_EQ(bytes[112], 0xFF);
}

TEST_F(CudaDeviceTest, CountsTheBlocksThatFindRoom) {
  Device device;
  EXPECT_EQ(device.residency("add", add, 256, 100 * 1024).blocks, 2U);
  EXPECT_EQ(device.residency("add", add, 256, 120 * 1024).blocks, 1U);
  EXPECT_EQ(device.residency("add", add, 256, 300 * 1024).blocks, 1U);
}

// Of calls that clean up, an error cannot be reported.
bool gives_back(const std::string& call) {
  static const std::set<std::string> calls = {"cudaFree",          "cudaFreeHost",
                                              "cudaStreamDestroy", "cudaEventDestroy",
                                              "cudaGraphDestroy",  "cudaGraphExecDestroy"};
  return calls.contains(call);
}

// How an Error names the call.
std::vector<std::string> names_of(const std::string& call) {
  if (call == "cudaLaunchKernelExC" || call == "cudaFuncGetAttributes" ||
      call == "cudaOccupancyMaxActiveBlocksPerMultiprocessor" || call == "cudaFuncSetAttribute") {
    return {"kernel add cannot be launched: the text of the error (cudaErrorUnknown)",
            "kernel set_to_two cannot be launched: the text of the error (cudaErrorUnknown)"};
  }
  return {call + "("};
}

TEST_F(CudaDeviceTest, EachCallThatFailsIsAnErrorAndLeaksNothing) {
  live();
  const std::vector<std::string> calls = fake_.calls();
  // ~Device waits for the stream, whose errors were reported before.
  const auto last_wait = std::find(calls.rbegin(), calls.rend(), "cudaStreamSynchronize");
  std::set<std::string> failed;
  for (size_t i = 0; i < calls.size(); ++i) {
    SCOPED_TRACE("call " + std::to_string(i + 1) + ", " + calls[i]);
    begin({});
    fake_.fail(i + 1, cudaErrorUnknown);
    if (gives_back(calls[i]) || &calls[i] == &*last_wait) {
      EXPECT_NO_THROW(live());
    } else {
      std::string message;
      try {
        live();
      } catch (const Error& error) {
        message = error.what();
      }
      const auto names = names_of(calls[i]);
      EXPECT_TRUE(std::ranges::any_of(
          names, [&](const std::string& name) { return message.find(name) != message.npos; }))
          << "said: " << message;
      EXPECT_EQ(fake_.last_error(), cudaSuccess) << "the next call would report it again";
      failed.insert(calls[i]);
    }
    EXPECT_EQ(fake_.leaks(), "");
    EXPECT_THAT(fake_.misuses(), IsEmpty());
    EXPECT_NO_THROW(live());  // the error is not there once more
  }
  EXPECT_GE(failed.size(), 20U);
}

TEST_F(CudaDeviceTest, NoDriverNoDeviceOrTooOldAreSaidWithWhatToDo) {
  const auto says = [&](const FakeCuda::Machine& machine, const std::string& what) {
    begin(machine);
    EXPECT_THAT([] { const Device device; },
                ThrowsMessage<Error>(AllOf(HasSubstr(what), HasSubstr("--backend cpu"))));
  };
  says({.driver = 0}, "there is no NVIDIA driver");
  says({.driver = 12040}, "the NVIDIA driver is for CUDA 12.4, this build needs CUDA 13.0");
  says({.devices = 0}, "there is no CUDA device");
  says({.major = 7}, "the device 'a device' has compute capability 7.0");
}

TEST_F(CudaDeviceTest, ABuildForOtherDevicesSaysHowToBuildForThisOne) {
  live();
  const std::vector<std::string> calls = fake_.calls();
  const auto first_of_a_kernel = std::ranges::find(calls, "cudaFuncGetAttributes");
  ASSERT_NE(first_of_a_kernel, calls.end());
  for (const cudaError_t error :
       {cudaErrorNoKernelImageForDevice, cudaErrorInvalidDeviceFunction}) {
    begin({});
    fake_.fail(static_cast<size_t>(first_of_a_kernel - calls.begin()) + 1, error);
    EXPECT_THAT([&] { live(); }, ThrowsMessage<Error>(HasSubstr("CUDAARCHS=native"))) << error;
  }
}

// The message has the bytes asked for and those available; less than a block is tried for.
TEST_F(CudaDeviceTest, TooLittleMemory) {
  begin({.memory_bytes = 100 * kMiB});
  Device device;
  EXPECT_THAT([&] { device.allocate(200 * kMiB); },
              ThrowsMessage<Error>(
                  HasSubstr("the device has no memory for 200 MiB: 100 MiB of 100 MiB are free")));
  EXPECT_EQ(fake_.last_error(), cudaSuccess);
  Buffer<std::byte> most(device, 60 * kMiB);
  Buffer<std::byte> rest(device, 30 * kMiB);
  EXPECT_NE(rest.data(), nullptr);
}

TEST_F(CudaDeviceTest, TooLittlePinnedMemory) {
  begin({.pinned_bytes = 12 * kMiB});
  EXPECT_THAT([] { const Device device; }, ThrowsMessage<Error>(HasSubstr("cudaMallocHost(")));
}

// A device may have more memory than the host looks at: what a kernel did wrong comes late.
TEST_F(CudaDeviceTest, AFaultOfAKernelIsReportedByWhatWaitsNext) {
  Device device;
  Buffer<float> data(device, 4);
  device.launch("fails", shape(1), fails);
  float value = 0.0F;
  EXPECT_THAT([&] { device.download(data.data(), sizeof(value), &value); },
              ThrowsMessage<Error>(HasSubstr("cudaStreamSynchronize(")));
}

// Three buffers' worth, each other than the one before: a buffer that is filled while it is still
// copied sends the wrong one.
class CudaCopiesTest : public CudaDeviceTest {
 protected:
  static constexpr size_t kCount = 12 * kMiB;  // floats; a pinned buffer takes 2 Mi

  static bool arrives(Device& device) {
    Buffer<float> data(device, kCount);
    std::vector<float> host = ascending(kCount);
    device.upload(host.data(), data.bytes(), data.data());
    std::fill(host.begin(), host.end(), -1.0F);  // it may change now
    std::vector<float> got(kCount);
    device.download(data.data(), data.bytes(), got.data());
    return got == ascending(kCount);
  }
};

TEST_F(CudaCopiesTest, LateCopiesBringWhatWasThere) {
  Device device;
  EXPECT_TRUE(arrives(device));
  EXPECT_TRUE(arrives(device));
}

// That the test above would see a buffer that is not waited for.
TEST_F(CudaCopiesTest, LateCopiesWithoutWaitingAreWrong) {
  Device device;
  fake_.wait_for_no_event();
  EXPECT_FALSE(arrives(device));
}

TEST_F(CudaCopiesTest, UploadsAreNotWaitedFor) {
  Device device;
  Buffer<float> data(device, 4);
  const std::vector<float> host = {1.0F, 2.0F, 3.0F, 4.0F};
  device.upload(host.data(), data.bytes(), data.data());
  EXPECT_NE(data.data()[3], 4.0F);  // it is still to come
  float last = 0.0F;
  device.download(data.data() + 3, sizeof(last), &last);
  EXPECT_EQ(last, 4.0F);
}

// What a graph would repeat, or a stream that is captured refuses.
TEST_F(CudaDeviceTest, WhatCannotBeRecorded) {
  Device device;
  Buffer<float> data(device, 4);
  float host = 0.0F;
  const auto nothing = device.record([] {});
  const auto rejects = [&](const std::function<void()>& step, const std::string& what) {
    EXPECT_THAT([&] { device.record(step); },
                ThrowsMessage<Error>(HasSubstr(what + " while launches are recorded")));
    EXPECT_EQ(fake_.last_error(), cudaSuccess);
  };
  rejects([&] { device.upload(&host, sizeof(host), data.data()); }, "a copy");
  rejects([&] { device.download(data.data(), sizeof(host), &host); }, "a copy");
  rejects([&] { device.allocate(4); }, "an allocation");
  rejects([&] { nothing->replay(); }, "a replay");
  rejects([&] { device.record([] {}); }, "a recording");
  // And nothing of it stays.
  device.upload(&host, sizeof(host), data.data());
  const auto one =
      device.record([&] { device.launch("add", shape(1), add, data.data(), int64_t{1}, 1.0F); });
  EXPECT_EQ(one->n_nodes(), 1);
}

// An error in the second pass of the steps, in which launches are captured, ends the capture.
TEST_F(CudaDeviceTest, StepsThatFailEndTheCapture) {
  Device device;
  int passes = 0;
  EXPECT_THAT(
      [&] {
        device.record([&] {
          if (++passes == 2) throw Error("a step failed", "here");
        });
      },
      ThrowsMessage<Error>(HasSubstr("a step failed")));
  EXPECT_EQ(device.record([] {})->n_nodes(), 0);
}

// A kernel that comes first within a recording is loaded before the capture begins, and runs when
// it is replayed, not before.
TEST_F(CudaDeviceTest, TheFirstLaunchOfAKernelMayBeRecorded) {
  Device device;
  Buffer<int> flag(device, 1);
  const int one = 1;
  device.upload(&one, sizeof(one), flag.data());
  const auto recording =
      device.record([&] { device.launch("set_to_two", shape(1), set_to_two, flag.data()); });
  int value = 0;
  device.download(flag.data(), sizeof(value), &value);
  EXPECT_EQ(value, 1);
  recording->replay();
  device.download(flag.data(), sizeof(value), &value);
  EXPECT_EQ(value, 2);
}

// Beside 1024 bytes of its own, of the 227 KiB that the device gives a block.
TEST_F(CudaDeviceTest, ABlockMayHaveAsMuchSharedMemoryAsTheDeviceGives) {
  Device device;
  Buffer<float> data(device, 1);
  const size_t most = 232448 - 1024;
  const auto launch = [&](unsigned threads, size_t bytes) {
    device.launch("add", shape(threads, bytes), add, data.data(), int64_t{1}, 1.0F);
  };
  EXPECT_NO_THROW(launch(256, most));
  EXPECT_THAT([&] { launch(256, most + 1); },
              ThrowsMessage<Error>(HasSubstr("kernel add cannot be launched")));
  EXPECT_THAT([&] { launch(257, 0); },
              ThrowsMessage<Error>(HasSubstr("kernel add cannot be launched")));
  EXPECT_NO_THROW(launch(1, 0));
}

}  // namespace
}  // namespace assay::cuda
