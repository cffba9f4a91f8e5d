#include "assay/log/log_reader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "assay/log/log_writer.h"
#include "assay/log/sketch.h"
#include "base/error.h"
#include "tests/support/temporary_folder.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;

class LogReaderTest : public TemporaryFolder {
 protected:
  void SetUp() override {
    TemporaryFolder::SetUp();
    path_ = path("log.jsonl");
  }

  void put(const std::string& text) { TemporaryFolder::put("log.jsonl", text); }

  // All records of `text`, read at both depths; the warnings of the full one in warnings_.
  std::vector<Record> read(const std::string& text) {
    put(text);
    LogReader log(path_);
    std::vector<Record> records;
    while (const Record* record = log.next()) records.push_back(*record);
    warnings_ = log.warnings();
    header_ = log.header();
    return records;
  }

  std::string error_of(const std::string& text) {
    try {
      read(text);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  std::string path_;
  std::vector<std::string> warnings_;
  std::optional<LogHeader> header_;
};

std::string record(const std::string& values, const std::string& more = "") {
  return R"({"checkpoint":"logits","token_idx":3,"dtype":"f32","shape":[1,4],"values":[)" + values +
         "]" + more + "}";
}

TEST_F(LogReaderTest, ReadsWhatTheWriterWrote) {
  const std::vector<float> values = {1.5F, -0.0F, std::nanf(""), 0.1F,
                                     -std::numeric_limits<float>::infinity()};
  {
    LogWriter log(path_, {.team = "ours", .head_values = 4, .summary = true, .sketch = true});
    log.write_header({.model = {.name = "m", .sha256 = "ab", .arch = "llama", .type = "F32"},
                      .tokens = {1, 42},
                      .prompt = "a\nb",
                      .engine = "assay",
                      .backend = "cpu",
                      .math = "exact"});
    log.write("logits", 1, values);
  }
  LogReader log(path_);
  const Record* got = log.next();
  ASSERT_NE(got, nullptr);
  EXPECT_EQ(log.header()->model.name, "m");
  EXPECT_THAT(log.header()->tokens, ElementsAre(1, 42));
  EXPECT_EQ(log.header()->prompt, "a\nb");
  EXPECT_EQ(got->checkpoint, "logits");
  EXPECT_EQ(got->token_idx, 1);
  EXPECT_EQ(got->team, "ours");
  EXPECT_EQ(got->n, 5);
  ASSERT_EQ(got->values.size(), 4U);
  EXPECT_EQ(got->values[0], 1.5F);
  EXPECT_TRUE(std::signbit(got->values[1]));
  EXPECT_TRUE(std::isnan(got->values[2]));
  EXPECT_EQ(*got->sketch, compute_sketch(values));
  EXPECT_EQ(got->summary->nonfinite, 2);
  EXPECT_EQ(got->summary->top.at(1).value, 0.1F);
  EXPECT_EQ(log.next(), nullptr);
  EXPECT_TRUE(log.warnings().empty());
}

TEST_F(LogReaderTest, ReadsOtherWritersForms) {
  const auto records = read(
      "\xEF\xBB\xBF{\"ts\":\"t\",\"x\":{\"values\":[1,{\"a\":[]}]},\"values\" : [ 1 , \"NaN\" , "
      "-Infinity,nan],\"shape\":\"[1, 4]\",\"dtype\":\"f16\",\"token_idx\":0,\"checkpoint\":\"q\","
      "\"team\":null}\r\n\r\n  \n" +
      record("1,2,3,4"));
  ASSERT_EQ(records.size(), 2U);
  EXPECT_THAT(records[0].shape, ElementsAre(1, 4));
  EXPECT_EQ(records[0].values.size(), 4U);
  EXPECT_TRUE(std::isnan(records[0].values[1]));
  EXPECT_EQ(records[0].values[2], -std::numeric_limits<float>::infinity());
  EXPECT_FALSE(records[0].team.has_value());
  EXPECT_EQ(records[1].values[3], 4);
}

// Breaks if a number that is written as text were taken for a missing one.
TEST_F(LogReaderTest, SummariesHoldNumbers) {
  for (const char* key : {"min", "max", "mean", "l2", "argmax", "nonfinite"}) {
    for (const char* value : {"\"1.5\"", "true"}) {
      const std::string error =
          error_of(record("1", std::string(",\"summary\":{\"") + key + "\":" + value + "}"));
      EXPECT_THAT(error, HasSubstr(path_ + ":1: 'summary': '" + key + "' is ")) << value;
      EXPECT_THAT(error, HasSubstr(", not a number"));
    }
  }
  EXPECT_EQ(error_of(record("1", R"(,"summary":{"note":"text","l2":1})")), "no error");
}

// Breaks if a number that no float holds became an infinity, by a cast that is undefined.
TEST_F(LogReaderTest, TopValuesAreFloats) {
  for (const char* value : {"1e300", "-3.5e38"}) {
    EXPECT_THAT(error_of(record("1", std::string(R"(,"summary":{"top":[[0,)") + value + "]]}")),
                AllOf(HasSubstr(path_ + ":1: 'summary': 'top': "),
                      HasSubstr(" is beyond the range of a 32-bit float")));
  }
  EXPECT_EQ(error_of(record("1", R"(,"summary":{"top":[[0,"Infinity"],[1,3.4028235e+38]]})")),
            "no error");
  EXPECT_THAT(error_of(record("1", R"(,"summary":{"top":[[0.5,1]]})")),
              HasSubstr("'top' is not a short array of [index, value]"));
}

// Breaks if a NaN in a summary were read as a number.
TEST_F(LogReaderTest, SummariesMayHoldNaN) {
  for (const char* nan : {"NaN", "\"NaN\"", "Infinity", "-Infinity"}) {
    const auto records = read(
        record("1", std::string(",\"summary\":{\"l2\":") + nan + ",\"max\":1.5,\"argmax\":2}"));
    EXPECT_FALSE(std::isfinite(records.at(0).summary->l2)) << nan;
    EXPECT_EQ(records.at(0).summary->max, 1.5);
    EXPECT_EQ(records.at(0).summary->argmax, 2);
  }
  for (const auto& [more, nan] : {std::pair("", 0), {R"(,"nonfinite":0)", 1}}) {
    const std::string min = fmt::format(R"(,"summary":{{"min":"-Infinity"{}}})", more);
    EXPECT_EQ(read(record("1", min)).at(0).summary->nan, nan) << "padding, unless it is denied";
  }
}

TEST_F(LogReaderTest, TheHeadOfATensorKnowsTheWholesSize) {
  EXPECT_EQ(read(record("1,2")).at(0).n, 4);
  EXPECT_EQ(read(record("1,2", ",\"n\":3")).at(0).n, 3) << "of a batch or a padded buffer";
  EXPECT_EQ(read(record("1,2,3,4", ",\"n\":9")).at(0).n, 9) << "the shape of what is logged";
  EXPECT_THAT(error_of(record("1,2", ",\"n\":9")),
              HasSubstr("'n' is 9, but the shape [1,4] has 4 elements, which is not how many "
                        "'values' there are; log the shape of the tensor, or of what is logged"));
}

// Breaks if a size of null were taken for 0.
TEST_F(LogReaderTest, OptionalKeysMayBeNull) {
  const auto records = read(
      record("1,2", R"(,"n":null,"summary":null,"sketch":null,"ts":null,"team":null,"line":null)"));
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].n, 4);
  EXPECT_THAT(records[0].values, ElementsAre(1, 2));
  EXPECT_FALSE(records[0].summary || records[0].sketch || records[0].ts || records[0].team ||
               records[0].line);
  EXPECT_THAT(error_of(record("1,2,3,4,5", ",\"n\":null")), HasSubstr("but 'shape' says 4"));
}

