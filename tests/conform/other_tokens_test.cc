// What a log says of its own tokens is held to those that the engine was given.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "assay/conform/feature_model.h"
#include "assay/conform/judge.h"
#include "assay/conform/logged_output.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace assay {
namespace {

using testing::HasSubstr;

class OtherTokens : public TemporaryFolder {
 protected:
  // The records of the feature's reference, under a header with these tokens.
  std::string headed(const Feature& feature, const std::vector<int32_t>& tokens) const {
    std::ifstream lines(feature.reference);
    std::string text = fmt::format("{{\"assay\":1,\"tokens\":[{}]}}\n", fmt::join(tokens, ","));
    for (std::string line; std::getline(lines, line);) {
      if (line.find("\"checkpoint\"") != std::string::npos) text += line + "\n";
    }
    return put("headed.jsonl", text);
  }
};

// Breaks if the values of other tokens, which the log says that they are, were held to the case's.
TEST_F(OtherTokens, InTheHeaderAreNoAnswer) {
  const std::vector<Feature> features = read_suite(source_path("conform/suite"), {"family_llama"});
  const Feature& feature = features.at(0);
  write_feature_folder(feature, feature.config, {}, path("model"));
  const auto judged = [&](const std::vector<int32_t>& tokens) {
    TableCell cell;
    cell.log = headed(feature, tokens);
    judge(feature, find_precision("float32", "test"), path("model"), cell);
    return cell;
  };
  std::vector<int32_t> tokens = feature.tokens;
  EXPECT_EQ(judged(tokens).finding, Finding::kHonoured);
  EXPECT_EQ(judged({tokens[0]}).finding, Finding::kHonoured) << "of a part it says nothing else";
  tokens[3] += 1;
  const TableCell other = judged(tokens);
  EXPECT_EQ(other.finding, Finding::kCrashed);
  EXPECT_THAT(other.text, HasSubstr(fmt::format("names other tokens than it was given: {} at "
                                                "position 3, not {}",
                                                tokens[3], feature.tokens[3])));
  EXPECT_EQ(other_tokens_of(path("none.jsonl"), tokens), "");
}

}  // namespace
}  // namespace assay
