// assay matrix over the golden logs and what assay run writes for the same model files.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "assay/log/log_reader.h"
#include "base/json_file.h"
#include "tests/cli/program.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::Not;

class MatrixCommand : public Program {
 protected:
  static std::string golden(const std::string& file) {
    return source_path("golden/tinyllama/") + file;
  }
  static LogHeader header_of(const std::string& path) {
    LogReader log(path, Depth::kKeys);
    log.next();
    return *log.header();
  }
  // The prompt of a golden log, as text or as ids, through the engine.
  std::string engine_log(const std::string& name, const std::string& golden_log, bool as_tokens) {
    const LogHeader header = header_of(golden(golden_log));
    std::string log = path(name);
    std::vector<std::string> command = {
        "run",     golden("tinyllama-f32.gguf"), "-n", "8", "--log", log, "--checkpoints", "ops",
        "--sketch"};
    if (as_tokens) {
      std::string ids;
      for (const int64_t id : header.tokens) {
        if (!ids.empty()) ids += ',';
        ids += std::to_string(id);
      }
      command.insert(command.end(), {"--tokens", ids});
    } else {
      command.insert(command.end(), {"--prompt", *header.prompt});
    }
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return log;
  }
};

TEST_F(MatrixCommand, JoinsTheGoldensAndTheEnginesRuns) {
  const std::string text = engine_log("text.jsonl", "f32.jsonl", false);
  const std::string ids = engine_log("ids.jsonl", "f32-unicode.jsonl", true);
  const Outcome outcome =
      run({"matrix", golden("f32.jsonl"), golden("f32-ops.jsonl"), golden("f32-unicode.jsonl"),
           golden("f32-unicode-ops.jsonl"), text, ids, "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const rapidjson::Document matrix = parse_json_text(outcome.out, "matrix", "");
  ASSERT_EQ(matrix["rows"].Size(), 2U) << outcome.out;
  for (const auto& row : matrix["rows"].GetArray()) {
    EXPECT_STREQ(row["model"].GetString(), "tinyllama");
    EXPECT_THAT(row["prompt"].GetString(), Not(HasSubstr(" tokens")));
    ASSERT_EQ(row["cells"].Size(), 3U);
    int references = 0;
    for (const auto& cell : row["cells"].GetArray()) {
      references += cell["is_reference"].GetBool() ? 1 : 0;
      EXPECT_EQ(cell["is_reference"].GetBool(), !cell.HasMember("verdict"));
      if (cell["is_reference"].GetBool()) continue;
      EXPECT_TRUE(cell["pass"].GetBool());
      EXPECT_GT(cell["compared"].GetInt(), 90);
    }
    EXPECT_EQ(references, 2);
  }
  // In the table the oracle's two logs are one reference.
  const Outcome table = run({"matrix", golden("f32.jsonl"), golden("f32-ops.jsonl"), text});
  EXPECT_EQ(table.exit_code, 0);
  EXPECT_THAT(table.out, Not(HasSubstr("reference; ")));
  EXPECT_THAT(table.out, HasSubstr("noise"));
}

// Breaks if the table lost engines where width is not limited, as in a pipe or a file.
TEST_F(MatrixCommand, NoEngineIsLostInAPipeOrAFile) {
  const std::string log = contents(engine_log("mine.jsonl", "f32.jsonl", false));
  std::vector<std::string> command = {"matrix", golden("f32.jsonl")};
  std::vector<std::string> engines;
  for (int i = 0; i < 8; ++i) {
    engines.push_back(fmt::format("an_engine_with_a_long_name_{}", i));
    std::string other = log;
    other.replace(other.find(R"("engine":"assay)"), 15, R"("engine":")" + engines.back());
    command.push_back(put(fmt::format("run{}.jsonl", i), other));
  }
  const Outcome pipe = run(command);
  EXPECT_EQ(pipe.exit_code, 0) << pipe.err;
  command.insert(command.end(), {"-o", path("table.txt")});
  EXPECT_EQ(run(command).exit_code, 0);
  for (const std::string& engine : engines) EXPECT_THAT(pipe.out, HasSubstr(engine));
  EXPECT_EQ(contents(path("table.txt")), pipe.out);
}

// A fault that only the log with all ops can show, or only the one with all tokens.
TEST_F(MatrixCommand, EachLogOfTheReferenceCounts) {
  const std::string text = contents(engine_log("good.jsonl", "f32.jsonl", false));
  for (const std::string& place : {std::string("\"layer_1_ffn_norm\",\"token_idx\":0"),
                                   std::string("\"layer_1_output\",\"token_idx\":11")}) {
    std::string bad = text;
    const size_t at = bad.find(place);
    ASSERT_NE(at, std::string::npos) << place;
    const size_t value = bad.find("\"values\":[", at) + 10;
    bad.insert(value, "9e3,");
    bad.erase(value + 4, bad.find(',', value + 4) - value - 3);
    const std::string log = put("bad.jsonl", bad);
    const Outcome outcome = run({"matrix", golden("f32.jsonl"), golden("f32-ops.jsonl"), log});
    EXPECT_EQ(outcome.exit_code, 1) << place << outcome.out << outcome.err;
  }
}

TEST_F(MatrixCommand, TakesAManifestAndOverwritesNoInput) {
  const std::string log = engine_log("mine.jsonl", "f32.jsonl", false);
  const Outcome outcome =
      run({"matrix", golden("f32.jsonl"), log, "--policy", golden("manifest.json")});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const std::string before = contents(log);
  expect_error({"matrix", golden("f32.jsonl"), folder_, "-o", log},
               log + ": the report would overwrite its input; give another -o");
  EXPECT_EQ(contents(log), before);
}

// Breaks if the built-in tolerance, which is wider, took the place of floors that cannot be read.
TEST_F(MatrixCommand, ADamagedManifestBesideTheReferenceIsAnError) {
  const std::string log = engine_log("mine.jsonl", "f32.jsonl", false);
  const std::string whole = contents(golden("manifest.json"));
  std::filesystem::create_directory(path("golden"));
  const std::string ref = put("golden/f32.jsonl", contents(golden("f32.jsonl")));
  for (const std::string& text : {whole.substr(0, whole.size() / 2), std::string("{}")}) {
    const std::string manifest = put("golden/manifest.json", text);
    const Outcome outcome = run({"matrix", ref, log});
    EXPECT_EQ(outcome.exit_code, 2) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr(manifest + ": is beside the reference, and is not a "));
    EXPECT_EQ(run({"matrix", ref, log, "--policy", golden("manifest.json")}).exit_code, 0);
  }
  put("golden/manifest.json", whole);
  EXPECT_EQ(run({"matrix", ref, log}).exit_code, 0);
}

TEST_F(MatrixCommand, ARunWithoutAReferenceIsNoParity) {
  const std::string log = engine_log("mine.jsonl", "f32.jsonl", false);
  const std::string other = path("other.jsonl");
  ASSERT_EQ(
      run({"run", golden("tinyllama-f32.gguf"), "--tokens", "1,5,6", "-n", "2", "--log", other})
          .exit_code,
      0);
  const Outcome outcome = run({"matrix", golden("f32.jsonl"), log, other});
  EXPECT_EQ(outcome.exit_code, 2) << outcome.out;
  EXPECT_THAT(outcome.err, HasSubstr("not all runs could be; the table says which"));
}

// A limit of kl holds nothing in layers, which is no divergence.
TEST_F(MatrixCommand, ARunThatNoLimitAppliesToIsNotComparable) {
  const std::string log = engine_log("mine.jsonl", "f32.jsonl", false);
  const std::string policy = put("kl.json", R"({"default":{"kl":0.1}})");
  const Outcome outcome =
      run({"matrix", golden("f32.jsonl"), log, "--checkpoints", "layers", "--policy", policy});
  EXPECT_EQ(outcome.exit_code, 2) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("incomplete"));
  EXPECT_THAT(outcome.err, HasSubstr("not all runs could be; the table says which"));
}

// Breaks if a run that crashed before it logged anything were taken for parity.
TEST_F(MatrixCommand, AnEmptyLogIsExitCode2AndTheOthersAreShown) {
  std::filesystem::create_directory(path("runs"));
  const std::string log = engine_log("runs/mine.jsonl", "f32.jsonl", false);
  const std::string empty = put("runs/empty.jsonl", "");
  const std::string problem = empty +
                              ": the log holds no records; check that the engine logged to this "
                              "file";
  Outcome outcome = run({"matrix", golden("f32.jsonl"), path("runs")});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.out, HasSubstr("assay cpu exact"));
  EXPECT_THAT(outcome.out, HasSubstr("\n  " + problem + "\n"));
  EXPECT_EQ(outcome.err, "assay: " + problem + "\n");
  outcome = run({"matrix", golden("f32.jsonl"), path("runs"), "--json"});
  EXPECT_EQ(outcome.exit_code, 2);
  const rapidjson::Document matrix = parse_json_text(outcome.out, "matrix", "");
  EXPECT_FALSE(matrix["pass"].GetBool());
  EXPECT_EQ(matrix["unreadable"][0]["log"].GetString(), empty);
  EXPECT_EQ(matrix["unreadable"][0]["problem"].GetString(), problem);
  expect_error({"matrix", golden("f32.jsonl"), path("runs"), "-o", empty},
               empty + ": the report would overwrite its input; give another -o");
  put("runs/empty_too.jsonl", "");
  EXPECT_EQ(run({"matrix", golden("f32.jsonl"), path("runs")}).err,
            "assay: " + problem + "; the report names 1 more such log\n");
  // What diverged comes first.
  put("runs/bad.jsonl", [&] {
    std::string text = contents(log);
    const size_t value = text.find("\"values\":[") + 10;
    return text.replace(value, text.find(',', value) - value, "9e3");
  }());
  EXPECT_EQ(run({"matrix", golden("f32.jsonl"), path("runs")}).exit_code, 1);
}

