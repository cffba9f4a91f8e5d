// The emulated matrix instruction against matrices multiplied one element at a time, laid out over
// the lanes of a warp as the PTX ISA has it for mma.m16n8k16 with .s8.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "kernels/cuda/language.h"

namespace assay::emulated {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int kRows = 16;
constexpr int kColumns = 8;
constexpr int kDepth = 16;

// Each lane's registers: two of a, one of b; four sums.
__global__ void multiply(Global<const uint32_t> a, Global<const uint32_t> b, Global<int32_t> sums) {
  const int lane = static_cast<int>(threadIdx.x);
  const uint32_t of_a[2] = {a[lane * 2], a[lane * 2 + 1]};
  int32_t own[4];
  for (int i = 0; i < 4; ++i) own[i] = sums[lane * 4 + i];
  multiply_16x16x8(of_a, b[lane], own);
  for (int i = 0; i < 4; ++i) sums[lane * 4 + i] = own[i];
}

__global__ void multiply_by_half_a_warp(Global<int32_t> sums) {
  const uint32_t a[2] = {1, 1};
  int32_t own[4] = {};
  if (threadIdx.x < 16) multiply_16x16x8(a, 1, own);
  sums[static_cast<int64_t>(threadIdx.x)] = own[0];
}

class TensorCores : public testing::TestWithParam<uint64_t> {
 protected:
  template <class T>
  T* place(const std::vector<T>& values) {
    buffers_.emplace_back(device_, values.size() * sizeof(T));
    device_.upload(values.data(), values.size() * sizeof(T), buffers_.back().data());
    return reinterpret_cast<T*>(buffers_.back().data());
  }
  void launch(unsigned threads, auto kernel, auto... arguments) {
    ASSAY_LAUNCH(device_, (LaunchShape{{1, 1, 1}, {threads, 1, 1}, 0}), kernel, arguments...);
  }

  Device device_{GetParam()};
  std::vector<Buffer<std::byte>> buffers_;
};
INSTANTIATE_TEST_SUITE_P(Emulated, TensorCores, testing::Values(0, 1, 12345));

TEST_P(TensorCores, MultiplyAsMatricesDo) {
  std::mt19937 random(7);
  const auto byte = [&] { return static_cast<int>(random() % 256) - 128; };
  int a[kRows][kDepth];
  int b[kDepth][kColumns];
  int want[kRows][kColumns];
  for (auto& row : a)
    for (int& value : row) value = byte();
  for (auto& row : b)
    for (int& value : row) value = byte();
  a[3][5] = b[5][3] = -128;  // the largest product
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) {
      want[r][c] = 1000 * r + c;  // what stood there
      for (int k = 0; k < kDepth; ++k) want[r][c] += a[r][k] * b[k][c];
    }
  }
  std::vector<uint32_t> of_a(64);
  std::vector<uint32_t> of_b(32);
  std::vector<int32_t> sums(128);
  for (int lane = 0; lane < 32; ++lane) {
    const int group = lane / 4;
    const int in_group = lane % 4;
    for (int i = 0; i < 8; ++i) {
      const auto bits = static_cast<uint32_t>(
          static_cast<uint8_t>(a[i < 4 ? group : group + 8][in_group * 4 + i % 4]));
      of_a[static_cast<size_t>(lane) * 2 + static_cast<size_t>(i) / 4] |= bits << (i % 4 * 8);
    }
    for (int i = 0; i < 4; ++i) {
      const auto bits = static_cast<uint32_t>(static_cast<uint8_t>(b[in_group * 4 + i][group]));
      of_b[static_cast<size_t>(lane)] |= bits << (i * 8);
      sums[static_cast<size_t>(lane) * 4 + static_cast<size_t>(i)] =
          1000 * (i < 2 ? group : group + 8) + in_group * 2 + i % 2;
    }
  }
  int32_t* on_device = place(sums);
  launch(32, multiply, place(of_a), place(of_b), on_device);
  device_.download(on_device, sums.size() * sizeof(int32_t), sums.data());
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(sums[static_cast<size_t>(lane) * 4 + static_cast<size_t>(i)],
                want[i < 2 ? lane / 4 : lane / 4 + 8][lane % 4 * 2 + i % 2])
          << "lane " << lane << ", sum " << i;
    }
  }
}

// On a GPU the result is undefined.
TEST_P(TensorCores, NeedAllLanesOfAWarp) {
  int32_t* sums = place(std::vector<int32_t>(32));
  EXPECT_THAT([&] { launch(32, multiply_by_half_a_warp, sums); },
              ThrowsMessage<Error>(AllOf(HasSubstr("waits in a matrix product"),
                                         HasSubstr("thread (16,0,0) has ended"))));
}

}  // namespace
}  // namespace assay::emulated
