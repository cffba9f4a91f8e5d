#include "assay/report/html_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include <algorithm>

#include "assay/report/html_data.h"
#include "tests/report/example.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::Not;

// As it stands in the page.
std::string data_of(const Comparison& comparison) {
  const std::string page = text_of(HtmlReport(), comparison);
  const std::string before = "<script type=\"application/json\" id=\"data\">";
  const size_t start = page.find(before) + before.size();
  return page.substr(start, page.find("</script>", start) - start);
}

rapidjson::Document parsed_data(const Comparison& comparison) {
  rapidjson::Document document;
  document.Parse<rapidjson::kParseValidateEncodingFlag>(data_of(comparison).c_str());
  EXPECT_FALSE(document.HasParseError());
  return document;
}

Comparison many_records(int checkpoints, int tokens) {
  Comparison comparison = example_comparison();
  const RecordResult passed = comparison.results[1];
  comparison.checkpoints.clear();
  comparison.results.clear();
  comparison.order.clear();
  comparison.first_divergence.reset();
  for (int i = 0; i < checkpoints; ++i) {
    comparison.order.push_back(i);
    comparison.checkpoints.push_back(
        parse_checkpoint_name("layer_" + std::to_string(i) + "_output"));
  }
  for (int token = 0; token < tokens; ++token) {
    for (int i = 0; i < checkpoints; ++i) {
      comparison.results.push_back(passed);
      comparison.results.back().checkpoint = i;
      comparison.results.back().token_idx = token;
      comparison.results.back().metrics.rel_l2 = 1e-6;
    }
  }
  return comparison;
}

// The page's own parts are all that there is: breaks if it loaded anything.
TEST(HtmlReport, NamesNoPlaceOutsideOfItself) {
  const std::string page = text_of(HtmlReport(), example_comparison());
  EXPECT_THAT(page, testing::StartsWith("<!doctype html>"));
  EXPECT_THAT(page, Not(HasSubstr("{{")));
  for (const char* way : {"src=", "href=\"http", "@import", "url(", "fetch("}) {
    EXPECT_THAT(page, Not(HasSubstr(way)));
  }
  EXPECT_THAT(page, HasSubstr("default-src 'none'; script-src 'sha256-"));
}

TEST(HtmlData, HoldsNothingThatMarkupIsMadeOf) {
  Comparison comparison = example_comparison();
  const std::string hostile = "</script><!--&\xe2\x80\xa8\xe2\x80\xae\xf0\x9f\x98\x80\xff\x01\"'";
  comparison.checkpoints[0].name = comparison.got_path = hostile;
  const std::string data = data_of(comparison);
  EXPECT_EQ(data.find_first_of("<>&"), std::string::npos);
  EXPECT_TRUE(std::all_of(data.begin(), data.end(), [](char c) { return c >= ' ' && c < 0x7F; }));
  const rapidjson::Document parsed = parsed_data(comparison);
  EXPECT_STREQ(parsed["got"].GetString(),
               "</script><!--&\xe2\x80\xa8\xe2\x80\xae\xf0\x9f\x98\x80\xef\xbf\xbd\x01\"'");
}

TEST(HtmlData, KeepsEveryRecordOfASmallComparison) {
  const rapidjson::Document data = parsed_data(many_records(30, 100));
  EXPECT_EQ(data["records"]["token"].Size(), 3000U);
  EXPECT_TRUE(data["bins"].Empty());
}

// Breaks if a large comparison lost the record that matters.
TEST(HtmlData, KeepsTheWorstWhereRecordsAreTooMany) {
  Comparison comparison = many_records(100, 1000);
  RecordResult& worst = comparison.results[77777];
  worst.metrics.rel_l2 = 0.5;
  worst.evidence = Evidence::kFailed;
  const rapidjson::Document data = parsed_data(comparison);
  const auto& records = data["records"];
  EXPECT_EQ(records["token"].Size(), static_cast<unsigned>(kMaxPageRecords));
  EXPECT_EQ(data["bins"].Size(), 200U);
  EXPECT_EQ(data["bins"][0][0].GetInt(), 0);
  EXPECT_EQ(data["bins"][0][1].GetInt(), 4);
  EXPECT_EQ(data["bins"][199][1].GetInt(), 999);
  int found = 0;
  for (unsigned i = 0; i < records["token"].Size(); ++i) {
    if (records["evidence"][i].GetInt() == static_cast<int>(Evidence::kFailed)) {
      ++found;
      EXPECT_EQ(records["token"][i].GetInt(), 777);
      EXPECT_EQ(records["checkpoint"][i].GetInt(), 77);
    }
  }
  EXPECT_EQ(found, 1);
}