TEST_F(LogReaderTest, ReportsEachBrokenLineWithItsNumber) {
  const struct {
    std::string line;
    const char* message;
  } cases[] = {
      {"{}", ":2: 'checkpoint' is missing; each record needs"},
      {R"({"checkpoint":"a","token_idx":1,"dtype":"f32","shape":[1]})", ":2: 'values' is missing"},
      {record("1", ",\"values\":[1]"), "has the key 'values' twice"},
      {record("1", R"(,"summary":{"min":1,"l2":1,"min":2})"), "'summary' has the key 'min' twice"},
      {record("1", R"(,"summary":{"top":[],"top":null})"), "'summary' has the key 'top' twice"},
      {record("1", R"(,"summary":{"top":[[5,1],[4,1],[5,2]]})"),
       "'summary': 'top' has index 5 twice"},
      {R"({"assay":1,"model":{"name":"a","name":"b"}})", "'model' has the key 'name' twice"},
      {record("1,null"), "null is not a value: write NaN as \"NaN\" (element 1)"},
      {record("1,,2"), "'' is not a number (element 1)"},
      {record("1,2,"), "'' is not a number (element 2)"},
      {record("1 2"), "no comma or ] after element 0"},
      {record("1,\"zwei\""), "'\"zwei\"' is not a number"},
      {record("1,1e400"), "1e400 is beyond the range of a 32-bit float (element 1)"},
      {record("1,1e39"), "1e39 is beyond the range of a 32-bit float"},
      {record("1,2,3,4,5"), "5 values, but 'shape' says 4"},
      {record("1,2,3", ",\"n\":2"), "3 values, but 'n' says 2"},
      {record("1,[2]"), "'values': a row among numbers (element 1)"},
      {record("[1],2"), "'values': a number among rows (element 1)"},
      {record("[1,2],[3]"),
       "'values': a row of 1 among rows of 2 (element 2); write one array of numbers, or rows of "
       "one length"},
      {record("[[1],[2]],[3,4]"), "'values': a number among rows (element 2)"},
      {record("[1,2],[[3],[4]]"), "'values': a row among numbers (element 2)"},
      {record("[1],[]"), "'values': a row of 0 among rows of 1"},
      {record("[1,2]3"), "'values': no comma or ] after a row (element 2)"},
      {record("[1,2],"), "'values': a number among rows"},
      {record("[1,null]"), "null is not a value"},
      {record(std::string(40, '[') + "1" + std::string(40, ']')), "'values': nested too deeply"},
      {record("[1,2],[3,4],[5,6]"), "6 values, but 'shape' says 4"},
      {R"({"checkpoint":"a","token_idx":1,"dtype":"f32","shape":[2,3],"values":[[1,2],[3,4],[5,6]]})",
       "'values' is nested as [3,2], but the shape is [2,3]; log whole rows"},
      {R"({"checkpoint":"a","token_idx":1,"dtype":"f32","shape":[2,3],"values":[[1,2],[4,5]]})",
       "'values' is nested as [2,2], but the shape is [2,3]; log whole rows"},
      {R"({"checkpoint":"a","token_idx":1,"dtype":"f32","shape":[6],"values":[[1,2],[4,5]]})",
       "'values' is nested as [2,2], but the shape is [6]"},
      {record("1", R"(,"top":[[1,-1],[2,-0.5]])"),
       "'top' is not in descending order: -0.5 after -1 (element 1); log the most probable"},
      {record("1", R"(,"top":[[1,-1],[2,"NaN"],[3,-0.5]])"),
       "'top' is not in descending order: -0.5 after -1 (element 2)"},
      {record("1", R"(,"top":[[1,-1],[2,-2],[1,-3]])"), "'top' has the id 1 twice"},
      {record("1", R"(,"top":[[4,-1]])"),
       "'top' has the id 4, but the record has 4 elements; give the vocabulary's size as n"},
      {record("1", R"(,"top":[[4,-1]],"n":4)"), "'top' has the id 4"},
      {record("1", R"(,"top":[[-1,-1]])"), "'top' has the id -1; write it as in"},
      {record("1", R"(,"top":[[1.5,-1]])"), "'top' has the id 1.5"},
      {record("1", R"(,"top":[["NaN",-1]])"), "'top' has the id nan"},
      {record("1", R"(,"top":[1,-1])"), "'top' is not an array of [id, logprob]; write it as in"},
      {record("1", R"(,"top":[[1,-1,0]])"), "'top' is not an array of [id, logprob]"},
      {record("1", R"(,"top":[[1,-1e39]])"), "-1e+39 is beyond the range of a 32-bit float"},
      {record("1", R"(,"top":{"1":-1})"), "'top' is an object, not an array of [id, logprob]"},
      {record("1", R"(,"sequence":1.5)"),
       "'sequence' is 1.5, not a string or an integer; write it as in \"sequence\":\"chat-7\""},
      {record("1", R"(,"sequence":"")"), "'sequence' is empty; give the sequence's name"},
      {record("1", R"(,"step":-1)"), "'step' is -1, below 0; count forward passes from 0"},
      {record("1", R"(,"step":"1")"), "'step' is a string, not an integer"},
      {record("1", R"(,"phase":"Prefill")"), "'phase' is 'Prefill'; give prefill or decode"},
      {record("1", R"(,"phase":0)"), "'phase' is a number, not a string"},
      {record("1", R"(,"rank":0)"), "'rank' is a number, not an object; write it as in"},
      {record("1", R"(,"rank":{"tp":-2})"),
       "'rank': 'tp' is -2, not a whole number from 0 to 32767; write it as in"},
      {record("1", R"(,"rank":{"tp":32768})"),
       "'rank': 'tp' is 32768, not a whole number from 0 to 32767"},
      {record("1", R"(,"rank":{"pp":0.5})"), "'rank': 'pp' is 0.5, not a whole number"},
      {record("1", R"(,"rank":{"ep":"1"})"), "'rank': 'ep' is the string '1', not a whole"},
      {record("1", R"(,"rank":{"ep":true})"), "'rank': 'ep' is true, not a whole number"},
      {record("1", R"(,"rank":{"ep":[1]})"), "'rank': 'ep' is an array, not a whole number"},
      {record("1", R"(,"rank":{"ep":{}})"), "'rank': 'ep' is an object, not a whole number"},
      {record("1", R"(,"rank":{"tp":1,"tp":1})"), "'rank' has the key 'tp' twice"},
      {record("1", R"(,"dims":["t","h"])"), "'dims' is an array, not a string"},
      {R"({"checkpoint":"a","token_idx":-1,"dtype":"f32","shape":[1],"values":[1]})",
       "'token_idx' is -1, below 0"},
      {R"({"checkpoint":"a","token_idx":1.5,"dtype":"f32","shape":[1],"values":[1]})",
       "'token_idx' is 1.5, not an integer"},
      {R"({"checkpoint":"a","token_idx":9223372036854775808,"dtype":"f32","shape":[1],"values":[1]})",
       "'token_idx' is 9.223372036854776e+18, not an integer"},
      {R"({"checkpoint":"a","token_idx":1e999,"dtype":"f32","shape":[1],"values":[1]})",
       "not valid JSON"},
      {R"({"checkpoint":7,"token_idx":1,"dtype":"f32","shape":[1],"values":[1]})",
       "'checkpoint' is a number, not a string"},
      {R"({"checkpoint":"a","token_idx":1,"dtype":"f32","shape":[1],"values":1})",
       "'values' is a number, not an array of numbers"},
      {R"({"checkpoint":"a","token_idx":1,"dtype":"f32","shape":"x","values":[1]})",
       "'shape' is the string 'x', not an array"},
      {R"({"checkpoint":"a","token_idx":1,"dtype":"f32","shape":[4294967296,4294967296],"values":[1]})",
       "the shape [4294967296,4294967296] has no element count"},
      {R"({"checkpoint":"a","token_idx":1,"dtype":"f32","shape":[-4],"values":[1]})",
       "the shape [-4] has no element count"},
      {record("1", ",\"sketch\":[1,2]"), "'sketch' has 2 numbers, not 64"},
      {"[1,2]", "the line is an array, not an object"},
      {"12", "the line is a number, not an object"},
      {record("1") + "}", "not valid JSON at byte"},
      {record("1") + std::string("\0x", 2), "a NUL byte at byte"},
      {"\x80\x81\x82 binary", "not valid JSON at byte 1"},
      {"{\"checkpoint\":\"\xFF\"}", "not valid JSON"},
      {R"({"a":)" + std::string(100000, '[') + "}", "nested too deeply"},
      {R"({"assay":1})", "a header after the first line"},
  };
  for (const auto& test : cases) {
    const std::string error = error_of(record("1") + "\n" + test.line + "\n" + record("2") + "\n");
    EXPECT_THAT(error, HasSubstr(test.message));
    EXPECT_THAT(error, HasSubstr("log.jsonl:2: "));
  }
}

