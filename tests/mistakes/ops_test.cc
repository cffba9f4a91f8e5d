#include "assay/mistakes/ops.h"

#include <gtest/gtest.h>

#include <random>

#include "assay/mistakes/network.h"

namespace assay::mistakes {
namespace {

Matrix random_matrix(int64_t rows, int64_t columns) {
  std::mt19937 random(static_cast<uint32_t>(columns));
  std::normal_distribution<float> normal;
  Matrix matrix(rows, columns);
  for (float& value : matrix.values) value = normal(random);
  return matrix;
}

void expect_near(const Matrix& a, const std::vector<float>& b) {
  ASSERT_EQ(a.values.size(), b.size());
  for (size_t i = 0; i < b.size(); ++i) EXPECT_NEAR(a.values[i], b[i], 2e-6) << i;
}

// An op that is computed otherwise than the engine does would be blamed on the engine.
TEST(Ops, AreThoseOfTheKernels) {
  const auto kernels = make_reference_kernels();
  const Matrix q = random_matrix(7, 32);
  const Matrix k = random_matrix(7, 16);
  std::vector<float> out(q.values.size());
  kernels->run(NormCall{NormKind::kRms, q.values.data(), k.values.data(), nullptr, 1e-5F, 7, 32,
                        out.data()});
  Matrix weight(1, 32);
  std::copy_n(k.values.data(), 32, weight.values.data());
  expect_near(norm(q, {.kind = NormKind::kRms, .weight = weight.values.data(), .eps = 1e-5F}), out);
  kernels->run(NormCall{NormKind::kLayer, q.values.data(), weight.values.data(), nullptr, 1e-5F, 7,
                        32, out.data()});
  expect_near(norm(q, {.kind = NormKind::kLayer, .weight = weight.values.data(), .eps = 1e-5F}),
              out);
  kernels->run(
      ActivateCall{ActivationKind::kGeluTanh, q.values.data(), nullptr, 7 * 32, out.data()});
  Network network;
  network.activation = Activation::kGeluTanh;
  network.n_heads = 4;
  network.n_kv_heads = 2;
  network.head_dim = 8;
  network.window = 3;
  expect_near(network.compute({Checkpoint::kFfnAct, 0}, {.rows = {&q}}), out);
  const Matrix up = random_matrix(14, 16);
  kernels->run(
      ActivateCall{ActivationKind::kSilu, q.values.data(), up.values.data(), 7 * 32, out.data()});
  Matrix up_rows(7, 32);
  up_rows.values = up.values;
  network.activation = Activation::kSilu;
  expect_near(network.compute({Checkpoint::kFfnAct, 0}, {.rows = {&up_rows, &q}}), out);

  const AttentionShape shape{4, 2, 8, 0.35355338F, 3};
  kernels->run(AttentionCall{
      q.values.data(), {KvType::kF32, k.values.data(), k.values.data()}, shape, 0, 7, out.data()});
  expect_near(network.compute({Checkpoint::kAttn, 0}, {.rows = {&q, &k, &k}}), out);
}

}  // namespace
}  // namespace assay::mistakes