// Breaks if a finite error took the place of a NaN that came before it.
TEST(HtmlData, KeepsNaNWhereRecordsAreTooMany) {
  Comparison comparison = many_records(100, 1000);
  for (const size_t i : {77777U, 77877U}) comparison.results[i].evidence = Evidence::kFailed;
  comparison.results[77777].metrics.rel_l2 = std::nan("");
  comparison.results[77877].metrics.rel_l2 = 0.5;
  const rapidjson::Document data = parsed_data(comparison);
  const auto& records = data["records"];
  for (unsigned i = 0; i < records["token"].Size(); ++i) {
    if (records["evidence"][i].GetInt() != static_cast<int>(Evidence::kFailed)) continue;
    EXPECT_EQ(records["token"][i].GetInt(), 777);
    EXPECT_EQ(records["checkpoint"][i].GetInt(), 77);
  }
}

TEST(HtmlData, KeepsFailingCheckpointsWhereThereAreTooMany) {
  Comparison comparison = many_records(30000, 1);
  comparison.results.back().evidence = Evidence::kFailed;
  const rapidjson::Document data = parsed_data(comparison);
  EXPECT_EQ(data["checkpoints"].Size(), static_cast<unsigned>(kMaxPageRecords));
  EXPECT_STREQ(data["checkpoints"][0][0].GetString(), "layer_29999_output");
}

TEST(HtmlData, HasWhatWasNotShownWithItsReason) {
  const rapidjson::Document data = parsed_data(incomplete_example());
  EXPECT_STREQ(data["outcome"].GetString(), "INCOMPLETE");
  EXPECT_EQ(data["unproven"].GetInt(), 3);
  EXPECT_EQ(data["excused"].GetInt(), 1);
  EXPECT_STREQ(data["first_unproven"]["checkpoint"].GetString(), "layer_4_q");
  EXPECT_THAT(data["first_unproven"]["advice"].GetString(), HasSubstr("--allow-missing"));
  const auto& gaps = data["gaps"];
  ASSERT_EQ(gaps["token"].Size(), 4U);
  EXPECT_EQ(gaps["token"][3].GetInt(), 9);
  EXPECT_EQ(gaps["excused"][2].GetInt(), 0);
  EXPECT_EQ(gaps["excused"][3].GetInt(), 1);
  EXPECT_STREQ(data["reasons"][gaps["reason"][0].GetUint()].GetString(),
               "it is missing in the other log");
  // layer_4_q is missing altogether, and has its place all the same.
  const auto& missing = data["checkpoints"][gaps["checkpoint"][0].GetUint()];
  EXPECT_STREQ(missing[0].GetString(), "layer_4_q");
  EXPECT_EQ(missing[3].GetInt(), 0);
  EXPECT_EQ(missing[5].GetInt(), 2);
}

// Breaks if a record of which nothing was held together were drawn as one without error.
TEST(HtmlData, ARecordWithoutFiguresIsAGap) {
  Comparison comparison = incomplete_example();
  RecordResult& logits = comparison.results[1];
  logits.evidence = Evidence::kUnproven;
  logits.reason = "nothing in common";
  const rapidjson::Document nothing = parsed_data(comparison);
  EXPECT_EQ(nothing["records"]["token"].Size(), 1U);
  EXPECT_EQ(nothing["gaps"]["token"].Size(), 5U);
  // A part was compared, and whole evidence was asked: figures, and grey.
  logits.metrics.facts.head = true;
  const rapidjson::Document part = parsed_data(comparison);
  EXPECT_EQ(part["records"]["token"].Size(), 2U);
  EXPECT_EQ(part["gaps"]["token"].Size(), 5U);
}

// Breaks if a large comparison lost what is missing: 500,000 gaps beside 100,000 records.
TEST(HtmlData, PutsGapsTogetherWhereTheyAreTooMany) {
  Comparison comparison = many_records(100, 1000);
  for (int64_t token = 0; token < 5000; ++token) {
    for (int32_t i = 0; i < 100; ++i) {
      const bool excused = token >= 4000;
      comparison.gaps.push_back(
          {i, 1000 + token, excused ? Evidence::kExcused : Evidence::kUnproven, kMissing});
    }
  }
  const rapidjson::Document data = parsed_data(comparison);
  const auto& gaps = data["gaps"];
  EXPECT_EQ(data["bins"].Size(), 200U);
  EXPECT_EQ(data["bins"][199][1].GetInt(), 5999);
  EXPECT_LE(gaps["token"].Size(), static_cast<unsigned>(kMaxPageRecords));
  int64_t unproven = 0;
  int64_t excused = 0;
  for (unsigned i = 0; i < gaps["token"].Size(); ++i) {
    (gaps["excused"][i].GetInt() != 0 ? excused : unproven) += gaps["records"][i].GetInt64();
  }
  EXPECT_EQ(unproven, 400000);
  EXPECT_EQ(excused, 100000);
}

}  // namespace
}  // namespace assay
