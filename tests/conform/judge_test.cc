// What of a log is not as it should be, and that it never passes.
#include "assay/conform/judge.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include <cmath>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

#include "assay/conform/feature_model.h"
#include "assay/mutate/mutant_log.h"
#include "assay/record/run.h"
#include "base/error.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace assay {
namespace {

using testing::HasSubstr;

const std::string kSuite = source_path("conform/suite");

class Judge : public TemporaryFolder {
 protected:
  void SetUp() override {
    TemporaryFolder::SetUp();
    features_ = read_suite(kSuite, {"family_llama"});
    write_feature_folder(feature(), feature().config, {}, path("model"));
  }

  const Feature& feature() const { return features_.at(0); }

  // The lines of the reference, those of logits through `change`, which leaves out what it makes
  // empty.
  template <typename Change>
  std::string log(const Change& change) const {
    std::string text;
    std::ifstream lines(feature().reference);
    for (std::string line; std::getline(lines, line);) {
      if (line.find("\"checkpoint\":\"logits\"") != std::string::npos) {
        line = change(line);
      } else if (line.find("\"checkpoint\"") != std::string::npos) {
        continue;
      }
      if (!line.empty()) text += line + "\n";
    }
    return put("log.jsonl", text);
  }

  // All lines of the reference, each through `change`.
  template <typename Change>
  std::string whole_log(const Change& change) const {
    std::string text;
    std::ifstream lines(feature().reference);
    for (std::string line; std::getline(lines, line);) text += change(line) + "\n";
    return put("log.jsonl", text);
  }

  static bool is_of(const std::string& line, const std::string& checkpoint) {
    return line.find(fmt::format(R"("checkpoint":"{}")", checkpoint)) != std::string::npos;
  }

  static std::string renamed(std::string line, const std::string& from, const std::string& to) {
    return line.replace(line.find(from), from.size(), to);
  }

  TableCell judged(const std::string& log, const std::string& precision = "float32") const {
    TableCell cell;
    cell.log = log;
    judge(feature(), find_precision(precision, "test"), path("model"), cell);
    return cell;
  }

  // With its first value in place of another.
  static std::string with_first_value(const std::string& line, const std::string& value) {
    constexpr std::string_view kKey = "\"values\":[";
    const size_t begin = line.find(kKey) + kKey.size();
    return line.substr(0, begin) + value + line.substr(line.find(',', begin));
  }

  // With each value times `factor`, and alternately a share `other` more and less.
  static std::string scaled(const std::string& line, double factor, double other) {
    rapidjson::Document record;
    record.Parse(line.c_str());
    std::string text = line.substr(0, line.find("\"values\""));
    const char* comma = "\"values\":[";
    size_t i = 0;
    for (const auto& value : record["values"].GetArray()) {
      const double wrong = i++ % 2 == 0 ? 1.0 + other : 1.0 - other;
      text += fmt::format("{}{}", std::exchange(comma, ","), value.GetDouble() * factor * wrong);
    }
    return text + "]}";
  }

  std::vector<Feature> features_;
};

TEST_F(Judge, TheReferenceIsHonoured) {
  const TableCell verdict = judged(log([](const std::string& line) { return line; }));
  EXPECT_EQ(verdict.finding, Finding::kHonoured);
  EXPECT_EQ(verdict.error->rel_l2, 0.0);
  EXPECT_THAT(verdict.compare, HasSubstr("assay compare "));
}

TEST_F(Judge, ValuesThatAreNoNumbersDiffer) {
  for (const char* value : {"\"NaN\"", "\"Infinity\""}) {
    const TableCell verdict =
        judged(log([&](const std::string& line) { return with_first_value(line, value); }));
    EXPECT_NE(verdict.finding, Finding::kHonoured) << value;
  }
}

TEST_F(Judge, AnErrorThatNothingExplainsDiffers) {
  int n = 0;
  const TableCell verdict = judged(log([&](const std::string& line) {
    return ++n % 3 == 0 ? line : with_first_value(line, std::to_string(n % 2 == 0 ? n : -n));
  }));
  EXPECT_EQ(verdict.finding, Finding::kDiffers);
  EXPECT_THAT(verdict.text, HasSubstr("no mistake that was tried explains it"));
}

TEST_F(Judge, LogsWithoutLogitsOrOfOtherTokensCrash) {
  const TableCell none = judged(log([](const std::string&) { return std::string(); }));
  EXPECT_EQ(none.finding, Finding::kCrashed) << none.text;
  const TableCell other = judged(log([](const std::string& line) {
    constexpr std::string_view kKey = "\"token_idx\":";
    const size_t at = line.find(kKey) + kKey.size();
    return line.substr(0, at) + "9" + line.substr(at);
  }));
  EXPECT_EQ(other.finding, Finding::kCrashed) << other.text;
}

// Breaks if the reason were that there are no logits: the log has them, of unknown tokens.
TEST_F(Judge, SequencesOfUnknownTokensAreNamed) {
  std::string text;
  log([&](const std::string& line) {
    for (const char* name : {"a", "b"}) {
      text += line.substr(0, line.size() - 1) + R"(,"sequence":")" + name + "\"}\n";
    }
    return line;
  });
  const TableCell two = judged(put("two.jsonl", text));
  EXPECT_EQ(two.finding, Finding::kCrashed);
  EXPECT_THAT(two.text, HasSubstr("holds 2 sequences, such as 'a' and 'b', and none is known to be "
                                  "of the case's tokens; log one"));
}

