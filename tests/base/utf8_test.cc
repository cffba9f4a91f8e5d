#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace assay {
namespace {

void expect_unit(std::string_view text, Utf8Kind kind, size_t length) {
  const Utf8Unit unit = next_utf8(text);
  EXPECT_EQ(unit.kind, kind) << testing::PrintToString(text);
  EXPECT_EQ(unit.length, length) << testing::PrintToString(text);
}

TEST(NextUtf8, WholeCharactersOfEveryLength) {
  expect_unit("ab", Utf8Kind::kWhole, 1);
  expect_unit(std::string_view("\0", 1), Utf8Kind::kWhole, 1);
  expect_unit("\xC3\xA9z", Utf8Kind::kWhole, 2);
  expect_unit("\xE2\x82\xACz", Utf8Kind::kWhole, 3);
  expect_unit("\xF0\x9F\x98\x80z", Utf8Kind::kWhole, 4);
  expect_unit("\xED\x9F\xBF", Utf8Kind::kWhole, 3);
  expect_unit("\xF4\x8F\xBF\xBF", Utf8Kind::kWhole, 4);
}

// What a stream must hold back: more bytes may complete it.
TEST(NextUtf8, BegunCharacters) {
  expect_unit("\xC3", Utf8Kind::kPartial, 1);
  expect_unit("\xE2\x82", Utf8Kind::kPartial, 2);
  expect_unit("\xF0\x9F\x98", Utf8Kind::kPartial, 3);
}

// What a stream must not hold back: no byte can complete it.
TEST(NextUtf8, MalformedBytes) {
  expect_unit("\x80", Utf8Kind::kInvalid, 1);
  expect_unit("\xFF", Utf8Kind::kInvalid, 1);
  expect_unit("\xC0\x80", Utf8Kind::kInvalid, 1);          // overlong
  expect_unit("\xE0\x80\x80", Utf8Kind::kInvalid, 1);      // overlong
  expect_unit("\xF0\x80\x80\x80", Utf8Kind::kInvalid, 1);  // overlong
  expect_unit("\xED\xA0\x80", Utf8Kind::kInvalid, 1);      // surrogate
  expect_unit("\xF4\x90\x80\x80", Utf8Kind::kInvalid, 1);  // beyond U+10FFFF
  expect_unit("\xE2\x82z", Utf8Kind::kInvalid, 2);
}

// What JSON and messages replace or escape: everything but a whole character.
TEST(Utf8Length, OfWholeCharactersOnly) {
  EXPECT_EQ(utf8_length("\xE2\x82\xACz"), 3U);
  EXPECT_EQ(utf8_length("\xE2\x82"), 0U);
  EXPECT_EQ(utf8_length("\x80"), 0U);
}

}  // namespace
}  // namespace assay