// Breaks if a header of another type looks like one that does not say which model it is of.
TEST_F(LogReaderTest, RefusesAModelThatIsNotNamedByTexts) {
  for (const char* key : {"name", "sha256", "arch", "type"}) {
    for (const auto& [value, found] :
         std::vector<std::pair<std::string, std::string>>{{"5", "a number"},
                                                          {"0.5", "a number"},
                                                          {"true", "true"},
                                                          {"[\"m\"]", "an array"},
                                                          {"{}", "an object"}}) {
      const std::string header = fmt::format(R"({{"assay":1,"model":{{"{}":{}}}}})", key, value);
      EXPECT_THAT(
          error_of(header + "\n" + record("1") + "\n"),
          HasSubstr(fmt::format("log.jsonl:1: 'model': '{}' is {}, not a string; write it as "
                                R"(in "model":{{"name":"SmolLM2"}})",
                                key, found)));
    }
  }
  const std::string header = R"({"assay":1,"model":{"name":null,"other":[5,{"name":5}]}})";
  EXPECT_EQ(error_of(header + "\n" + record("1") + "\n"), "no error");
}

// Breaks if a message gave the error but not what to do.
TEST_F(LogReaderTest, EachMessageSaysWhatToDo) {
  const std::string one_object = "; each line of a log is one JSON object";
  const std::string no_values = R"("dtype":"f32","shape":[1],"values":[1]})";
  for (const auto& [line, hint] : std::vector<std::pair<std::string, std::string>>{
           {record("1,1e39"),
            "; values are 32-bit floats, or \"NaN\", \"Infinity\", \"-Infinity\""},
           {record("1", R"(,"summary":{"top":[[0,1e39]]})"), "; values are 32-bit floats, or"},
           {record("1", R"(,"summary":{"l2":true})"), "; write a number, or leave the key out"},
           {record("1", ",\"n\":-1"), "; give the elements of the whole tensor, or leave it out"},
           {record("1", ",\"n\":1,\"n\":1"), "; write each key once"},
           {record("1", ",\"sketch\":[1]"), "; log it as the taps do, or leave it out"},
           {R"({"checkpoint":"a","token_idx":0.0,)" + no_values,
            "'token_idx' is 0.0, not an integer; write it as in \"token_idx\":0"},
           {R"({"checkpoint":"a","token_idx":-1,)" + no_values, "; count positions from 0"},
           {R"({"checkpoint":"","token_idx":0,)" + no_values, "; give the tensor's name"},
           {R"({"checkpoint":7,"token_idx":0,)" + no_values,
            "; write it as in \"checkpoint\":\"logits\""},
           {R"({"checkpoint":"a","token_idx":0,"dtype":"f32","shape":[1.5],"values":[1]})",
            "; give whole numbers"},
           {"[1]", one_object},
           {"\"a\"", one_object},
           {"1", one_object},
           {"true", one_object},
           {R"({"a":)" + std::string(100, '[') + "}", one_object}}) {
    EXPECT_THAT(error_of(line + "\n"), HasSubstr(hint)) << line;
  }
}

