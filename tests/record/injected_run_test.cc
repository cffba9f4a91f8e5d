#include "assay/record/injected_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "assay/log/log_reader.h"
#include "assay/record/run.h"
#include "tests/compare/log_files.h"
#include "tests/support/paths.h"

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
    return source_path("golden/tinyllama/tinyllama-") + type + ".gguf";
  }
  // The log again with each line that has records of `name` given to `edit`, which returns its
  // replacement, empty for none.
  std::string edited(const std::string& log, const std::string& name,
                     const std::function<std::string(const Record&, const std::string&)>& edit) {
    std::string path = folder_ + "/edited.jsonl";
    std::ofstream out(path);
    std::istringstream header(contents(log));
    std::string text;
    std::getline(header, text);
    out << text << "\n";
    LogReader reader(log);
    while (const Record* record = reader.next()) {
      std::getline(header, text);
      out << (record->checkpoint == name ? edit(*record, text + "\n") : text + "\n");
    }
    return path;
  }
  static StepError step(const InjectedRun& run, const std::string& checkpoint) {
    for (const StepError& step : run.steps) {
      if (step.checkpoint == checkpoint) return step;
    }
    ADD_FAILURE() << "no " << checkpoint;
    return {};
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

// Breaks if the place in the list of what the reference has were taken for a token.
TEST_F(InjectedRunTest, TheTokenOfTheLargestErrorIsTheReferencesToken) {
  const std::string reference =
      edited(log("f32", kAllValues), "logits", [](const Record& record, const std::string& text) {
        if (record.token_idx < 3) return std::string();
        if (record.token_idx != 6) return text;
        std::vector<float> wrong = record.values;
        wrong[0] += 100;
        return line("logits", 6, wrong);
      });
  const StepError logits = step(injected("f32", reference), "logits");
  EXPECT_EQ(logits.token_idx, 6);
  EXPECT_GT(logits.own_max, 0.1);
  EXPECT_EQ(logits.own_median, 0);
}

TEST_F(InjectedRunTest, NaNIsTheLargestErrorAndLeavesTheMedian) {
  const std::string reference =
      edited(log("f32", kAllValues), "logits", [](const Record& record, const std::string& text) {
        if (record.token_idx % 3 != 1) return text;
        std::vector<float> wrong = record.values;
        wrong[5] = std::nanf("");
        return line("logits", record.token_idx, wrong);
      });
  const StepError logits = step(injected("f32", reference), "logits");
  EXPECT_TRUE(std::isnan(logits.own_max));
  EXPECT_EQ(logits.token_idx, 1);
  EXPECT_EQ(logits.own_median, 0);
  EXPECT_TRUE(std::isnan(logits.total_max.value()));
}

// The rule of compare: the same again is harmless, another value is not.
TEST_F(InjectedRunTest, ARecordThatIsThereTwiceMustBeTheSame) {
  const std::string whole = log("f32", kAllValues);
  const auto repeat = [&](float change) {
    return edited(whole, "layer_0_output", [=](const Record& record, const std::string& text) {
      std::vector<float> values = record.values;
      values[3] += change;
      return record.token_idx != 2 ? text
             : change == 0         ? text + text
                                   : text + line(record.checkpoint, 2, values);
    });
  };
  EXPECT_EQ(injected("f32", repeat(0)).steps.size(), 4U);
  const std::string conflict = repeat(1);
  EXPECT_THAT(error_of([&] { injected("f32", conflict); }),
              HasSubstr("'layer_0_output' at token 2 was logged before, in line"));
}

TEST_F(InjectedRunTest, ReportsErrorsInTheReference) {
  const std::string whole = log("f32", kAllValues);
  EXPECT_THAT(injected("f32", whole).warnings, testing::IsEmpty());
  const InjectedRun quantised = injected("q8_0", whole);
  EXPECT_THAT(quantised.warnings,
              testing::ElementsAre(HasSubstr("is not the reference's model file")));
  const auto drop = [](const Record& record, const std::string& text) {
    return record.token_idx == 5 ? std::string() : text;
  };
  const std::string gap = edited(whole, "layer_0_output", drop);
  const InjectedRun cut = injected("f32", gap);
  EXPECT_EQ(cut.tokens, 5);
  EXPECT_THAT(cut.warnings,
              testing::ElementsAre(gap + " has no 'layer_0_output' at token 5: of its 8 tokens "
                                         "only those before are measured"));
  std::ofstream(whole, std::ios::app) << "{\"checkpoint\":\"logits\",\"token_i";
  EXPECT_THAT(injected("f32", whole).warnings,
              testing::ElementsAre(HasSubstr("the last line is cut off and was left out")));
}

TEST_F(InjectedRunTest, AReferenceWithoutAllValuesIsRefused) {
  const std::string reference = log("f32", 10);
  EXPECT_THAT(error_of([&] { injected("f32", reference); }),
              HasSubstr(":2: 'embedding' at token 0 holds 10 of its 128 values; log the reference "
                        "with --checkpoints layers --values all"));
  // In a folder the file is named, and not the folder.
  std::filesystem::create_directories(path("run"));
  std::filesystem::copy_file(log("f32", 3), path("run/rank0.jsonl"));
  EXPECT_THAT(error_of([&] { injected("f32", path("run")); }), HasSubstr("/run/rank0.jsonl:2: "));
}

}  // namespace
}  // namespace assay
