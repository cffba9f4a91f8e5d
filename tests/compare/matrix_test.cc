#include "assay/compare/matrix.h"

#include <fmt/format.h>

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

}  // namespace
}  // namespace assay
