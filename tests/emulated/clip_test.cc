// Queries, keys and values whose magnitude has a limit.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/session.h"
#include "tests/emulated/op_test.h"
#include "tests/support/clipped_model.h"

namespace assay {
namespace {

class ClippedNetworks : public testing_support::OpTest {};
INSTANTIATE_TEST_SUITE_P(Emulated, ClippedNetworks,
                         testing::ValuesIn(testing_support::emulated_setups()),
                         testing_support::tested_name);
INSTANTIATE_TEST_SUITE_P(Gpu, ClippedNetworks, testing::ValuesIn(testing_support::cuda_setups()),
                         testing_support::tested_name);

// Breaks if a device clipped queries, keys or values elsewhere than the CPU, or not.
TEST_P(ClippedNetworks, HaveTheBitsOfTheCpu) {
  testing_support::TinyModel tiny;
  testing_support::become_dbrx(tiny);
  const std::string path = testing::TempDir() + "dbrx.gguf";
  const Model model(std::make_shared<Gguf>(tiny.write(path)));
  const std::vector<int32_t> tokens = {1, 4, 2, 0, 3, 3, 1, 2, 4};
  const auto logits = [&](Kernels& kernels) {
    Session session(model, kernels, {.batch = 5});
    session.eval(std::span(tokens).first(8));
    const auto last = session.eval(std::span(tokens).last(1));
    return std::vector<float>(last.begin(), last.end());
  };
  EXPECT_EQ(logits(*tested_), logits(*cpu_));
}

}  // namespace
}  // namespace assay