TEST_F(LogReaderTest, ReportsALogOfANewerProgram) {
  EXPECT_THAT(error_of("{\"assay\":2}\n"), HasSubstr(":1: the log is of version 2"));
}

// Breaks if rows were read in another order, or if the shorter reading without numbers took the
// end of a row, or a bracket in a text, for the end of the values.
TEST_F(LogReaderTest, NestedValuesAreReadInRowOrder) {
  const std::string begin = R"({"checkpoint":"q","token_idx":0,"dtype":"f32","shape":[2,3],)";
  std::string rest;
  for (int i = 0; i < 500; ++i) rest.append(",").append(std::to_string(i)).append(".25");
  for (const std::string& line : {
           begin + R"("values":[[1,2,3],[4,5,"NaN"]],"n":6,"team":"a"})",
           begin + R"("values": [ [ [1 , 2,3] , [ 4,5 , -Infinity] ] ],"n":6,"team":"a"})",
           begin + R"("values":[[1,2,3]],"n":6,"team":"a"})",
           begin + R"("values":[[]],"n":6,"team":"a"})",
           R"({"checkpoint":"q","token_idx":0,"dtype":"f32","shape":[2,501],"values":[[0.5)" +
               rest + "],[1.5" + rest + R"(]],"n":1002,"team":"a"})",
       }) {
    put(line + "\n" + record("1"));
    for (const Depth depth : {Depth::kFull, Depth::kKeys}) {
      LogReader log(path_, depth);
      const Record* got = log.next();
      ASSERT_NE(got, nullptr);
      EXPECT_EQ(got->team, "a");
      if (depth == Depth::kFull && got->n == 1002) {
        ASSERT_EQ(got->values.size(), 1002U);
        EXPECT_EQ(got->values[500], 499.25F);
        EXPECT_EQ(got->values[501], 1.5F);
        EXPECT_EQ(got->values[502], 0.25F);
      } else if (depth == Depth::kFull && !got->values.empty()) {
        ASSERT_THAT(got->values.size(), AnyOf(3U, 6U)) << line;
        for (size_t i = 0; i < std::min<size_t>(got->values.size(), 5); ++i) {
          EXPECT_EQ(got->values[i], static_cast<float>(i + 1)) << line;
        }
      }
      ASSERT_NE(log.next(), nullptr);
    }
  }
  EXPECT_THAT(read(R"({"checkpoint":"q","token_idx":0,"dtype":"f32","shape":[6],)"
                   R"("values":[[1,2,3],[4,5,6]]})")
                  .at(0)
                  .values,
              ElementsAre(1, 2, 3, 4, 5, 6));
}

