#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "kernels/half.h"
#include "kernels/kernels.h"

namespace assay::kernel_testing {

// Numbers that look random and are the same on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15U + 1) {}

  uint32_t bits() {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<uint32_t>(state_ >> 33U) ^ static_cast<uint32_t>(state_ >> 11U);
  }

  // In [-1, 1).
  float uniform() { return static_cast<float>(bits() & 0xFFFFFFU) * 0x1p-23F - 1.0F; }

  std::vector<float> floats(int64_t n, float scale = 1.0F) {
    std::vector<float> values(static_cast<size_t>(n));
    for (float& value : values) value = scale * uniform();
    return values;
  }

 private:
  uint64_t state_;
};

// A matrix of random codes whose scales are of ordinary size, and the bytes it points to.
struct TestMatrix {
  TestMatrix(TensorType type, int64_t rows, int64_t columns, uint64_t seed = 1);

  WeightMatrix matrix() const { return {type, rows, columns, bytes.data()}; }

  TensorType type;
  int64_t rows;
  int64_t columns;
  std::vector<uint8_t> bytes;
};

// Where the binary16 scales of a block stand; the rest of it may be any bits.
inline std::vector<size_t> f16_offsets(TensorType type) {
  switch (type) {
    case TensorType::kQ4_0:
    case TensorType::kQ5_0:
    case TensorType::kQ8_0:
      return {0};
    case TensorType::kQ4_1:
    case TensorType::kQ5_1:
    case TensorType::kQ4_K:
    case TensorType::kQ5_K:
      return {0, 2};
    case TensorType::kQ2_K:
      return {80, 82};
    case TensorType::kQ3_K:
      return {108};
    case TensorType::kQ6_K:
      return {208};
    case TensorType::kIQ1_S:
    case TensorType::kIQ2_XXS:
    case TensorType::kIQ2_XS:
    case TensorType::kIQ2_S:
    case TensorType::kIQ3_XXS:
    case TensorType::kIQ3_S:
    case TensorType::kIQ4_NL:
    case TensorType::kIQ4_XS:
      return {0};
    case TensorType::kTQ1_0:
      return {52};
    case TensorType::kTQ2_0:
      return {64};
    default:
      return {};
  }
}

// The bits of the byte at `place` of a block that belong to a scale in floating point, which may
// not be any.
inline uint8_t scale_bits(TensorType type, size_t place) {
  for (const size_t offset : f16_offsets(type)) {
    if (place == offset || place == offset + 1) return 0xFF;
  }
  if (type == TensorType::kMXFP4 && place == 0) return 0xFF;
  return type == TensorType::kIQ1_M && place >= 49 && place % 2 == 1 ? 0xF0 : 0;
}

inline TestMatrix::TestMatrix(TensorType tensor_type, int64_t n_rows, int64_t n_columns,
                              uint64_t seed)
    : type(tensor_type), rows(n_rows), columns(n_columns) {
  Random random(seed);
  const TensorTypeInfo& info = tensor_type_info(type);
  bytes.resize(static_cast<size_t>(rows) * row_bytes(type, columns));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.bits());
  for (size_t block = 0; block < bytes.size(); block += info.block_bytes) {
    uint8_t* start = bytes.data() + block;
    const float value = random.uniform();
    const uint16_t f16 = f16_from_float(value);
    const uint16_t bf16 = bf16_from_float(value);
    if (type == TensorType::kF32) std::memcpy(start, &value, sizeof(value));
    if (type == TensorType::kF16) std::memcpy(start, &f16, sizeof(f16));
    if (type == TensorType::kBF16) std::memcpy(start, &bf16, sizeof(bf16));
    const uint16_t scale_of_parts = f16_from_float(0.1F * value);
    if (type == TensorType::kIQ1_M) {
      for (int part = 0; part < 4; ++part) {
        uint8_t& byte = start[49 + 2 * part];
        byte = static_cast<uint8_t>((byte & 0xF) | (scale_of_parts >> (4 * part) & 0xF) << 4);
      }
    }
    if (type == TensorType::kMXFP4) start[0] = static_cast<uint8_t>(120 + start[0] % 8);
    for (const size_t offset : f16_offsets(type)) {
      const uint16_t scale = f16_from_float(0.1F * random.uniform());
      std::memcpy(start + offset, &scale, sizeof(scale));
    }
  }
}

inline std::string_view name_of(TensorType type) {
  return tensor_type_info(type).name;
}

// All, and those that exact math tells apart.
inline constexpr InstructionSet kAllSets[] = {InstructionSet::kPortable,   InstructionSet::kAvx2,
                                              InstructionSet::kAvxVnni,    InstructionSet::kAvx512,
                                              InstructionSet::kAvx512Vnni, InstructionSet::kAmx};
inline constexpr InstructionSet kExactSets[] = {InstructionSet::kPortable, InstructionSet::kAvx2,
                                                InstructionSet::kAvx512};

// Whether this machine has it.
inline bool can_run(InstructionSet set) {
  ThreadPool pool(1);
  try {
    make_cpu_kernels(pool, set);
    return true;
  } catch (const Error&) {
    return false;
  }
}

inline std::string set_name(InstructionSet set) {
  switch (set) {
    case InstructionSet::kAmx:
      return "amx";
    case InstructionSet::kAvx512Vnni:
      return "avx512vnni";
    case InstructionSet::kAvx512:
      return "avx512";
    case InstructionSet::kAvxVnni:
      return "avxvnni";
    case InstructionSet::kAvx2:
      return "avx2";
    case InstructionSet::kPortable:
      break;
  }
  return "portable";
}

// Why tests of it have to skip; empty where this machine has it.
inline std::string reason_to_skip(InstructionSet set) {
  return can_run(set) ? "" : "processor: it has no " + set_name(set);
}

// Kernels with threads of their own.
class TestKernels {
 public:
  explicit TestKernels(InstructionSet set, int n_threads = 1, Math math = Math::kExact)
      : pool_(n_threads), kernels_(make_cpu_kernels(pool_, set, math)) {
    leave_nans();
  }
  Kernels* operator->() const { return kernels_.get(); }

 private:
  // Scratch that is read before it is written gives NaN.
  static void leave_nans() {
    for (const size_t bytes : {size_t{1} << 12U, size_t{1} << 15U, size_t{1} << 22U}) {
      void* const piece = host_memory().allocate(bytes);
      std::memset(piece, 0xFF, bytes);
      host_memory().release(piece);
    }
  }

  ThreadPool pool_;
  std::unique_ptr<Kernels> kernels_;
};

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// ‖got - want‖ / ‖want‖; NaN if a number of `got` is, which no tolerance accepts.
inline double relative_l2(const std::vector<float>& want, const std::vector<float>& got) {
  EXPECT_EQ(want.size(), got.size());
  double difference = 0.0;
  double norm = 0.0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double d = static_cast<double>(got[i]) - want[i];
    difference += d * d;
    norm += static_cast<double>(want[i]) * want[i];
  }
  if (difference == 0.0) return 0.0;
  return std::sqrt(difference / norm);
}

// Runs over the instruction sets of its parameters, and skips those that the machine has not.
class EachInstructionSet : public ::testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override {
    const std::string reason = reason_to_skip(GetParam());
    if (!reason.empty()) GTEST_SKIP() << reason;
  }
};

inline std::string instruction_set_name(const ::testing::TestParamInfo<InstructionSet>& tested) {
  return set_name(tested.param);
}

}  // namespace assay::kernel_testing
