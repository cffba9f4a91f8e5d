// Headers that do not end the prompt at the same token.
#include "assay/compare/prompt_end.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/compare/comparison_case.h"

namespace assay {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

class PromptEndTest : public ComparisonTest {
 protected:
  static std::string header(const std::string& tokens, const std::string& more = "") {
    return R"({"assay":1,"tokens":)" + tokens + more + "}\n";
  }

  // Four tokens; the logits choose 3, 5, 1 and 2. `n`: elements, of which eight are logged.
  static std::string records(int n) {
    constexpr int kChoices[] = {3, 5, 1, 2};
    std::string text;
    for (int token = 0; token < 4; ++token) {
      std::vector<float> logits = waves(8, token);
      logits[static_cast<size_t>(kChoices[token])] = 9;
      const std::string summary =
          fmt::format(R"(,"summary":{{"max":9,"argmax":{0},"top":[[{0},9]]}})", kChoices[token]);
      text += line("layer_0_output", token, waves(8, token + 9), fmt::format(",\"n\":{}", n));
      text += line("logits", token, logits, fmt::format(",\"n\":{}{}", n, n > 8 ? summary : ""));
    }
    return text;
  }
};

// Breaks if a judged log that says that it evaluated another token were proven by heads.
TEST_F(PromptEndTest, PartsProveNothingFromAContradictedTokenOn) {
  const std::string ref = header("[7,3]") + records(16);
  EXPECT_TRUE(compare(ref, ref).pass);
  EXPECT_TRUE(compare(ref, header("[7,3,5]") + records(16)).pass) << "that is what was chosen";
  const Comparison more = compare(ref, header("[7,3,6]") + records(16));
  EXPECT_EQ(more.verdict, Verdict::kIncomplete);
  EXPECT_EQ(more.evidence.unproven, 4);
  EXPECT_EQ(more.evidence.partial, 4);
  EXPECT_THAT(more.warnings, Contains(HasSubstr("names token 6 at position 2")));
  const Comparison fewer = compare(header("[7,4,6]") + records(16), header("[7]") + records(16));
  EXPECT_EQ(fewer.evidence.unproven, 6);
  EXPECT_EQ(fewer.evidence.first_unproven->token_idx, 1);
}

TEST_F(PromptEndTest, WholeRecordsShowWhichTokenItWas) {
  const Comparison comparison =
      compare(header("[7,3]") + records(8), header("[7,3,6]") + records(8));
  EXPECT_TRUE(comparison.pass);
  EXPECT_THAT(comparison.warnings, Contains(HasSubstr("choose 5")));
}

TEST_F(PromptEndTest, SampledTokensAreNotThoseOfTheLogits) {
  const Comparison comparison =
      compare(header("[7,3]", R"(,"sampling":"temperature 1")") + records(16),
              header("[7,3,6]") + records(16));
  EXPECT_TRUE(comparison.pass);
  EXPECT_THAT(comparison.warnings, IsEmpty());
}

}  // namespace
}  // namespace assay
