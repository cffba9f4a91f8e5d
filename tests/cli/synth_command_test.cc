#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/new_file.h"
#include "engine/hf/config.h"
#include "tests/cli/program.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

class SynthCommand : public Program {
 protected:
  // The error line of a run, which leaves nothing behind: neither the file nor an unfinished one.
  void expect_refused(const std::vector<std::string>& arguments, const std::string& message) {
    const std::string output = folder_ + "/out.gguf";
    std::vector<std::string> all = {"synth"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    all.insert(all.end(), {"-o", output});
    expect_error(all, message);
    EXPECT_FALSE(fs::exists(output)) << message;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      EXPECT_FALSE(entry.path().string().ends_with(kTemporarySuffix)) << message;
    }
  }

  static std::string config(const std::string& key_and_value) {
    return R"({"model_type": "gpt2", "vocab_size": 32, "n_embd": 32, "n_layer": 1, "n_head": 2,
               "n_positions": 16, "layer_norm_epsilon": 1e-5)" +
           key_and_value + "}";
  }
};

TEST_F(SynthCommand, PrintsWhatSha256sumReads) {
  const std::string model = put("config.json", config(""));
  const std::string output = folder_ + "/out.gguf";
  const Outcome outcome = run({"synth", model, "--type", "F32", "-o", output});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string sums = put("sums", outcome.out);
  EXPECT_EQ(std::system(("sha256sum --quiet -c '" + sums + "'").c_str()), 0);
  EXPECT_EQ(run({"inspect", output}).exit_code, 0);
}

TEST_F(SynthCommand, AConfigThatIsNoneIsNamedWithItsKey) {
  const std::string hint = "; give a model's config.json as the hub has it";
  const std::string model = folder_ + "/config.json";
  put("config.json", config(R"(, "n_inner": "wide")"));
  expect_refused({model}, model + ": key 'n_inner' is not a whole number from 1 to 1048576");
  put("config.json", config(R"(, "n_inner": 1e400)"));
  expect_refused({model}, model + ": is not valid JSON at byte " +
                              std::to_string(config(R"(, "n_inner": )").size()) +
                              ": Number too big to be stored in double" + hint);
  put("config.json", std::string(2000000, ' '));
  expect_refused({model}, model + ": 2000000 bytes are too many, the limit is 1048576" + hint);
  put("config.json", R"({"model_type": "gpt2"})");
  expect_refused({model}, model + ": key 'vocab_size' is missing" + hint);
  put("config.json", R"({"model_type": "rwkv"})");
  expect_refused({model}, model + ": key 'model_type' is 'rwkv'; Assay reads " + hf_model_types());
  put("config.json", "[]");
  expect_refused({model}, model + ": is not a JSON object" + hint);
  fs::remove(model);
  expect_refused({model}, model + ": cannot open: No such file or directory; check the path");
}

TEST_F(SynthCommand, UnknownPresetsAndTypesListTheKnown) {
  expect_refused({"gpt5"},
                 "'gpt5' is not a model that Assay knows; give a config.json or a name that "
                 "assay synth --list has");
  for (const std::string type : {"Q9", "Q2_K_S"}) {
    expect_refused({"gpt2-124m", "--type", type},
                   "--type: '" + type +
                       "' is not a type that can be made; give one of F32, F16, BF16, Q8_0, Q4_0, "
                       "Q4_1, Q5_0, Q5_1, Q2_K, Q3_K_S, Q3_K_M, Q3_K_L, Q4_K_S, Q4_K_M, Q5_K_S, "
                       "Q5_K_M, Q6_K, MXFP4_MOE");
  }
}

// Breaks if a folder's weights were not where the sum says, or lacked config.json.
TEST_F(SynthCommand, AFolderIsAModel) {
  const std::string model = put("config.json", config(""));
  const std::string folder = folder_ + "/twin";
  const Outcome outcome = run({"synth", model, "--folder", "-o", folder});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(std::system(("sha256sum --quiet -c '" + put("sums", outcome.out) + "'").c_str()), 0);
  EXPECT_EQ(contents(folder + "/config.json"), config(""));
  EXPECT_EQ(run({"run", folder, "--tokens", "1,2", "-n", "1"}).exit_code, 0);
  expect_refused({model, "--folder", "--type", "Q8_0"},
                 "--type: 'Q8_0' is not a type of a folder's tensors; give F32, F16 or BF16");
  expect_refused({model, "--folder", "--vocab", model},
                 "--vocab: a folder gets no vocabulary; leave it out, or make a GGUF file");
  expect_error({"synth", model, "--folder", "-o", folder_},
               folder_ + "/config.json: the model would overwrite its input; give another -o");
  EXPECT_EQ(contents(model), config(""));
}

// Breaks if a published model could not be found by the name that makes it.
TEST_F(SynthCommand, ListsThePublishedModels) {
  const Outcome outcome = run({"synth", "--list"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, testing::HasSubstr("\nmixtral-8x7b           llama            32   4096"
                                              "       8     46.70B\n"));
  expect_error({"synth", "gpt2-124m"}, "-o is required; see assay synth --help");
  expect_error({"synth"}, "MODEL is required; see assay synth --help");
}

TEST_F(SynthCommand, AVocabularyMustBeTheModels) {
  const std::string model = put("config.json", config(""));
  const std::string none = put("none.gguf", "xyz");
  expect_refused({model, "--vocab", none},
                 none +
                     ": the file ends inside the magic number: 4 bytes wanted at offset 0, 3 "
                     "left; the file is cut or damaged; fetch it again");
}

// Breaks if a file that is there were lost to one that cannot be made.
TEST_F(SynthCommand, AnOutputThatCannotBeWrittenIsNamed) {
  const std::string model = put("config.json", config(""));
  expect_error({"synth", model, "-o", folder_}, folder_ + ": is a directory; give a file");
  const std::string nowhere = folder_ + "/none/out.gguf";
  expect_error({"synth", model, "-o", nowhere},
               nowhere + ": cannot be written: No such file or directory; make its folder first");
  const std::string kept = put("kept.gguf", "kept");
  EXPECT_EQ(run({"synth", "gpt5", "-o", kept}).exit_code, 2);
  EXPECT_EQ(contents(kept), "kept");
}

// Breaks if a device or a pipe became a regular file, or a config was lost.
TEST_F(SynthCommand, WhatIsNoFileAndItsOwnInputsAreLeftAlone) {
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  expect_error({"synth", "gpt2-124m", "-o", pipe},
               pipe + ": is not a regular file; give another -o");
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  const std::string config = put("config.json", "{}");
  expect_error({"synth", config, "-o", config},
               config + ": the model would overwrite its input; give another -o");
  EXPECT_EQ(contents(config), "{}");
}

// procfs has no room for anything.
TEST_F(SynthCommand, ADiskTooSmallIsSeenBeforeAnyWork) {
  const std::string model = put("config.json", config(""));
  expect_error({"synth", model, "--type", "F32", "-o", "/proc/out.gguf"},
               "/proc/out.gguf: needs 0.1 MB, 0.0 MB are free; choose another disk or a smaller "
               "--type");
}

}  // namespace
}  // namespace assay
