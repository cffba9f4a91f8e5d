#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "tests/kernels/support.h"
#include "tests/support/backend.h"

namespace assay::testing_support {

// Host arrays in the memory of the kernels that run.
class DeviceArrays {
 public:
  explicit DeviceArrays(Kernels& kernels) : memory_(kernels.memory()) {}

  template <class T>
  T* place(const std::vector<T>& values) {
    auto& buffer = buffers_.emplace_back(memory_, values.size() * sizeof(T));
    memory_.upload(values.data(), values.size() * sizeof(T), buffer.data());
    return reinterpret_cast<T*>(buffer.data());
  }
  WeightMatrix place(const kernel_testing::TestMatrix& matrix) {
    WeightMatrix placed = matrix.matrix();
    placed.data = place(matrix.bytes);
    return placed;
  }
  template <class T>
  std::vector<T> read(const T* address, size_t count) {
    std::vector<T> values(count);
    memory_.download(address, count * sizeof(T), values.data());
    return values;
  }

 private:
  Memory& memory_;
  std::vector<Buffer<std::byte>> buffers_;
};

inline void expect_same_bits(const std::vector<float>& want, const std::vector<float>& got,
                             const char* what) {
  ASSERT_EQ(want.size(), got.size()) << what;
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(want[i]), std::bit_cast<uint32_t>(got[i]))
        << what << ", element " << i << ": " << want[i] << ", " << got[i];
  }
}

// A backend, the order in which it runs blocks and threads, and its math.
struct Tested {
  Backend backend;
  uint64_t seed;
  Math math = Math::kExact;
};

inline void PrintTo(const Tested& tested, std::ostream* out) {
  *out << name_of(tested.backend) << ", seed " << tested.seed;
}

inline std::string tested_name(const testing::TestParamInfo<Tested>& test) {
  const char* math = test.param.math == Math::kFast ? "fast_" : "";
  return math + name_of(test.param.backend) + "_seed_" + std::to_string(test.param.seed);
}

inline std::vector<Tested> emulated_setups() {
  return {{Backend::kEmulated, 0},
          {Backend::kEmulated, 1},
          {Backend::kEmulated, 0, Math::kFast},
          {Backend::kEmulated, 4321, Math::kFast}};
}

inline std::vector<Tested> cuda_setups() {
  return {{Backend::kCuda, 0}, {Backend::kCuda, 0, Math::kFast}};
}

}  // namespace assay::testing_support
