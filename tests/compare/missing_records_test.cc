// Gaps in one log.
#include "assay/compare/missing_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <limits>
#include <random>

#include "assay/compare/analysis.h"
#include "tests/compare/log_files.h"

namespace assay {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class MissingRecordsTest : public LogFiles {
 protected:
  using Keep = std::function<bool(const std::string& checkpoint, int layer, int64_t token_idx)>;

  // A log of eight tokens in six layers, without what is not kept: "layer_0_q at 3".
  std::vector<std::string> missing_of(const Keep& keep, const std::string& header = "",
                                      const std::string& more = "") {
    const std::string path = folder_ + "/log.jsonl";
    std::ofstream out(path);
    out << header;
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 1);
    const auto add = [&](const std::string& checkpoint, int layer, int64_t token_idx) {
      std::vector<float> values(8);
      for (float& value : values) value = normal(random);
      if (keep(checkpoint, layer, token_idx)) out << line(checkpoint, token_idx, values, more);
    };
    for (int64_t token_idx = 0; token_idx < 8; ++token_idx) {
      add("embedding", -1, token_idx);
      for (int layer = 0; layer < 6; ++layer) {
        const std::string prefix = "layer_" + std::to_string(layer) + "_";
        if (layer % 3 == 0) add(prefix + "q", layer, token_idx);
        add(prefix + "output", layer, token_idx);
      }
      add("logits", -1, token_idx);
    }
    out.close();
    std::vector<std::string> names;
    for (const Suspicion& each : analyze_log(path).suspicions) {
      EXPECT_EQ(suspicion_name(each.kind), "missing");
      names.push_back(each.name + " at " + std::to_string(each.token_idx));
    }
    return names;
  }
};

TEST_F(MissingRecordsTest, NothingIsMissingOfAWholeLog) {
  EXPECT_THAT(missing_of([](auto&&...) { return true; }), IsEmpty());
}

TEST_F(MissingRecordsTest, ARecordThatOtherLayersHaveIsMissing) {
  EXPECT_THAT(missing_of([](const std::string& name, int, int64_t token_idx) {
                return name != "layer_0_q" || token_idx != 7;
              }),
              ElementsAre("layer_0_q at 7"));
}

TEST_F(MissingRecordsTest, ATokenBetweenOthersIsMissing) {
  EXPECT_THAT(missing_of([](const std::string&, int, int64_t token_idx) { return token_idx != 4; }),
              SizeIs(10));
  EXPECT_THAT(missing_of([](const std::string& name, int, int64_t token_idx) {
                return name != "logits" || token_idx != 4;
              }),
              ElementsAre("logits at 4"));
}

// A program that was killed within a token.
TEST_F(MissingRecordsTest, AnEndWithinATokenIsMissing) {
  EXPECT_THAT(missing_of([](const std::string& name, int layer, int64_t token_idx) {
                return token_idx < 7 || name == "embedding" || (layer >= 0 && layer < 3);
              }),
              ElementsAre("layer_3_q at 7", "layer_3_output at 7", "layer_4_output at 7"));
}

TEST_F(MissingRecordsTest, ALayerBetweenOthersIsMissing) {
  const Keep keep = [](const std::string&, int layer, int64_t) { return layer != 4; };
  EXPECT_THAT(missing_of(keep), SizeIs(8));
  EXPECT_EQ(missing_of(keep).front(), "layer_4_output at 0");
  const auto header = [](const std::string& checkpoints) {
    return R"({"assay":1,"model":{"name":"m"},"tokens":[1,2,3,4,5,6,7,8],"checkpoints":")" +
           checkpoints + "\"}\n";
  };
  EXPECT_THAT(missing_of(keep, header("layers,layer_*_q")), SizeIs(8));
  EXPECT_THAT(missing_of(keep, header("layer_[01235]_output,logits")), IsEmpty());
}

TEST_F(MissingRecordsTest, WhatIsLeftOutOnPurposeIsNotMissing) {
  // Logits of a few tokens, and of these alone the last layer.
  EXPECT_THAT(missing_of([](const std::string& name, int layer, int64_t token_idx) {
                return token_idx % 3 == 1 || (name != "logits" && layer != 5);
              }),
              IsEmpty());
  EXPECT_THAT(missing_of([](const std::string& name, int layer, int64_t token_idx) {
                return name != "logits" && (token_idx == 7 || layer != 5);
              }),
              IsEmpty());
  EXPECT_THAT(missing_of([](const std::string&, int, int64_t token_idx) { return token_idx > 2; }),
              IsEmpty());
  EXPECT_THAT(missing_of([](const std::string&, int, int64_t token_idx) {
                return token_idx == 0 || token_idx == 3 || token_idx == 7;
              }),
              IsEmpty());
  EXPECT_THAT(missing_of([](const std::string&, int layer, int64_t) {
                return layer < 0 || layer == 0 || layer == 3 || layer == 5;
              }),
              IsEmpty());
}

TEST_F(MissingRecordsTest, PaddingIsNotMissing) {
  const Keep keep = [](const std::string&, int, int64_t token_idx) { return token_idx != 4; };
  const std::string header =
      R"({"assay":1,"model":{"name":"m"},"tokens":[1,2,3,4,5,6,7,8],"mask":[1,1,1,1,0,1,1,1]})"
      "\n";
  EXPECT_THAT(missing_of(keep, header), IsEmpty());
}

// A rank may have its part of the tokens of an op.
TEST_F(MissingRecordsTest, TokensOfAnotherRankAreNotMissing) {
  EXPECT_THAT(missing_of(
                  [](const std::string& name, int layer, int64_t token_idx) {
                    return name.find("_q") == std::string::npos || token_idx % 2 == layer % 2;
                  },
                  "", R"(,"rank":{"ep":0})"),
              IsEmpty());
}

// Breaks if what is between the first token and the last were counted in a number that has no room.
TEST_F(MissingRecordsTest, TokensAsLateAsThereCanBe) {
  const std::string path = folder_ + "/late.jsonl";
  for (const int64_t first : {int64_t{0}, std::numeric_limits<int64_t>::max() - 4}) {
    std::ofstream out(path);
    for (const int64_t back : {3, 2, 0}) {
      const int64_t token_idx = std::numeric_limits<int64_t>::max() - back;
      out << line("layer_0_q", token_idx, {1.5F, 0.25F * static_cast<float>(back + 1)});
    }
    out << line("layer_0_q", first, {2.5F, 3.5F});
    out.close();
    EXPECT_EQ(analyze_log(path).suspicions.size(), first == 0 ? 0U : 1U);
  }
}

}  // namespace
}  // namespace assay
