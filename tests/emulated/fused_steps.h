#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/fused.h"
#include "tests/emulated/device_arrays.h"
#include "tests/kernels/support.h"
#include "tests/support/backend.h"

namespace assay::testing_support {

// Fused steps on a device of its parameter, and the CPU's single ops that they must have the bits
// of.
class FusedSteps : public testing::TestWithParam<Tested> {
 protected:
  void SetUp() override {
    const auto [backend, seed, math] = GetParam();
    const std::string reason = reason_to_skip(backend);
    if (!reason.empty()) GTEST_SKIP() << reason;
    cpu_ = make_cpu_kernels(pool_, best_instruction_set(), math);
    kernels_ = make_kernels(backend, pool_, seed, math);
    device_ = std::make_unique<DeviceArrays>(*kernels_);
  }

  FusedKernels& fused() { return *kernels_->fused(); }

  // What the CPU's single ops make of a vector: its norm, and a matrix times it.
  std::vector<float> norm(NormKind op, const std::vector<float>& x,
                          const std::vector<float>& weight, const std::vector<float>& bias) {
    std::vector<float> out(x.size());
    const auto width = static_cast<int64_t>(x.size());
    if (op == NormKind::kRms) {
      cpu_->run(
          NormCall{NormKind::kRms, x.data(), weight.data(), nullptr, kEps, 1, width, out.data()});
    } else {
      cpu_->run(NormCall{NormKind::kLayer, x.data(), weight.data(),
                         bias.empty() ? nullptr : bias.data(), kEps, 1, width, out.data()});
    }
    return out;
  }
  std::vector<float> multiply(const kernel_testing::TestMatrix& w, const std::vector<float>& bias,
                              const std::vector<float>& x) {
    std::vector<float> out(static_cast<size_t>(w.rows));
    cpu_->run(
        MatmulCall{w.matrix(), bias.empty() ? nullptr : bias.data(), x.data(), 1, out.data()});
    return out;
  }

  FusedLinear place(const kernel_testing::TestMatrix& w, const std::vector<float>& bias) {
    return {device_->place(w), bias.empty() ? nullptr : device_->place(bias)};
  }
  FusedNorm place(NormKind op, const std::vector<float>& weight, const std::vector<float>& bias) {
    return {op, device_->place(weight), bias.empty() ? nullptr : device_->place(bias), kEps};
  }
  float* room(int64_t count) {
    return device_->place(std::vector<float>(static_cast<size_t>(count), -1.0F));
  }
  void expect(const std::vector<float>& want, const float* got, const char* what) {
    expect_same_bits(want, device_->read(got, want.size()), what);
  }

  static constexpr float kEps = 1e-5F;
  ThreadPool pool_{1};
  std::unique_ptr<Kernels> cpu_;
  std::unique_ptr<Kernels> kernels_;
  std::unique_ptr<DeviceArrays> device_;
};

}  // namespace assay::testing_support