// Breaks if a bracket within a text ended the values of a line that is read without them.
TEST_F(LogReaderTest, TextsInValuesAreNoBrackets) {
  const std::string text = record(R"("],\"\\",1,"[")") + "\n" + record("1");
  EXPECT_THAT(error_of(text), HasSubstr(":1: 'values': '\"' is not a number"));
  LogReader keys(path_, Depth::kKeys);
  ASSERT_NE(keys.next(), nullptr);
  EXPECT_EQ(keys.next()->token_idx, 3);
}

TEST_F(LogReaderTest, TopIsOfTokenIds) {
  const auto records =
      read(R"({"checkpoint":"logprobs","token_idx":3,"dtype":"f32","shape":[1,100],"n":100,)"
           R"("values":[],"top":[[99,-0.25],[0,-0.25],[7,"NaN"],[8,"-Infinity"]]})"
           "\n" +
           record("1", R"(,"top":[])") + "\n" + record("1", R"(,"top":null)"));
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(records[0].n, 100);
  EXPECT_TRUE(records[0].values.empty());
  ASSERT_EQ(records[0].top.size(), 4U);
  EXPECT_EQ(records[0].top[0].index, 99);
  EXPECT_EQ(records[0].top[1].value, -0.25F);
  EXPECT_TRUE(std::isnan(records[0].top[2].value));
  EXPECT_EQ(records[0].top[3].value, -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(records[1].top.empty() && records[2].top.empty());
}

// Breaks if a coordinate were taken for another, stayed from the record before, or were not known
// to the index of a log, which reads without numbers.
TEST_F(LogReaderTest, CoordinatesAreRead) {
  put(record("1", R"(,"sequence":"chat-7","step":4,"phase":"decode","dims":"t h[tp]",)"
                  R"("rank":{"tp":1,"pp":2,"ep":3,"dp":9})") +
      "\n" + record("1", R"(,"sequence":-12,"phase":"prefill","rank":{"pp":5,"tp":null})") + "\n" +
      record("1", R"(,"sequence":null,"step":null,"phase":null,"rank":null,"dims":null)") + "\n");
  for (const Depth depth : {Depth::kFull, Depth::kKeys}) {
    LogReader log(path_, depth);
    const Record* got = log.next();
    EXPECT_EQ(got->sequence, "chat-7");
    EXPECT_EQ(got->step, 4);
    EXPECT_EQ(got->phase, Phase::kDecode);
    EXPECT_EQ(got->rank, (Rank{.tp = 1, .pp = 2, .ep = 3}));
    EXPECT_EQ(got->dims, "t h[tp]");
    got = log.next();
    EXPECT_EQ(got->sequence, "-12");
    EXPECT_EQ(got->step, std::nullopt);
    EXPECT_EQ(got->phase, Phase::kPrefill);
    EXPECT_EQ(got->rank, (Rank{.tp = 0, .pp = 5, .ep = 0}));
    EXPECT_EQ(got->dims, std::nullopt);
    got = log.next();
    EXPECT_EQ(got->sequence, "0");
    EXPECT_FALSE(got->step || got->phase || got->rank || got->dims);
  }
}

// Breaks if a killed engine's log could not be read, or if any cut were taken for a whole record.
TEST_F(LogReaderTest, WarnsOfATornLastLineAndSkipsIt) {
  const std::string line =
      record("[1.5,\"NaN\"],[3e5,4]",
             R"(,"summary":{"min":1,"top":[[1,2]]},"top":[[1,-1]],"rank":{"tp":1},"x":"é")");
  for (size_t bytes = 1; bytes < line.size(); ++bytes) {
    const auto records = read(record("1") + "\n" + line.substr(0, bytes));
    ASSERT_EQ(records.size(), 1U) << bytes;
    ASSERT_THAT(warnings_, ElementsAre(HasSubstr("log.jsonl:2: the last line is cut off")));
  }
  EXPECT_EQ(read(record("1") + "\n" + line).size(), 2U);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(LogReaderTest, AWholeLastLineWithAnErrorIsNotTorn) {
  EXPECT_THAT(error_of(record("1,,2")), HasSubstr(":1: 'values'"));
  EXPECT_THAT(error_of("binary"), HasSubstr(":1: is not valid JSON"));
}

TEST_F(LogReaderTest, NamesTheFileThatCannotBeRead) {
  const auto error = [](const std::string& path) -> std::string {
    try {
      LogReader log(path);
    } catch (const Error& caught) {
      return caught.what();
    }
    return "no error";
  };
  EXPECT_THAT(error(path_), HasSubstr(path_ + ": cannot open: No such file or directory"));
  EXPECT_THAT(error(folder_), HasSubstr("is a directory"));
  EXPECT_THAT(error("/dev/null"), HasSubstr("is not a regular file"));
}

TEST_F(LogReaderTest, AnEmptyFileHasNoRecords) {
  EXPECT_TRUE(read("").empty());
  EXPECT_TRUE(read("\n\r\n").empty());
}

// Lines longer than the read buffer, and records read again at their places.
TEST_F(LogReaderTest, FindsEveryRecordAgain) {
  {
    LogWriter log(path_, {.team = "", .head_values = kAllValues, .summary = true, .sketch = false});
    log.write_header({});
    for (int t = 0; t < 5; ++t) {
      log.write("logits", t,
                std::vector<float>(t % 2 == 0 ? 3U : 400003U, static_cast<float>(t) / 3));
    }
  }
  LogReader log(path_, Depth::kKeys);
  RecordLoader loader(log.file());
  for (int t = 0; t < 5; ++t) {
    const Record* keys = log.next();
    ASSERT_NE(keys, nullptr);
    EXPECT_TRUE(keys->values.empty());
    EXPECT_EQ(log.place().line, t + 2);
    const Record& whole = loader.load(log.place());
    EXPECT_EQ(whole.token_idx, t);
    ASSERT_EQ(whole.values.size(), 400000U * static_cast<unsigned>(t % 2) + 3U);
    EXPECT_EQ(whole.values.back(), static_cast<float>(t) / 3);
  }
  EXPECT_EQ(log.next(), nullptr);
}

}  // namespace
}  // namespace assay
