// Every type of tensor in whole models.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "engine/session.h"
#include "kernels/emulated/emulated.h"
#include "kernels/reference/dequantize.h"
#include "tests/kernels/support.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

// The same model with random blocks of `type` in place of each matrix whose rows they fit.
struct Twins {
  std::shared_ptr<const Gguf> model;        // whose keys and other tensors the two share
  std::shared_ptr<const Gguf> stored;       // as they are
  std::shared_ptr<const Gguf> dequantised;  // as F32
  std::vector<std::string> changed;
};

std::string bytes_of(const void* data, size_t count) {
  return {static_cast<const char*>(data), count};
}

Twins twins_of(const std::string& path, TensorType type) {
  Twins twins;
  twins.model = std::make_shared<Gguf>(path);
  const Gguf& model = *twins.model;
  GgufContent contents[2];  // stored, dequantised
  for (GgufContent& content : contents) {
    content.metadata = model.metadata();
    content.tensors = model.tensors();
  }
  for (size_t i = 0; i < model.tensors().size(); ++i) {
    const GgufTensor& tensor = model.tensors()[i];
    const bool matrix = tensor.dims.size() > 1 && tensor.name.ends_with(".weight") &&
                        tensor.name.find("ffn_gate_inp") == std::string::npos;
    if (!matrix || tensor.columns() % tensor_type_info(type).block_elements != 0) continue;
    twins.changed.push_back(tensor.name);
    const kernel_testing::TestMatrix blocks(type, tensor.rows(), tensor.columns(), i);
    std::vector<float> floats(static_cast<size_t>(tensor.rows() * tensor.columns()));
    dequantize_row(type, blocks.bytes.data(), static_cast<int64_t>(floats.size()), floats.data());
    const std::pair<TensorType, std::string> forms[] = {
        {type, bytes_of(blocks.bytes.data(), blocks.bytes.size())},
        {TensorType::kF32, bytes_of(floats.data(), floats.size() * sizeof(float))}};
    for (size_t form = 0; form < 2; ++form) {
      contents[form].made.push_back(forms[form].second);
      GgufTensor& changed = contents[form].tensors[i];
      changed.type = forms[form].first;
      changed.data = std::as_bytes(std::span(contents[form].made.back()));
    }
  }
  twins.stored = std::make_shared<Gguf>(model.path(), std::move(contents[0]));
  twins.dequantised = std::make_shared<Gguf>(model.path(), std::move(contents[1]));
  return twins;
}

// All at once, then two tokens one by one: both ways of multiplying.
std::vector<float> logits_of(const std::shared_ptr<const Gguf>& gguf, Kernels& kernels) {
  const Model model(gguf);
  Session session(model, kernels, {.capacity = 8});
  const std::vector<int32_t> prompt = {3, 1, 4, 1, 5, 9};
  std::vector<float> all;
  const auto add = [&](std::span<const float> logits) {
    all.insert(all.end(), logits.begin(), logits.end());
  };
  add(session.eval(prompt));
  for (const int32_t token : {2, 6}) add(session.eval({&token, 1}));
  return all;
}

// Products of floats are summed in double, those of blocks in float: that leaves at most 1.3e-6.
// Their weights are held to the bit by tests/kernels/dequantize_test.cc.
void expect_same_logits(const Twins& twins, Kernels& kernels) {
  const std::vector<float> stored = logits_of(twins.stored, kernels);
  const double error = kernel_testing::relative_l2(logits_of(twins.dequantised, kernels), stored);
  EXPECT_TRUE(error <= 2e-6) << error;
  EXPECT_TRUE(std::isfinite(stored.front()));
  EXPECT_NE(stored.front(), stored.back());
}

std::string file_of(const std::string& model) {
  return source_path("golden/") + model + "/" + model + "-f32.gguf";
}

std::string name_of(const testing::TestParamInfo<TensorType>& tested) {
  return std::string(tensor_type_info(tested.param).name);
}

class TensorTypeInAModel : public testing::TestWithParam<TensorType> {};
INSTANTIATE_TEST_SUITE_P(AllTypes, TensorTypeInAModel, testing::ValuesIn(kAllTensorTypes), name_of);

// A file of this type would be refused, or computed otherwise than the weights in it say: F32 is
// what the goldens hold to float64.
TEST_P(TensorTypeInAModel, ExactIsTheModelOfTheDequantisedWeights) {
  const Twins twins = twins_of(file_of("tinyllama"), GetParam());
  EXPECT_GE(twins.changed.size(), 2U);  // the rows of ffn_down are the only ones of 256
  ThreadPool pool(2);
  const auto kernels = make_cpu_kernels(pool, best_instruction_set());
  expect_same_logits(twins, *kernels);
}

// The same on devices, where a token is decoded by fused kernels.
TEST_P(TensorTypeInAModel, DevicesComputeItAlike) {
  if (!has_emulated_kernels()) GTEST_SKIP() << "emulation: built without it";
  const Twins twins = twins_of(file_of("tinyllama"), GetParam());
  expect_same_logits(twins, *make_emulated_kernels());
}

class ExpertsOfType : public testing::TestWithParam<TensorType> {};
INSTANTIATE_TEST_SUITE_P(TypesOfShortRows, ExpertsOfType,
                         testing::Values(TensorType::kMXFP4, TensorType::kIQ4_NL,
                                         TensorType::kNVFP4),
                         name_of);

// gpt-oss is published with experts of MXFP4: an expert would be read from another one's rows.
TEST_P(ExpertsOfType, ExactIsTheModelOfTheDequantisedWeights) {
  const Twins twins = twins_of(file_of("gpt-oss"), GetParam());
  EXPECT_NE(std::find(twins.changed.begin(), twins.changed.end(), "blk.0.ffn_gate_exps.weight"),
            twins.changed.end());
  ThreadPool pool(2);
  const auto kernels = make_cpu_kernels(pool, best_instruction_set());
  expect_same_logits(twins, *kernels);
  if (has_emulated_kernels()) expect_same_logits(twins, *make_emulated_kernels());
}

}  // namespace
}  // namespace assay
