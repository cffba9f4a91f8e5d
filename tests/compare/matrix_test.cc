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
