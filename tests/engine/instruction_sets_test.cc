// The portable path stands for every processor that has nothing better: a whole forward pass on it
// has the bits of all others, so that goldens recorded on one machine hold every other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "engine/session.h"
#include "tests/kernels/support.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

std::vector<float> logits(const Model& model, InstructionSet set, Math math) {
  ThreadPool pool(2);
  const auto kernels = make_cpu_kernels(pool, set, math);
  Session session(model, *kernels, {.capacity = 12, .batch = 7});
  session.eval(std::vector<int32_t>{11, 48, 85, 122, 159, 196, 233, 20, 57, 94, 131});
  const auto last = session.eval(std::vector<int32_t>{168});  // decode after prefill
  return {last.begin(), last.end()};
}

using Case = std::tuple<const char*, InstructionSet>;

std::string case_name(const testing::TestParamInfo<Case>& tested) {
  std::string model = std::get<0>(tested.param);
  std::replace_if(
      model.begin(), model.end(), [](char c) { return c == '.' || c == '-'; }, '_');
  return model + "_" + kernel_testing::set_name(std::get<1>(tested.param));
}

class EveryInstructionSet : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Goldens, EveryInstructionSet,
    testing::Combine(testing::Values("tinyllama", "llama3", "qwen2.5", "qwen3", "olmo2", "granite",
                                     "phi3", "gpt2", "gemma2", "gptneox", "gpt-oss", "nemotron",
                                     "olmoe", "stablelm-parallel", "deepseek2"),
                     testing::Values(InstructionSet::kAvx2, InstructionSet::kAvxVnni,
                                     InstructionSet::kAvx512, InstructionSet::kAvx512Vnni,
                                     InstructionSet::kAmx)),
    case_name);

TEST_P(EveryInstructionSet, GivesTheBitsOfThePortablePath) {
  const auto& [name, set] = GetParam();
  const std::string reason = kernel_testing::reason_to_skip(set);
  if (!reason.empty()) GTEST_SKIP() << reason;
  for (const std::string type : {"f32", "q4_k_m"}) {
    SCOPED_TRACE(type);
    const std::string stem = source_path("golden/") + name + "/" + name;
    const std::string path = stem + "-" + type + ".gguf";
    if (!std::filesystem::exists(path)) {
      ASSERT_NE(type, "f32");
      continue;  // a family whose golden has one type
    }
    const Model model(std::make_shared<Gguf>(path));
    for (const Math math : {Math::kExact, Math::kFast}) {
      const std::vector<float> portable = logits(model, InstructionSet::kPortable, math);
      const std::vector<float> got = logits(model, set, math);
      ASSERT_EQ(got.size(), portable.size());
      EXPECT_EQ(std::memcmp(got.data(), portable.data(), got.size() * sizeof(float)), 0);
    }
  }
}

}  // namespace
}  // namespace assay
