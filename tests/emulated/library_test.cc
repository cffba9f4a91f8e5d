// Products by cuBLAS on a device, and by the plain loop that stands for it under emulation: as an
// oracle for Assay's own products, with which it shares no order of sums, and as Math::kLibrary.

#include "kernels/library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "kernels/fused.h"
#include "kernels/half.h"
#include "kernels/reference/dequantize.h"
#include "tests/emulated/device_arrays.h"

namespace assay {
namespace {

using kernel_testing::Random;
using kernel_testing::relative_l2;
using kernel_testing::same_bits;
using kernel_testing::TestMatrix;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::Backend;
using testing_support::DeviceArrays;

std::vector<float> dequantized(const TestMatrix& w) {
  std::vector<float> values(static_cast<size_t>(w.rows * w.columns));
  for (int64_t r = 0; r < w.rows; ++r) {
    dequantize_row(w.type, w.matrix().slice(r, 1).data, w.columns, values.data() + r * w.columns);
  }
  return values;
}

// Runs round(first, last) of each `size` elements of each row.
template <class Round>
std::vector<float> rounded(std::vector<float> values, int64_t columns, int64_t size,
                           const Round& round) {
  for (int64_t row = 0; row < std::ssize(values); row += columns) {
    for (int64_t first = 0; first < columns; first += size) {
      const int64_t last = std::min(first + size, columns);
      round(values.begin() + row + first, values.begin() + row + last);
    }
  }
  return values;
}

float largest_magnitude(auto first, auto last) {
  float largest = 0.0F;
  for (; first != last; ++first) largest = std::max(largest, std::fabs(*first));
  return largest;
}

// x as `fast` multiplies it with weights of this type: whole numbers times the scale of their 32.
std::vector<float> rounded_activations(TensorType type, std::vector<float> x, int64_t columns) {
  const Rounding rounding = rounding_of(type);
  if (rounding == Rounding::kNone) return x;
  const float most = rounding == Rounding::kInt8 ? 127.0F : 8191.0F;
  return rounded(std::move(x), columns, 32, [&](auto first, auto last) {
    const float largest = largest_magnitude(first, last);
    for (; first != last; ++first) {
      *first = largest / most * std::nearbyint(*first * (most / largest));
    }
  });
}

// The weights, of F16 and BF16 as multiples of 2^-12 of the power of two below the largest of 32.
std::vector<float> rounded_weights(const TestMatrix& w) {
  if (rounding_of(w.type) != Rounding::kInt16) return dequantized(w);
  return rounded(dequantized(w), w.columns, 32, [](auto first, auto last) {
    const int exponent = std::ilogb(largest_magnitude(first, last)) - 12;
    for (; first != last; ++first) {
      *first = std::ldexp(std::nearbyint(std::ldexp(*first, -exponent)), exponent);
    }
  });
}

std::vector<uint16_t> halves(const std::vector<float>& values, TensorType type) {
  std::vector<uint16_t> result;
  for (const float value : values) {
    result.push_back(type == TensorType::kBF16 ? bf16_from_float(value) : f16_from_float(value));
  }
  return result;
}

int64_t columns_of(TensorType type) {
  const int64_t block = tensor_type_info(type).block_elements;
  return block == 1 ? 277 : (block + 512) / block * block;
}

class LibraryTest : public testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    const std::string reason = testing_support::reason_to_skip(GetParam(), Math::kLibrary);
    if (!reason.empty()) GTEST_SKIP() << reason;
    kernels_ = make(Math::kLibrary);
  }

  std::unique_ptr<Kernels> make(Math math) {
    return testing_support::make_kernels(GetParam(), pool_, 0, math);
  }

  // `values` and x as elements of `type`, by the library itself.
  template <class Element>
  std::vector<float> by_library(TensorType type, const std::vector<Element>& w,
                                const std::vector<Element>& x, int64_t columns) {
    DeviceArrays arrays(*kernels_);
    const auto count = [&](const auto& values) { return std::ssize(values) / columns; };
    std::vector<float> out(static_cast<size_t>(count(w) * count(x)), NAN);
    float* placed = arrays.place(out);
    kernels_->library()->multiply(
        {type, arrays.place(w), arrays.place(x), count(w), columns, count(x), false, placed});
    return arrays.read(placed, out.size());
  }

  static std::vector<float> product(Kernels& kernels, const TestMatrix& w,
                                    const std::vector<float>& bias, const std::vector<float>& x) {
    DeviceArrays arrays(kernels);
    const int64_t n_tokens = std::ssize(x) / w.columns;
    const std::vector<float> out(static_cast<size_t>(n_tokens * w.rows), NAN);
    float* placed = arrays.place(out);
    kernels.run(MatmulCall{arrays.place(w), bias.empty() ? nullptr : arrays.place(bias),
                           arrays.place(x), n_tokens, placed});
    return arrays.read(placed, out.size());
  }

  ThreadPool pool_{1};
  std::unique_ptr<Kernels> kernels_;
};
INSTANTIATE_TEST_SUITE_P(Emulated, LibraryTest, testing::Values(Backend::kEmulated));
INSTANTIATE_TEST_SUITE_P(Gpu, LibraryTest, testing::Values(Backend::kCuda));

