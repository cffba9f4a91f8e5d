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
  const std::string page =
      text_of([&](const TextSink& sink) { write_html(comparison, example_context(), sink); });
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
  comparison.first_divergence.reset();
  for (int i = 0; i < checkpoints; ++i) {
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
  const std::string page = text_of(
      [&](const TextSink& sink) { write_html(example_comparison(), example_context(), sink); });
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
  worst.pass = false;
  const rapidjson::Document data = parsed_data(comparison);
  const auto& records = data["records"];
  EXPECT_EQ(records["token"].Size(), static_cast<unsigned>(kMaxPageRecords));
  EXPECT_EQ(data["bins"].Size(), 200U);
  EXPECT_EQ(data["bins"][0][0].GetInt(), 0);
  EXPECT_EQ(data["bins"][0][1].GetInt(), 4);
  EXPECT_EQ(data["bins"][199][1].GetInt(), 999);
  int found = 0;
  for (unsigned i = 0; i < records["token"].Size(); ++i) {
    if (records["pass"][i].GetInt() == 0) {
      ++found;
      EXPECT_EQ(records["token"][i].GetInt(), 777);
      EXPECT_EQ(records["checkpoint"][i].GetInt(), 77);
    }
  }
  EXPECT_EQ(found, 1);
}

TEST(HtmlData, KeepsFailingCheckpointsWhereThereAreTooMany) {
  Comparison comparison = many_records(30000, 1);
  comparison.results.back().pass = false;
  const rapidjson::Document data = parsed_data(comparison);
  EXPECT_EQ(data["checkpoints"].Size(), static_cast<unsigned>(kMaxPageRecords));
  EXPECT_STREQ(data["checkpoints"][0][0].GetString(), "layer_29999_output");
}

}  // namespace
}  // namespace assay
