#include "assay/record/injected_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "assay/record/run.h"
#include "tests/compare/log_files.h"

namespace assay {
namespace {

using testing::HasSubstr;

class InjectedRunTest : public LogFiles {
 protected:
  std::string log(const std::string& type, int64_t values) {
    RunOptions options;
    options.model_path = model(type);
    options.tokens = {1, 45, 120, 7, 201, 33, 90, 250};
    options.n_predict = 0;
    options.backend = "cpu";
    LogRequest request{folder_ + "/" + type + ".jsonl", LogOptions(), CheckpointSet("layers")};
    request.options.head_values = values;
    options.log = request;
    run(options, {});
    return request.path;
  }
  static std::string model(const std::string& type) {
    return std::string(ASSAY_SOURCE_DIR) + "/golden/tinyllama/tinyllama-" + type + ".gguf";
  }
  static InjectedRun injected(const std::string& type, const std::string& reference) {
    InjectOptions options;
    options.model_path = model(type);
    options.reference_path = reference;
    options.backend = "cpu";
    return run_injected(options);
  }
};

// Given its own values back, each layer must give what it gave.
TEST_F(InjectedRunTest, AnEngineHasNoErrorOfItsOwnAgainstItself) {
  const InjectedRun run = injected("f32", log("f32", kAllValues));
  ASSERT_EQ(run.steps.size(), 4U);
  EXPECT_EQ(run.tokens, 8);
  for (const StepError& step : run.steps) EXPECT_EQ(step.own_max, 0) << step.checkpoint;
}

// Quantised weights are off in each layer: what layer 0 adds must not be charged to layer 1.
TEST_F(InjectedRunTest, ALayersOwnErrorIsLessThanWhatHasComeTogether) {
  const InjectedRun run = injected("q8_0", log("f32", kAllValues));
  const StepError& first = run.steps[1];
  const StepError& second = run.steps[2];
  EXPECT_EQ(second.checkpoint, "layer_1_output");
  EXPECT_GT(first.own_max, 1e-4);
  EXPECT_GT(second.own_max, 1e-4);
  EXPECT_LT(second.own_max, *second.total_max);
}

TEST_F(InjectedRunTest, AReferenceWithoutAllValuesIsRefused) {
  const std::string reference = log("f32", 10);
  EXPECT_THAT(error_of([&] { injected("f32", reference); }),
              HasSubstr(":2: 'embedding' at token 0 holds 10 of its 128 values; log the reference "
                        "with --checkpoints layers --values all"));
}

}  // namespace
}  // namespace assay
