#include "base/error.h"

#include <gtest/gtest.h>

#include "base/character.h"

namespace assay {
namespace {

TEST(Error, IsOneLineWithPlaceReasonAndHint) {
  EXPECT_STREQ(Error("cut short", "m.gguf", "fetch it again").what(),
               "m.gguf: cut short; fetch it again");
  EXPECT_STREQ(Error("cut short").what(), "cut short");
}

// A hostile file must not reach the user's terminal through a message.
TEST(Error, ControlCharactersAreEscaped) {
  EXPECT_STREQ(Error("key 'a\n\x1b[31mb'").what(), "key 'a\\x0a\\x1b[31mb'");
}

TEST(Printable, KeepsUtf8AndEscapesTheRest) {
  EXPECT_EQ(printable("h\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"),
            "h\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  EXPECT_EQ(printable("\xff"), "\\xff");
  EXPECT_EQ(printable("\xc3"), "\\xc3");
  EXPECT_EQ(printable("\xc0\x80"), "\\xc0\\x80") << "overlong";
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "surrogate";
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b") << "C1 control";
  EXPECT_EQ(printable("a\xe2\x80\xae"
                      "b"),
            "a\\xe2\\x80\\xaeb")
      << "right-to-left override";
  EXPECT_EQ(printable("\xe2\x80\xa8"), "\\xe2\\x80\\xa8") << "line separator";
  EXPECT_EQ(printable("\xef\xbb\xbf"), "\\xef\\xbb\\xbf") << "byte order mark";
}

TEST(Printable, CutsLongText) {
  EXPECT_EQ(printable("abcdef", 3), "abc...");
}

TEST(VisibleText, KeepsAllowedCharacters) {
  EXPECT_EQ(visible_text("a\tb\n\r\x1b[0m\xe2\x82\xac\xe2\x80\xae\xff", "\n\t"),
            "a\tb\n\\x0d\\x1b[0m\xe2\x82\xac\\xe2\\x80\\xae\\xff");
}

}  // namespace
}  // namespace assay
