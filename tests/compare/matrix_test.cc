#include "assay/compare/matrix.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

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
TEST_F(MatrixTest, ARunWithoutAReferenceIsNoPass) {
  const std::string ref = log("ref", "float64", 2, 5);
  const std::string good = log("good", "exact", 2, 5);
  EXPECT_TRUE(compare_matrix({ref, good}, {}).pass);
  EXPECT_FALSE(compare_matrix({ref, good, log("bad", "exact", 2, 9)}, {}).pass);
  const RunMatrix matrix = compare_matrix({ref, good, log("other", "exact", 3, 9)}, {});
  ASSERT_EQ(matrix.rows.size(), 2U);
  EXPECT_FALSE(matrix.pass);
  // A second row that is all reference is nobody's failure.
  EXPECT_TRUE(compare_matrix({ref, good, log("oracle", "float64", 3, 9)}, {}).pass);
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
    EXPECT_EQ(cell.pair.has_value(), value == 9) << cell.problem;
    EXPECT_THAT(value == 9 ? cell.warnings.back() : cell.problem, testing::HasSubstr("elements"));
    EXPECT_FALSE(matrix.pass);
  }
}

TEST_F(MatrixTest, SaysWhatIsMissing) {
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