TEST_F(Judge, FilesThatAreNoLogsCrash) {
  for (const char* text : {"hello\n", "{}\n", "[1]\n", "\n"}) {
    const TableCell verdict = judged(put("log.jsonl", text));
    EXPECT_EQ(verdict.finding, Finding::kCrashed) << text;
    EXPECT_FALSE(verdict.text.empty());
  }
}

// An engine may log its last position only: then that is what was compared, and the verdict says
// so.
TEST_F(Judge, SaysHowManyPositionsWereCompared) {
  const std::string last = "\"token_idx\":" + std::to_string(feature().tokens.size() - 1) + ",";
  const TableCell verdict = judged(log([&](const std::string& line) {
    return line.find(last) == std::string::npos ? std::string() : line;
  }));
  EXPECT_EQ(verdict.finding, Finding::kHonoured) << verdict.text;
  EXPECT_EQ(verdict.error->positions, 1);
  EXPECT_EQ(verdict.error->total, std::ssize(feature().tokens));
  EXPECT_EQ(verdict.text, fmt::format("at 1 of {} positions", feature().tokens.size()));
}

// Breaks if a NaN under a name of the engine's own counted as a position that it does not log.
TEST_F(Judge, NaNUnderANameOfItsOwnIsNoPosition) {
  const TableCell verdict = judged(log([](const std::string& line) {
    const std::string own = with_first_value(renamed(line, "logits", "mine"), "\"NaN\"");
    return line + "\n" + own;
  }));
  EXPECT_EQ(verdict.finding, Finding::kHonoured) << verdict.text;
  EXPECT_EQ(verdict.text, "");
  EXPECT_EQ(verdict.error->total, std::ssize(feature().tokens));
}

// Breaks if a feature that a part of the logits shows read like one that all of them do.
TEST_F(Judge, SaysThatAPartOfTheLogitsWasCompared) {
  const TableCell verdict = judged(log([](const std::string& line) {
    constexpr std::string_view kKey = "\"values\":[";
    size_t end = line.find(kKey) + kKey.size();
    for (int values = 0; values < 10; ++values) end = line.find(',', end + 1);
    return line.substr(0, end) + "],\"n\":96}";
  }));
  EXPECT_EQ(verdict.finding, Finding::kHonoured) << verdict.text;
  EXPECT_EQ(verdict.text, "by a part of its logits");
}

// Logits of the token before are wrong, also where no header says which tokens they are of.
TEST_F(Judge, LogitsOfTheTokenBeforeAreNotHonoured) {
  std::string before;
  std::string text;
  std::ifstream lines(feature().reference);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("\"checkpoint\":\"logits\"") == std::string::npos) continue;
    const size_t at = line.find("\"values\":");
    const std::string values = std::exchange(before, line.substr(at));
    if (!values.empty()) text += line.substr(0, at) + values + "\n";
  }
  const TableCell verdict = judged(put("log.jsonl", text));
  EXPECT_NE(verdict.finding, Finding::kHonoured) << verdict.text;
  EXPECT_NE(verdict.finding, Finding::kUnsupported) << verdict.text;
}

TEST_F(Judge, RecordsWithoutValuesAreNoLog) {
  const TableCell verdict = judged(log([](const std::string& line) {
    constexpr std::string_view kKey = "\"values\":[";
    return line.substr(0, line.find(kKey) + kKey.size()) + "],\"n\":96}";
  }));
  EXPECT_EQ(verdict.finding, Finding::kCrashed) << verdict.text;
  EXPECT_THAT(verdict.text, HasSubstr("no values of logits"));
}

