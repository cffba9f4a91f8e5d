// The portable path stands for every processor that has nothing better: a whole forward pass on it
// has the bits of all others, so that goldens recorded on one machine hold every other.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "engine/session.h"
#include "tests/kernels/support.h"

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

class EveryInstructionSet : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Goldens, EveryInstructionSet,
                         ::testing::Values("tinyllama", "llama3", "qwen2.5", "phi3", "gpt2"),
                         [](const auto& tested) {
                           return tested.param == "qwen2.5" ? std::string("qwen2_5") : tested.param;
                         });

TEST_P(EveryInstructionSet, GivesTheBitsOfThePortablePath) {
  for (const std::string type : {"f32", "q4_k_m"}) {
    const std::string path = std::string(ASSAY_SOURCE_DIR) + "/golden/" + GetParam() + "/" +
                             GetParam() + "-" + type + ".gguf";
    const Model model(std::make_shared<Gguf>(path));
    for (const Math math : {Math::kExact, Math::kFast}) {
      const std::vector<float> portable = logits(model, InstructionSet::kPortable, math);
      for (const InstructionSet set :
           testing::available({InstructionSet::kAvx2, InstructionSet::kAvxVnni,
                               InstructionSet::kAvx512, InstructionSet::kAvx512Vnni})) {
        SCOPED_TRACE(type + " " + testing::set_name(set));
        const std::vector<float> got = logits(model, set, math);
        ASSERT_EQ(got.size(), portable.size());
        EXPECT_EQ(std::memcmp(got.data(), portable.data(), got.size() * sizeof(float)), 0);
      }
    }
  }
}

}  // namespace
}  // namespace assay
