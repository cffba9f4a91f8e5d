#include "assay/log/json_text.h"

#include <gtest/gtest.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace assay {
namespace {

// The shortest text that reads back to the same bits, by the standard library.
std::string shortest(double value) {
  if (std::isnan(value)) return "\"NaN\"";
  if (std::isinf(value)) return value < 0 ? "\"-Infinity\"" : "\"Infinity\"";
  char text[64];
  return {text, std::to_chars(text, text + sizeof(text), value).ptr};
}

std::string joined(const std::vector<double>& values) {
  std::string text = "[";
  for (const double value : values) {
    if (text.size() > 1) text += ',';
    text += shortest(value);
  }
  text += ']';
  return text;
}

// A double of one of the kinds that take a path of their own.
double random_double(std::mt19937_64& random) {
  const uint64_t bits = random();
  const double normal = std::normal_distribution<double>(0, 20)(random);
  const auto exponent = [&](int from, int to) {
    return from + static_cast<int>(random() % static_cast<uint64_t>(to - from));
  };
  switch (random() % 9) {
    case 0:
      return std::bit_cast<double>(bits);  // any, also NaN and denormal
    case 1:
      return static_cast<double>(static_cast<int64_t>(bits % 2000)) - 1000;
    case 2:
      return std::ldexp(1.0, exponent(-80, 80));
    case 3:
      return static_cast<double>(static_cast<float>(normal)) * std::pow(10.0, exponent(-9, 20));
    case 4:
      return static_cast<double>(bits % 100000) / std::pow(10.0, exponent(0, 9));  // few digits
    case 5:  // beside a number of few digits, where the interval's ends decide
      return std::bit_cast<double>(
          std::bit_cast<uint64_t>(static_cast<double>(bits % 1000000000 + 9)) + bits % 5 - 2);
    case 6:
      return std::bit_cast<double>(bits % (uint64_t{1} << 53));  // denormal, and the least normal
    default:
      return normal;
  }
}

// Breaks if one of eight doubles that are printed at a time gets another's digits, or a digit is
// wrong: sketches of goldens are text.
TEST(JsonText, ArraysOfDoublesAreTheShortestText) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::vector<double> values(round % 3 == 0 ? random() % 140 : 64);
    for (double& value : values) value = random_double(random);
    std::string text;
    append_json_array(text, values);
    ASSERT_EQ(text, joined(values)) << round;
  }
}

// Every power of ten and its neighbours, where the number of digits changes.
TEST(JsonText, PowersOfTenAndTheirNeighboursAreTheShortestText) {
  std::vector<double> values;
  for (int exponent = -323; exponent <= 308; ++exponent) {
    const double power = std::strtod(("1e" + std::to_string(exponent)).c_str(), nullptr);
    for (const double value : {power, std::nextafter(power, 0.0), std::nextafter(power, 1e308)}) {
      values.push_back(value);
      values.push_back(-value);
    }
  }
  std::string text;
  append_json_array(text, values);
  EXPECT_EQ(text, joined(values));
}

}  // namespace
}  // namespace assay