// The line with nothing but the element that it chooses, or one `further` on.
std::string choice_of(const std::string& line, uint32_t further) {
  rapidjson::Document record;
  record.Parse(line.c_str());
  const auto& values = record["values"];
  const rapidjson::SizeType n = values.Size();
  rapidjson::SizeType best = 0;
  for (rapidjson::SizeType i = 0; i < n; ++i) {
    if (values[i].GetDouble() > values[best].GetDouble()) best = i;
  }
  return fmt::format(R"({}"values":[],"n":{},"summary":{{"argmax":{}}}}})",
                     line.substr(0, line.find("\"values\"")), n, (best + further) % n);
}

// Breaks if an engine that logs nothing but its choices is held to an error of 0: where they are
// wrong it was honoured, where they are right nothing was shown.
TEST_F(Judge, ChoicesAloneAreNeverHonoured) {
  const TableCell right = judged(log([](const std::string& line) { return choice_of(line, 0); }));
  EXPECT_EQ(right.finding, Finding::kCrashed) << right.text;
  const TableCell wrong = judged(log([](const std::string& line) { return choice_of(line, 1); }));
  EXPECT_EQ(wrong.finding, Finding::kDiffers) << wrong.text;
  EXPECT_THAT(wrong.text, HasSubstr("chooses another token at token 0"));
}

// Breaks if one log of another model ends the whole table.
TEST_F(Judge, ALogWhoseHeaderNamesAnotherModelDiffers) {
  const std::string wrong = whole_log([](const std::string& line) {
    if (is_of(line, "logits")) return scaled(line, 2.0, 0.0);
    if (line.find("\"assay\":1") == std::string::npos) return line;
    return std::string(R"({"assay":1,"model":{"name":"x","arch":"gpt2"}})");
  });
  const TableCell verdict = judged(wrong);
  EXPECT_EQ(verdict.finding, Finding::kDiffers) << verdict.text;
  EXPECT_THAT(verdict.text, HasSubstr("is of the architecture"));
}

// Where no mistake is known, only the logits of all positions show that a feature is honoured.
TEST_F(Judge, PartOfALogDoesNotShowAFeatureWithoutKnownMistakes) {
  features_ = read_suite(kSuite, {"tied_head"});
  ASSERT_TRUE(feature().counterfactuals.empty());
  write_feature_folder(feature(), feature().config, {}, path("model"));
  const TableCell whole = judged(log([](const std::string& line) { return line; }));
  EXPECT_EQ(whole.finding, Finding::kHonoured) << whole.text;
  const TableCell first = judged(log([](const std::string& line) {
    return line.find("\"token_idx\":0,") == std::string::npos ? std::string() : line;
  }));
  EXPECT_EQ(first.finding, Finding::kUnsupported) << first.text;
  const TableCell rounded = judged(log([](const std::string& line) {
    return line.find("\"token_idx\":0,") == std::string::npos ? std::string()
                                                              : scaled(line, 1.0, 1e-4);
  }));
  EXPECT_EQ(rounded.finding, Finding::kUnsupported) << rounded.text;
  const TableCell summaries = judged(log([](const std::string& line) {
    rapidjson::Document record;
    record.Parse(line.c_str());
    double squares = 0;
    for (const auto& value : record["values"].GetArray()) {
      squares += value.GetDouble() * value.GetDouble();
    }
    return fmt::format(R"({}"values":[],"n":{},"summary":{{"l2":{}}}}})",
                       line.substr(0, line.find("\"values\"")), record["values"].Size(),
                       std::sqrt(squares));
  }));
  EXPECT_EQ(summaries.finding, Finding::kUnsupported) << summaries.text;
  EXPECT_THAT(summaries.text, HasSubstr("give all logits of all positions, or their sketches"));
  std::string text;
  std::ifstream lines(feature().reference);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("_output\"") != std::string::npos) text += line + "\n";
  }
  const TableCell layers = judged(put("log.jsonl", text));
  EXPECT_EQ(layers.finding, Finding::kUnsupported) << layers.text;
}

// The scale of Gemma's embedding is a root that engines round: 8.485 to 8.5 in bfloat16, to 8.49 in
// two decimals. As an engine with that scale computes it: with embeddings that are larger by as
// much, and logits, whose matrix is the same, smaller.
// A window does not show at token 0, however much the engine rounds there.
TEST_F(Judge, APositionThatDoesNotShowTheFeatureIsUnsupported) {
  features_ = read_suite(kSuite, {"window_of_all_layers"});
  ASSERT_FALSE(feature().counterfactuals.empty());
  write_feature_folder(feature(), feature().config, {}, path("model"));
  for (const double error : {0.0, 1e-4}) {
    const TableCell verdict = judged(log([&](const std::string& line) {
      return line.find("\"token_idx\":0,") == std::string::npos ? std::string()
                                                                : scaled(line, 1.0, error);
    }));
    EXPECT_EQ(verdict.finding, Finding::kUnsupported) << error << ": " << verdict.text;
  }
}

