#include "assay/report/json_object.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace assay {
namespace {

// Breaks if a value of some type were written as one of another, or a comma were missing.
TEST(JsonObject, WritesEachKindOfValue) {
  const std::string text = json_of([](JsonObject& object) {
    object.member("flag", true);
    object.member("most", std::numeric_limits<uint64_t>::max());
    object.member("least", std::numeric_limits<int64_t>::min());
    object.member("size", size_t{3});
    object.member("nan", std::numeric_limits<double>::quiet_NaN());
    object.member("single", 0.1F);
    object.member("text", "a\"b");
    object.member("known", std::optional<int64_t>(7));
    object.member("unknown", std::optional<double>());
    object.member("row", std::tuple(1, "b", RawJson{"2.50"}));
  });
  EXPECT_EQ(
      text,
      R"({"flag":true,"most":18446744073709551615,"least":-9223372036854775808,"size":3,)"
      R"("nan":"NaN","single":0.1,"text":"a\"b","known":7,"unknown":null,"row":[1,"b",2.50]})");
}

// Breaks if a name from a log could command the terminal that a report is shown on.
TEST(JsonObject, WritesNothingThatATerminalObeys) {
  EXPECT_EQ(json_of([](JsonObject& object) { object.member("\x1b[2J", "\x9b\r"); }),
            R"({"\u001b[2J":"\ufffd\u000d"})");
}

TEST(JsonObject, NestsObjectsAndArrays) {
  const std::vector<int> numbers = {1, 2};
  const std::optional<int> three = 3;
  const auto append = [](JsonObject& inner, int number) { inner.member("n", number); };
  EXPECT_EQ(json_of([&](JsonObject& object) {
              object.array("values", numbers);
              object.array("doubled", numbers, [](int number) { return 2 * number; });
              object.array("objects", numbers, append);
              object.array("none", std::vector<int>());
              object.object_or_null("three", three, append);
              object.object_or_null("nothing", std::optional<int>(), append);
            }),
            R"({"values":[1,2],"doubled":[2,4],"objects":[{"n":1},{"n":2}],"none":[],)"
            R"("three":{"n":3},"nothing":null})");
}

// Breaks if what is flushed were lost, or were kept in memory until the end.
TEST(JsonObject, GivesLongArraysToTheSinkInPieces) {
  const std::vector<std::string> texts(3, std::string(50000, 'x'));
  std::string text;
  size_t pieces = 0;
  const auto sink = [&](std::string_view piece) {
    text += piece;
    ++pieces;
  };
  write_json_line(sink, [&](JsonObject& object) {
    object.member("first", 1);
    object.lines("texts", texts, sink);
  });
  EXPECT_EQ(pieces, 2U);
  const std::string quoted = '"' + texts[0] + '"';
  EXPECT_EQ(text, "{\"first\":1,\n\"texts\":[\n  " + quoted + ",\n  " + quoted + ",\n  " + quoted +
                      "]}\n");
}

// Breaks if a reader took 10000.0 for a whole number, or what is not finite made invalid JSON.
TEST(JsonDecimal, HasADecimalPoint) {
  EXPECT_EQ(json_decimal(10000), "10000.0");
  EXPECT_EQ(json_decimal(0), "0.0");
  EXPECT_EQ(json_decimal(static_cast<double>(1e-5F)), "0.000009999999747378752");
  EXPECT_EQ(json_decimal(12.34567, 3), "12.345");
  EXPECT_EQ(json_decimal(-std::numeric_limits<double>::infinity()), "\"-Infinity\"");
}

}  // namespace
}  // namespace assay
