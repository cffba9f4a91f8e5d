#include "assay/log/number_text.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>

#include "assay/log/line_reader.h"

namespace assay {
namespace {

struct Read {
  NumberError error;
  size_t length;
  uint32_t bits;
};

Read read(const std::string& text) {
  const std::string padded = text + std::string(kLinePadding, '7');  // digits: must not be read
  float value = -1;
  const NumberEnd end = read_number(padded.data(), padded.data() + text.size(), value);
  return {end.error, static_cast<size_t>(end.at - padded.data()), std::bit_cast<uint32_t>(value)};
}

void expect_as_strtof(const std::string& text) {
  const Read got = read(text);
  ASSERT_EQ(got.error, NumberError::kNone) << text;
  EXPECT_EQ(got.length, text.size()) << text;
  EXPECT_EQ(got.bits, std::bit_cast<uint32_t>(std::strtof(text.c_str(), nullptr))) << text;
}

// Breaks if a value were off by one bit: a bit-exact run would seem to differ from itself.
TEST(NumberText, IsTheNearestFloat) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 300000; ++i) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (!(std::abs(value) <= std::numeric_limits<float>::max())) continue;
    char text[64];
    expect_as_strtof({text, std::to_chars(text, text + 64, value).ptr});
    if (i % 4 != 0) continue;
    expect_as_strtof(fmt::format("{:.6f}", value));
    expect_as_strtof(fmt::format("{:.17g}", value));
    expect_as_strtof(fmt::format("{:.8e}", value));
  }
}

// Doubles halfway between two floats, and next to it: where rounding twice goes wrong.
TEST(NumberText, IsNotRoundedTwice) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 100000; ++i) {
    const auto bits = static_cast<uint32_t>(random() % 0x7F000000U);
    const double half = (static_cast<double>(std::bit_cast<float>(bits)) +
                         static_cast<double>(std::bit_cast<float>(bits + 1))) /
                        2;
    expect_as_strtof(fmt::format("{:.17g}", half));
    expect_as_strtof(fmt::format("{:.30g}", half));
    expect_as_strtof(fmt::format("{:.18g}", std::nextafter(half, 1e300)));
  }
  expect_as_strtof("16777217");  // halfway: to even
  expect_as_strtof("16777217.0000000000000000001");
  expect_as_strtof("9007199791611905");  // above half by 1 of 2^53
}

TEST(NumberText, TakesEveryLengthOfDigits) {
  for (const char* text :
       {"0", "-0", "0.0", "1", "12345678", "123456789", "1234567890123456789012345678901234567",
        "0.00000000000000000000000000000000000001", "1.00000000", "1.000000000000000000000",
        "3.14159265358979323846264338327950288419716939937510", "1e0", "1E+5", "1e-5",
        "0e999999999999999999", "1e-46", "1e-400", "-1e-99999999999999999999",
        "0.000000000000000000000000000000000000000000000001"}) {
    expect_as_strtof(text);
  }
}

TEST(NumberText, ReportsNumbersBeyondTheRange) {
  for (const char* text : {"1e39", "-3.5e38", "1e400", "1e99999999999999999999",
                           "340282366920938463463374607431768211456", "0.00001e500"}) {
    EXPECT_EQ(read(text).error, NumberError::kTooLarge) << text;
  }
  expect_as_strtof("3.4028234663852886e38");
}

TEST(NumberText, RejectsTextThatIsNotAJsonNumber) {
  for (const char* text : {"", "-", "+1", ".5", "01", "-01", "1.", "1.e5", "1e", "1e+", "x", "NaN",
                           "0x10", "--1", ",", "]"}) {
    const Read got = read(text);
    const bool whole = got.error == NumberError::kNone && got.length == std::string(text).size();
    EXPECT_FALSE(whole) << text;
  }
}

TEST(NumberText, StopsAtTheEndOfTheNumber) {
  EXPECT_EQ(read("12.5,7").length, 4U);
  EXPECT_EQ(read("12]").length, 2U);
  EXPECT_EQ(read("1e5 ").length, 3U);
}

void expect_as_strtod(const std::string& text) {
  const std::string padded = text + "," + std::string(kLinePadding, '7');
  double got = 0;
  const NumberEnd end = read_number(padded.data(), padded.data() + text.size() + 1, got);
  ASSERT_EQ(end.error, NumberError::kNone) << text;
  EXPECT_EQ(end.at, padded.data() + text.size()) << text;
  const double expected = std::strtod(text.c_str(), nullptr);
  EXPECT_EQ(std::bit_cast<uint64_t>(got), std::bit_cast<uint64_t>(expected)) << text;
}

// The sums of sketches have 16 or 17 digits: more than a quotient of doubles gives exactly.
TEST(NumberText, SumsOfSketchesAreTheNearestDoubles) {
  std::mt19937_64 random(6);
  std::normal_distribution<double> normal;
  for (int i = 0; i < 60000; ++i) {
    const double value = normal(random) * std::pow(10.0, static_cast<int>(random() % 9) - 6);
    expect_as_strtod(fmt::format("{}", value));
    if (i % 4 != 0) continue;
    for (int digits = 14; digits <= 19; ++digits) {
      expect_as_strtod(fmt::format("{:.{}g}", value, digits));
    }
  }
}

// Halfway between two doubles, to the even one, a digit below and above it, and where the distance
// of neighbours doubles.
TEST(NumberText, DoublesAreNotRoundedTwice) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 40000; ++i) {
    const uint64_t places = (uint64_t{1} << 52) + random() % (uint64_t{1} << 52);
    expect_as_strtod(fmt::format("{}.5", places));
    expect_as_strtod(fmt::format("{}.49", places));
    expect_as_strtod(fmt::format("{}.51", places));
    expect_as_strtod(fmt::format("{}.{}", places / 2, places % 2 == 0 ? "25" : "75"));
    expect_as_strtod(fmt::format("{}.{}e-{}", places % 90 + 9, places, random() % 7));
  }
  for (int power = -20; power < 60; ++power) {
    const double edge = std::ldexp(1.0, power);
    for (const double value : {std::nextafter(edge, 0), edge, std::nextafter(edge, 1e300)}) {
      for (int digits = 15; digits <= 19; ++digits) {
        expect_as_strtod(fmt::format("{:.{}g}", value, digits));
        expect_as_strtod(fmt::format("{:.{}f}", value, digits));
      }
    }
  }
  for (const char* text : {"1.123456789", "12.1234567890123456", "123.1234567890123456",
                           "1.12345678", "1.12345678901234567"}) {
    expect_as_strtod(text);
  }
}

TEST(NumberText, DoublesAreTheNearestToo) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 100000; ++i) {
    const double value = std::bit_cast<double>(random());
    if (!(std::abs(value) <= std::numeric_limits<double>::max())) continue;
    const std::string text = fmt::format("{}", value);
    const std::string padded = text + std::string(kLinePadding, ' ');
    double got = 0;
    ASSERT_EQ(read_number(padded.data(), padded.data() + text.size(), got).error,
              NumberError::kNone);
    EXPECT_EQ(std::bit_cast<uint64_t>(got), std::bit_cast<uint64_t>(value)) << text;
  }
}

}  // namespace
}  // namespace assay