TEST_F(Judge, RoundedScalesOfTheEmbeddingAreNamed) {
  features_ = read_suite(kSuite, {"embedding_scale"});
  write_feature_folder(feature(), feature().config, {}, path("model"));
  for (const auto& [scale, name] : {std::pair(8.5, "bfloat16"), std::pair(8.49, "two decimals")}) {
    const double ratio = scale / std::sqrt(72.0);
    Feature scaled = std::move(read_suite(kSuite, {"embedding_scale"}).front());
    for (FeatureTensor& tensor : scaled.tensors) {
      if (tensor.name != "model.embed_tokens.weight") continue;
      tensor.deviation = static_cast<float>(tensor.deviation * ratio);
    }
    write_feature_folder(scaled, scaled.config, {}, path("scaled"));
    RunOptions options;
    options.model_path = path("scaled");
    options.tokens = scaled.tokens;
    options.n_predict = 0;
    LogOptions whole;
    whole.head_values = kAllValues;
    options.log.emplace(LogRequest{path("scaled.jsonl"), whole, CheckpointSet("logits")});
    run(options, {});
    std::string text;
    std::ifstream lines(path("scaled.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      rapidjson::Document record;
      record.Parse(line.c_str());
      if (!record.HasMember("values")) continue;
      text += fmt::format(
          R"({{"checkpoint":"logits","token_idx":{},"dtype":"f32","shape":[1,96],"values":[)",
          record["token_idx"].GetInt());
      const char* comma = "";
      for (const auto& value : record["values"].GetArray()) {
        text += fmt::format("{}{}", std::exchange(comma, ","), value.GetDouble() / ratio);
      }
      text += "]}\n";
    }
    const TableCell verdict = judged(put("log.jsonl", text));
    EXPECT_EQ(verdict.finding, Finding::kMisread) << name << verdict.text;
    EXPECT_EQ(verdict.cause, "embedding_scale") << verdict.text;
    EXPECT_THAT(verdict.text, HasSubstr(name));
  }
}

// Right logits do not excuse a layer that is wrong: what the engine logged is its own statement.
TEST_F(Judge, ALayerThatIsWrongDiffersWhateverTheLogits) {
  const auto log_with = [&](const std::string& value) {
    return whole_log([&](const std::string& line) {
      return is_of(line, "layer_0_output") ? with_first_value(line, value) : line;
    });
  };
  for (const char* value : {"\"NaN\"", "\"-Infinity\"", "1e30", "40"}) {
    const TableCell verdict = judged(log_with(value));
    EXPECT_EQ(verdict.finding, Finding::kDiffers) << value;
    EXPECT_EQ(verdict.checkpoint, "layer_0_output") << value;
    EXPECT_EQ(verdict.first_divergence, "layer_0_output") << value;
    EXPECT_THAT(verdict.text, HasSubstr("logits within 0.0e+00, but layer_0_output")) << value;
  }
  EXPECT_EQ(judged(log_with("\"NaN\""), "bfloat16").finding, Finding::kDiffers);
}

TEST_F(Judge, TheFirstWrongCheckpointIsNamed) {
  const TableCell verdict = judged(whole_log([](const std::string& line) {
    return is_of(line, "logits") || line.find("\"assay\"") != std::string::npos
               ? line
               : with_first_value(line, "40");
  }));
  EXPECT_EQ(verdict.finding, Finding::kDiffers);
  EXPECT_EQ(verdict.checkpoint, "embedding");
}

// Also of ops that the reference does not have.
TEST_F(Judge, NaNInACheckpointWithoutReferenceDiffers) {
  std::string text;
  std::ifstream lines(feature().reference);
  for (std::string line; std::getline(lines, line);) {
    text += line + "\n";
    if (!is_of(line, "embedding")) continue;
    text += with_first_value(renamed(line, "embedding", "layer_0_attn_norm"), "\"NaN\"") + "\n";
  }
  const TableCell verdict = judged(put("log.jsonl", text));
  EXPECT_EQ(verdict.finding, Finding::kDiffers) << verdict.text;
  EXPECT_EQ(verdict.checkpoint, "layer_0_attn_norm");
  EXPECT_THAT(verdict.text, HasSubstr("no numbers"));
}

// What a correct engine may log otherwise: records in another order, tensors under names of its
// own, masked scores, and layers as one record of all tokens.
TEST_F(Judge, CheckpointsLoggedInAnotherWayAreHonoured) {
  const auto expect_honoured = [&](const std::string& text, const char* what) {
    const TableCell verdict = judged(put("log.jsonl", text));
    EXPECT_EQ(verdict.finding, Finding::kHonoured) << what << ": " << verdict.text;
    EXPECT_EQ(verdict.checkpoint, "logits") << what;
  };
  std::string reversed;
  std::string own_names;
  std::string joined;
  std::string rows;
  std::ifstream lines(feature().reference);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("\"checkpoint\"") == std::string::npos) continue;
    reversed = fmt::format("{}\n{}", line, reversed);
    const bool is_layer = is_of(line, "layer_0_output");
    own_names += fmt::format(
        "{}\n",
        is_layer ? with_first_value(renamed(line, "layer_0_output", "l_out-0"), "1e30") : line);
    if (is_layer) {
      const size_t begin = line.find("\"values\":[") + 9;
      rows += fmt::format("{}{}", rows.empty() ? "" : ",",
                          line.substr(begin, line.find(']', begin) - begin + 1));
    } else {
      joined += line + "\n";
    }
    own_names += R"({"checkpoint":"kq_masked-0","token_idx":0,"dtype":"f32","shape":[2],)"
                 R"("values":[0.5,"-Infinity"]})"
                 "\n";
  }
  const auto count = feature().tokens.size();
  joined += fmt::format(
      R"({{"checkpoint":"layer_0_output","token_idx":0,"dtype":"f32","shape":[{},64],"values":[{}]}})"
      "\n",
      count, rows);
  expect_honoured(reversed, "records in another order");
  expect_honoured(own_names, "names of its own");
  expect_honoured(joined, "one record of all tokens");
}

