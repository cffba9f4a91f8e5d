#include "assay/compare/matrix.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>

#include "tests/compare/log_files.h"

namespace assay {
namespace {

class MatrixTest : public LogFiles {
 protected:
  std::string log(const std::string& name, const std::string& math, int last_token, float value) {
    return put(name + ".jsonl", fmt::format(R"({{"assay":1,"model":{{"name":"m"}},"tokens":[1,{}],)"
                                            R"("engine":"{}","math":"{}"}})"
                                            "\n",
                                            last_token, name, math) +
                                    line("logits", 0, {1, value}));
  }
};

// Breaks if a run could escape its reference by another prompt in its header.
TEST_F(MatrixTest, RunWithoutAReferenceDoesNotPass) {
  const std::string ref = log("ref", "float64", 2, 5);
  const std::string good = log("good", "exact", 2, 5);
  EXPECT_TRUE(compare_matrix({ref, good}, {}).pass);
  EXPECT_FALSE(compare_matrix({ref, good, log("bad", "exact", 2, 9)}, {}).pass);
  const RunMatrix matrix = compare_matrix({ref, good, log("other", "exact", 3, 9)}, {});
  ASSERT_EQ(matrix.rows.size(), 2U);
  EXPECT_FALSE(matrix.pass);
  // A second row with nothing but the reference is not a failure.
  EXPECT_TRUE(compare_matrix({ref, good, log("oracle", "float64", 3, 9)}, {}).pass);
}

// Breaks if one of two engines were taken for the reference, and the other for wrong or right by
// it.
TEST_F(MatrixTest, OneOfTwoEnginesInFloat64HasToBeNamed) {
  const std::string ref = log("ref", "float64", 2, 5);
  const std::string mine = log("mine", "float64", 2, 9);
  const std::string good = log("good", "exact", 2, 5);
  EXPECT_THAT(error_of([&] {
                compare_matrix({ref, mine, good}, {});
              }),
              testing::HasSubstr("name the reference's engine with --reference"));
  MatrixOptions options;
  options.reference = "ref";
  const RunMatrix matrix = compare_matrix({ref, mine, good}, options);
  EXPECT_FALSE(matrix.pass);
  EXPECT_EQ(matrix.rows.at(0).cells.size(), 3U);
}

// Breaks if of two runs of the reference's engine, as of a night and the next, the wrong one were
// taken for a reference, and passed with it.
TEST_F(MatrixTest, TwoRunsOfTheReferenceThatDifferDoNotPass) {
  const auto run_of = [&](const char* name, float value) {
    return put(name, R"({"assay":1,"model":{"name":"m"},"tokens":[1,2],"engine":"x"})"
                     "\n" +
                         line("logits", 0, {1, value}) + line("embedding", 0, {1}));
  };
  const std::string before = run_of("before.jsonl", 5);
  const std::string row = log("x", "", 3, 5);  // another, which has a run of another engine
  MatrixOptions options;
  options.reference = "x";
  for (const float value : {5.0F, 9.0F}) {
    const std::string after = run_of("after.jsonl", value);
    const RunMatrix matrix = compare_matrix({before, after, row, log("y", "exact", 3, 5)}, options);
    EXPECT_EQ(matrix.pass, value == 5);
    const MatrixCell& cell = matrix.rows.at(0).cells.at(1);
    EXPECT_EQ(cell.log, after);
    EXPECT_EQ(cell.is_reference, value == 5);
    EXPECT_EQ(cell.pair.has_value(), value != 5);
    EXPECT_EQ(matrix.engines.size(), 2U);
  }
}

// Breaks if a reference that lacks a checkpoint asked for by its name hid what another shows.
TEST_F(MatrixTest, AReferenceWithoutTheCheckpointDoesNotHideAnothersVerdict) {
  const auto header = [](const char* engine, const char* math) {
    return fmt::format(
        R"({{"assay":1,"model":{{"name":"m"}},"tokens":[1,2],"engine":"{}","math":"{}"}})"
        "\n",
        engine, math);
  };
  const auto ops = [&](const char* engine, const char* math, float value) {
    return header(engine, math) + line("layer_0_attn", 0, {1, value}) +
           line("logits", 0, {1, 2, 3});
  };
  const std::string layers =
      put("layers.jsonl",
          header("ref", "float64") + line("logits", 0, {1, 2, 3}) + line("logits", 1, {1, 2, 3}));
  const std::string with_ops = put("ops.jsonl", ops("ref", "float64", 5));
  MatrixOptions options;
  options.compare.selection.set_checkpoints("layer_0_attn", "--checkpoints");
  for (const std::vector<std::string>& refs :
       {std::vector<std::string>{layers, with_ops}, {with_ops, layers}}) {
    const auto compared = [&](float value) {
      const std::string run = put("run.jsonl", ops("run", "exact", value));
      const RunMatrix matrix = compare_matrix({refs[0], refs[1], run}, options);
      return matrix.rows.at(0).cells.back();
    };
    EXPECT_TRUE(compared(5).pair->pass);
    EXPECT_FALSE(compared(9).pair->pass);
  }
  // A log that cannot be read is a problem, but not where another shows the run to be wrong.
  const std::string broken =
      put("broken.jsonl", header("ref", "float64") + line("layer_0_attn", 0, {1, 5, 5}));
  for (const float value : {5.0F, 9.0F}) {
    const std::string run = put("run.jsonl", ops("run", "exact", value));
    const RunMatrix matrix = compare_matrix({with_ops, broken, run}, options);
    const MatrixCell& cell = matrix.rows.at(0).cells.back();
    ASSERT_TRUE(cell.pair) << cell.problem;
    EXPECT_GT(cell.pair->failed, 0);
    EXPECT_FALSE(matrix.pass);
  }
}

// Breaks if a run that ended early passed by another log of the reference, which ends before it.
TEST_F(MatrixTest, AReferenceOfFewTokensDoesNotHideThatARunIsCut) {
  const auto log_of = [&](const char* name, const char* engine, const char* math,
                          const std::vector<std::string>& checkpoints, int tokens) {
    std::string text = fmt::format(
        R"({{"assay":1,"model":{{"name":"m"}},"tokens":[1,2],"engine":"{}","math":"{}"}})"
        "\n",
        engine, math);
    for (int t = 0; t < tokens; ++t) {
      for (const std::string& checkpoint : checkpoints) text += line(checkpoint, t, {1, 2, 3});
    }
    return put(name, text);
  };
  const std::vector<std::string> ops = {"layer_0_attn", "layer_0_ffn_out", "layer_0_output",
                                        "logits"};
  const std::vector<std::string> layers = {"layer_0_output", "logits"};
  const std::string all = log_of("layers.jsonl", "ref", "float64", layers, 6);
  const std::string few = log_of("ops.jsonl", "ref", "float64", ops, 2);
  const auto cell_of = [&](const std::vector<std::string>& checkpoints, int tokens) {
    const std::string run = log_of("run.jsonl", "run", "exact", checkpoints, tokens);
    const RunMatrix matrix = compare_matrix({all, few, run}, {});
    const MatrixCell cell = matrix.rows.at(0).cells.back();
    EXPECT_EQ(matrix.pass, cell.pair->pass);
    return cell;
  };
  EXPECT_TRUE(cell_of(ops, 6).pair->pass);
  EXPECT_TRUE(cell_of(layers, 6).pair->pass);
  EXPECT_TRUE(cell_of({"layer_0_output", "layer_0_attn", "logits"}, 6).pair->pass);
  EXPECT_TRUE(cell_of(ops, 2).pair->pass) << "what the reference has of these tokens";
  for (const auto& checkpoints : {ops, layers}) {
    const MatrixCell cut = cell_of(checkpoints, 4);
    EXPECT_FALSE(cut.pair->pass) << checkpoints.front();
    EXPECT_EQ(cut.pair->unproven, 4) << checkpoints.front();
    EXPECT_EQ(cut.reference, all) << checkpoints.front();
  }
}

// Breaks if a run that shows no more than the first checkpoint passed by a log of that alone.
TEST_F(MatrixTest, AReferenceWithoutLogitsDoesNotHideThatARunHasNone) {
  const auto log_of = [&](const char* name, const char* engine, const char* math,
                          const std::vector<std::string>& checkpoints) {
    std::string text =
        fmt::format(R"({{"assay":1,"model":{{"name":"m"}},"tokens":[1],"engine":"{}","math":"{}"}})"
                    "\n",
                    engine, math);
    for (const std::string& checkpoint : checkpoints) text += line(checkpoint, 0, {1, 2, 3});
    return put(name, text);
  };
  const std::string all =
      log_of("all.jsonl", "ref", "float64", {"embedding", "layer_0_output", "logits"});
  const std::string first = log_of("first.jsonl", "ref", "float64", {"embedding"});
  const auto cell_of = [&](const std::vector<std::string>& checkpoints,
                           const MatrixOptions& options) {
    const std::string run = log_of("run.jsonl", "run", "exact", checkpoints);
    return compare_matrix({all, first, run}, options).rows.at(0).cells.back();
  };
  const MatrixCell embedding = cell_of({"embedding"}, {});
  EXPECT_FALSE(embedding.pair->pass);
  EXPECT_EQ(embedding.pair->unproven, 2);
  EXPECT_EQ(embedding.reference, all);
  EXPECT_TRUE(cell_of({"embedding", "layer_0_output", "logits"}, {}).pair->pass);
  MatrixOptions narrowed;
  narrowed.compare.selection.set_checkpoints("embedding", "--checkpoints");
  EXPECT_TRUE(cell_of({"embedding"}, narrowed).pair->pass);
}

// Breaks if an engine that crashed before its first record were no failure, or hid the others.
TEST_F(MatrixTest, ReportsALogWithoutRecords) {
  const std::string ref = log("ref", "float64", 2, 5);
  const std::string good = log("good", "exact", 2, 5);
  const std::string header = R"({"assay":1,"model":{"name":"m"},"tokens":[1,2],"engine":"x"})";
  for (const auto& [text, problem] :
       {std::pair<std::string, std::string>{"", ": the log holds no records; check"},
        {header.substr(0, 20), ": the log holds no records but a last line that is cut off; check"},
        {header + "\n", ": the log holds no records; check"},
        {R"({"assay":1})", ": the log holds no records; check"},
        {"\x80\n", ":1: is not valid JSON at byte 1"}}) {
    const std::string bad = put("bad.jsonl", text);
    for (const std::vector<std::string>& paths :
         {std::vector<std::string>{ref, bad, good}, {folder_}}) {
      const RunMatrix matrix = compare_matrix(paths, {});
      EXPECT_FALSE(matrix.pass) << text;
      ASSERT_EQ(matrix.rows.size(), 1U);
      EXPECT_EQ(matrix.rows[0].cells.size(), 2U);
      EXPECT_TRUE(matrix.left_out.empty());
      ASSERT_EQ(matrix.unreadable.size(), 1U);
      EXPECT_EQ(matrix.unreadable[0].log, bad);
      EXPECT_THAT(matrix.unreadable[0].problem.what(), testing::StartsWith(bad + problem));
    }
    // Where it is all that there is, and where it is what the others lack.
    for (const std::vector<std::string>& paths :
         {std::vector<std::string>{bad}, {good, bad}, {ref, bad}}) {
      EXPECT_THAT(error_of([&] { compare_matrix(paths, {}); }), testing::StartsWith(bad + problem));
    }
  }
  EXPECT_THAT(error_of([&] {
                compare_matrix({ref, good, path("none")}, {});
              }),
              testing::StartsWith(path("none") + ": cannot open: "));
}

// Breaks if a run were judged twice because it is named twice.
TEST_F(MatrixTest, FileNamedTwiceIsOneRun) {
  const std::string ref = log("ref", "float64", 2, 5);
  const std::string good = log("good", "exact", 2, 5);
  std::filesystem::create_symlink(good, path("link.jsonl"));
  for (const std::vector<std::string>& paths :
       {std::vector<std::string>{ref, good, good},
        {folder_, good},
        {good, folder_},
        {folder_, folder_ + "/../" + folder_.substr(folder_.rfind('/') + 1)}}) {
    const RunMatrix matrix = compare_matrix(paths, {});
    ASSERT_EQ(matrix.rows.size(), 1U);
    EXPECT_EQ(matrix.rows[0].cells.size(), 2U);
  }
}

// Breaks if NaN were told as an infinity, or passed.
TEST_F(MatrixTest, ReportsNaN) {
  const std::string ref = log("ref", "float64", 2, 5);
  const RunMatrix matrix = compare_matrix({ref, log("bad", "exact", 2, std::nanf(""))}, {});
  const RunPair& pair = *matrix.rows.at(0).cells.back().pair;
  EXPECT_FALSE(pair.pass);
  EXPECT_TRUE(std::isnan(pair.worst_rel_l2));
  EXPECT_TRUE(std::isnan(pair.median_rel_l2));
  EXPECT_TRUE(std::isnan(pair.worst_of_tolerance));
}

TEST_F(MatrixTest, ReportsWhatIsMissing) {
  const std::string ref = log("oracle", "float64", 2, 5);
  const std::string run = log("engine", "exact", 2, 5);
  const auto problem = [&](const std::vector<std::string>& paths, const std::string& reference) {
    MatrixOptions options;
    options.reference = reference;
    return error_of([&] { compare_matrix(paths, options); });
  };
  EXPECT_THAT(problem({ref}, ""), testing::HasSubstr("all runs are the reference's (oracle float64)"
                                                     ": give logs of another engine, too"));
  EXPECT_THAT(problem({ref, log("other", "exact", 3, 5)}, ""),
              testing::HasSubstr("the reference (oracle float64) has run other models or prompts"));
  EXPECT_THAT(problem({run}, ""), testing::HasSubstr("with --reference"));
  EXPECT_THAT(problem({ref, run}, "none"), testing::HasSubstr("check --reference none"));
}

}  // namespace
}  // namespace assay
