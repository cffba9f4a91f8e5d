// Several residual streams, and cutoffs of activations.
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/session.h"
#include "tests/emulated/op_test.h"
#include "tests/support/gemma3n_model.h"

namespace assay {
namespace {

using kernel_testing::Random;
using Arena = testing_support::DeviceArrays;
using testing_support::nothing;

class StreamOps : public testing_support::OpTest {};
INSTANTIATE_TEST_SUITE_P(Emulated, StreamOps, testing::ValuesIn(testing_support::emulated_setups()),
                         testing_support::tested_name);
INSTANTIATE_TEST_SUITE_P(Gpu, StreamOps, testing::ValuesIn(testing_support::cuda_setups()),
                         testing_support::tested_name);

// Widths around the 16 lanes, the runs of 512, and what a block takes in one round.
TEST_P(StreamOps, Steps) {
  for (const int64_t width : {1, 15, 64, 513, 8192 + 700}) {
    for (const int64_t n : {2, 4, 16}) {
      for (int number = 0; number <= static_cast<int>(StreamStep::kMerge); ++number) {
        SCOPED_TRACE(number);
        const auto step = static_cast<StreamStep>(number);
        const auto x = Random(1).floats(3 * n * width);
        const auto y = Random(2).floats(3 * n * width, 4.0F);
        const auto coefs = Random(3).floats(3 * n * n);
        const auto weight = Random(4).floats(width);
        for (const bool weighted : {true, false}) {
          if (!weighted && step != StreamStep::kFirst) continue;
          const int64_t count = 3 * width * StreamsCall{.step = step, .n_streams = n}.n_out();
          expect_the_bits_of_the_cpu(count, [&](Kernels& kernels, Arena& arena) {
            float* out = arena.place(nothing(count));
            kernels.run(StreamsCall{step, arena.place(x), arena.place(y), arena.place(coefs),
                                    weighted ? arena.place(weight) : nullptr, 3, n, width, out});
            return out;
          });
        }
      }
    }
  }
}

TEST_P(StreamOps, Cutoffs) {
  for (const int64_t width : {1, 15, 64, 513, 8192 + 700}) {
    auto x = Random(1).floats(3 * width, 4.0F);
    for (const bool with_nan : {false, true}) {
      if (with_nan) x[static_cast<size_t>(width)] = NAN;
      for (const float factor : {1.6448536F, -0.25F}) {
        expect_the_bits_of_the_cpu(3 * width, [&](Kernels& kernels, Arena& arena) {
          float* out = arena.place(nothing(3 * width));
          kernels.run(CutoffCall{arena.place(x), factor, 3, width, out});
          return out;
        });
      }
    }
  }
}

// Breaks if a device kept streams, embeddings of layers or shared keys elsewhere than the CPU.
TEST_P(StreamOps, ANetworkOfStreamsHasTheBitsOfTheCpu) {
  testing_support::TinyModel tiny;
  testing_support::become_gemma3n(tiny);
  const std::string path = testing::TempDir() + "gemma3n.gguf";
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