TEST_F(MatrixCommand, AnotherModelFileIsAnotherRow) {
  const std::string log = engine_log("f32.jsonl", "f32.jsonl", false);
  const Outcome outcome = run({"matrix", golden("q8_0.jsonl"), log});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("no model, type and prompt has a run of the reference"));
}

// What would break: an engine that writes no header passes whatever it computes.
TEST_F(MatrixCommand, ALogWithoutAHeaderIsNotComparable) {
  const std::string good = engine_log("good.jsonl", "f32.jsonl", false);
  const std::string text = contents(good);
  const std::string headless = put("headless.jsonl", text.substr(text.find('\n') + 1));
  EXPECT_EQ(run({"matrix", golden("f32-ops.jsonl"), good}).exit_code, 0);
  const Outcome outcome = run({"matrix", golden("f32-ops.jsonl"), good, headless});
  EXPECT_EQ(outcome.exit_code, 2) << outcome.out;
  EXPECT_EQ(outcome.err, "assay: " + headless +
                             ": has no header that names its model, so it was not compared; write "
                             "one (docs/add-an-engine.md), or leave it out\n");
  const std::string another = put("headless2.jsonl", contents(headless));
  EXPECT_THAT(run({"matrix", golden("f32-ops.jsonl"), good, headless, another}).err,
              testing::EndsWith("or leave it out; the report names 1 more such log\n"));
}

}  // namespace
}  // namespace assay
