// Logits that no mistake explains, of a network whose mistakes have parameters without a value.
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include <fstream>
#include <string>

#include "assay/conform/feature_model.h"
#include "assay/conform/judge.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace assay {
namespace {

class TwoHeads : public TemporaryFolder {};

// MiniMax-M2 norms all heads of q together. Of two heads no number of ranks has several each, so
// that the mistake of ranks has no parameter: it is left out, not computed with 0 ranks.
TEST_F(TwoHeads, NoiseIsNoMistakeOfRanks) {
  const auto features = read_suite(source_path("conform/suite"), {"family_minimax_m2"});
  const Feature& feature = features.at(0);
  write_feature_folder(feature, feature.config, {}, path("model"));

  constexpr double kNoise = 4e-4;
  std::string text;
  std::ifstream lines(feature.reference);
  for (std::string line; std::getline(lines, line);) {
    const bool is_logits = line.find(R"("checkpoint":"logits")") != std::string::npos;
    if (!is_logits && line.find(R"("checkpoint")") != std::string::npos) continue;
    if (is_logits) {
      rapidjson::Document record;
      record.Parse(line.c_str());
      line.resize(line.find("\"values\""));
      const char* separator = "\"values\":[";
      double sign = 1;
      for (const auto& value : record["values"].GetArray()) {
        line += separator + std::to_string(value.GetDouble() * (1 + sign * kNoise));
        separator = ",";
        sign = -sign;
      }
      line += "]}";
    }
    text += line + "\n";
  }

  TableCell cell;
  cell.log = put("log.jsonl", text);
  judge(feature, find_precision("float32", "test"), path("model"), cell);
  EXPECT_EQ(cell.finding, Finding::kHonoured);
  EXPECT_NEAR(cell.error->rel_l2, kNoise, 1e-5);
}

}  // namespace
}  // namespace assay
