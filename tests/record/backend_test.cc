#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "assay/record/run.h"
#include "base/error.h"
#include "kernels/cuda/cuda.h"
#include "kernels/emulated/emulated.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

RunResult run_on(const std::string& backend, const std::string& math = "exact") {
  RunOptions options;
  options.model_path = source_path("golden/tinyllama/tinyllama-q4_k_m.gguf");
  options.tokens = {1, 2, 3};
  options.n_predict = 3;
  options.backend = backend;
  options.math = math;
  return run(options, {});
}

// The backend that was asked for would not be the one that computes, or would compute otherwise.
TEST(Backend, EmulatedGeneratesWhatTheCpuGenerates) {
  if (!has_emulated_kernels()) GTEST_SKIP() << "emulation: this build has no emulated backend";
  const RunResult emulated = run_on("emulated");
  EXPECT_EQ(emulated.backend, "emulated");
  EXPECT_EQ(emulated.generated, run_on("cpu").generated);
  const RunResult fast = run_on("emulated", "fast");
  EXPECT_EQ(fast.math, "fast");
  EXPECT_EQ(fast.generated, run_on("cpu", "fast").generated);
}

// Three tokens are too few for the library: it is fast that computes them, under its own name.
TEST(Backend, LibraryIsNamedInTheResult) {
  if (!has_emulated_kernels()) GTEST_SKIP() << "emulation: this build has no emulated backend";
  const RunResult library = run_on("emulated", "library");
  EXPECT_EQ(library.math, "library");
  EXPECT_EQ(library.generated, run_on("cpu", "fast").generated);
}

// What would break: another math would compute than the one that the log names.
TEST(Backend, LibraryWithoutCublasIsAClearError) {
  EXPECT_THAT([] { run_on("cpu", "library"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("cuBLAS"), HasSubstr("use --math fast"))));
}

TEST(Backend, AutoIsCudaWhereItCanRun) {
  EXPECT_EQ(run_on("auto").backend, cuda_is_usable() ? "cuda" : "cpu");
}

// Without a device the message says what is missing, and what to do.
TEST(Backend, CudaWithoutADeviceIsAClearError) {
  if (cuda_is_usable()) GTEST_SKIP() << "no-gpu: there is a CUDA device";
  EXPECT_THAT([] { run_on("cuda"); }, ThrowsMessage<Error>(HasSubstr("use --backend cpu")));
}

TEST(Backend, UnknownNamesAreRejected) {
  EXPECT_THAT([] { run_on("cpu", "loose"); },
              ThrowsMessage<Error>(HasSubstr("'loose' is not known")));
  EXPECT_THAT([] { run_on("abacus"); }, ThrowsMessage<Error>(HasSubstr("'abacus' is not known")));
}

}  // namespace
}  // namespace assay