// A mistake that the CPU's kernels and the device's share: a code, a scale, an order of weights.
TEST_P(LibraryTest, OwnProductsAreTheLibrarysOfDequantizedWeights) {
  for (const Math math : {Math::kExact, Math::kFast}) {
    const auto own = make(math);
    for (const TensorType type : kAllTensorTypes) {
      for (const int64_t n_tokens : {1, 2, 33}) {
        const TestMatrix w(type, 19, columns_of(type));
        const auto x = Random(2).floats(n_tokens * w.columns);
        const bool fast = math == Math::kFast;
        const auto want = by_library(TensorType::kF32, fast ? rounded_weights(w) : dequantized(w),
                                     fast ? rounded_activations(type, x, w.columns) : x, w.columns);
        const double error = relative_l2(want, product(*own, w, {}, x));
        EXPECT_TRUE(error <= 1e-6)
            << tensor_type_info(type).name << ", " << n_tokens << " tokens: " << error;
      }
    }
  }
}

// From 32 tokens on: vectors and weights rounded to halves, sums of 32 bits, then the bias.
TEST_P(LibraryTest, PromptsAreProductsOfHalves) {
  for (const TensorType type : kAllTensorTypes) {
    for (const int64_t n_tokens : {kLibraryTokens, kLibraryTokens + 7}) {
      const TensorType half = type == TensorType::kBF16 ? TensorType::kBF16 : TensorType::kF16;
      const TestMatrix w(type, 19, columns_of(type));
      const auto x = Random(2).floats(n_tokens * w.columns);
      const auto bias = Random(3).floats(n_tokens == kLibraryTokens ? w.rows : 0);
      auto want = by_library(half, halves(dequantized(w), half), halves(x, half), w.columns);
      for (size_t i = 0; !bias.empty() && i < want.size(); ++i) want[i] += bias[i % bias.size()];
      const double error = relative_l2(want, product(*kernels_, w, bias, x));
      EXPECT_TRUE(error <= 2e-7) << tensor_type_info(type).name << ": " << error;
    }
  }
}

// The vectors of one call, which are rounded once for each kind of half; scratch that grows.
TEST_P(LibraryTest, ProductsOfOneInputMayHaveWeightsOfAnyTypes) {
  const int64_t columns = 512;
  const auto x = Random(2).floats(kLibraryTokens * columns);
  const std::vector<TestMatrix> matrices = {
      TestMatrix(TensorType::kQ4_K, 8, columns), TestMatrix(TensorType::kBF16, 11, columns),
      TestMatrix(TensorType::kF16, 5, columns), TestMatrix(TensorType::kQ6_K, 40, columns)};
  DeviceArrays arrays(*kernels_);
  const float* input = arrays.place(x);
  std::vector<MatmulCall> calls;
  for (const TestMatrix& w : matrices) {
    float* out = arrays.place(std::vector<float>(static_cast<size_t>(kLibraryTokens * w.rows)));
    calls.push_back({arrays.place(w), nullptr, input, kLibraryTokens, out});
  }
  kernels_->run(calls);
  for (size_t i = 0; i < calls.size(); ++i) {
    const auto want = product(*kernels_, matrices[i], {}, x);
    EXPECT_TRUE(same_bits(want, arrays.read(calls[i].out, want.size()))) << i;
  }
}

// Fewer tokens are as fast has them, bit for bit: so is all decoding.
TEST_P(LibraryTest, ShortPromptsAreFast) {
  const auto fast = make(Math::kFast);
  for (const int64_t n_tokens : {int64_t{1}, kLibraryTokens - 1}) {
    const TestMatrix w(TensorType::kQ4_K, 19, 512);
    const auto x = Random(2).floats(n_tokens * w.columns);
    EXPECT_TRUE(same_bits(product(*fast, w, {}, x), product(*kernels_, w, {}, x))) << n_tokens;
  }
  EXPECT_EQ(fast->library(), nullptr);
}

// A recording is made in two passes, of which the first launches nothing.
TEST_P(LibraryTest, IsRejectedWhileLaunchesAreRecorded) {
  DeviceArrays arrays(*kernels_);
  float* one = arrays.place(std::vector<float>(1));
  const LibraryProduct product{TensorType::kF32, one, one, 1, 1, 1, false, one};
  EXPECT_THAT(
      [&] { kernels_->fused()->record([&] { kernels_->library()->multiply(product); }); },
      ThrowsMessage<Error>(AllOf(HasSubstr("a product"), HasSubstr("launches are recorded"))));
}

// Under emulation a scratch buffer that is too small for a product would be seen.
TEST(EmulatedLibrary, AMatrixOutOfBoundsIsAnError) {
  if (!has_emulated_kernels()) GTEST_SKIP() << "emulation: built without it";
  const auto kernels = make_emulated_kernels(0, Math::kLibrary);
  DeviceArrays arrays(*kernels);
  float* four = arrays.place(std::vector<float>(4));
  EXPECT_THAT(
      [&] {
        kernels->library()->multiply({TensorType::kF32, four, four, 5, 1, 1, false, four});
      },
      ThrowsMessage<Error>(HasSubstr("a matrix of 20 bytes is out of bounds")));
}

}  // namespace
}  // namespace assay