// An engine that leaves logits_scaling out and does something else wrong, too: the logits are not
// those of the model without it, though most of the difference is explained.
TEST_F(Judge, AnExplanationLeavesNoMoreThanRounding) {
  features_ = read_suite(kSuite, {"logits_scaling"});
  write_feature_folder(feature(), feature().config, {}, path("model"));
  const auto unscaled = [&](double other) {
    return judged(log([&](const std::string& line) { return scaled(line, 8.0, other); }));
  };
  const TableCell alone = unscaled(0.0);
  EXPECT_EQ(alone.finding, Finding::kIgnored) << alone.text;
  EXPECT_LT(*alone.from_explained, 1e-5);
  const TableCell beside = unscaled(0.03);
  EXPECT_EQ(beside.finding, Finding::kDiffers) << beside.text;
}

// llama.cpp's 8 bits are 1e-2 to 2e-2 from float64, depending on the weights: what int8 may cost.
TEST_F(Judge, RoundingIsNoMistakeOfAnEngineThatRounds) {
  LogOptions whole;
  whole.head_values = kAllValues;
  write_mutant_log({.model_path = path("model"),
                    .fault = "inputs-q8",
                    .layer = {},
                    .tokens = feature().tokens,
                    .log = {path("log.jsonl"), whole, CheckpointSet("layers")}});
  EXPECT_EQ(judged(path("log.jsonl")).cause, "rounding");
  TableCell cell;
  cell.log = path("log.jsonl");
  judge(feature(), {.name = "int8", .clean = 1e-4, .tolerance = 6e-2}, path("model"), cell);
  EXPECT_EQ(cell.finding, Finding::kHonoured) << cell.text;
  EXPECT_GT(cell.error->rel_l2, 1e-3);
}

// What 16 bits cost an engine in float32, such as llama.cpp's table of GELU, is no mistake, but is
// said.
TEST_F(Judge, RoundingWithinThePrecisionIsHonouredAndNamed) {
  LogOptions whole;
  whole.head_values = kAllValues;
  write_mutant_log({.model_path = path("model"),
                    .fault = "inputs-f16",
                    .layer = {},
                    .tokens = feature().tokens,
                    .log = {path("log.jsonl"), whole, CheckpointSet("layers")}});
  const TableCell cell = judged(path("log.jsonl"));
  EXPECT_EQ(cell.finding, Finding::kHonoured) << cell.text;
  EXPECT_GT(cell.error->rel_l2, 1e-5);
  EXPECT_THAT(cell.text, testing::ContainsRegex("which float32 may cost: .*f16"));
}

TEST_F(Judge, PrecisionsAreKnown) {
  EXPECT_LT(find_precision("float32", "x").clean, find_precision("bfloat16", "x").clean);
  EXPECT_THAT([] { find_precision("float8", "engines.json"); },
              testing::ThrowsMessage<std::exception>(HasSubstr("'float8' is not a precision")));
}

}  // namespace
}  // namespace assay
