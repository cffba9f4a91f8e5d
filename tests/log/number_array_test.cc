#include "assay/log/number_array.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <random>
#include <regex>

#include "assay/log/float_run.h"
#include "assay/log/line_reader.h"

namespace assay {
namespace {

// `elements` up to a ']', as read_array() wants it.
struct Array {
  explicit Array(const std::string& elements)
      : text(std::string(kFloatRunBefore, '[') + elements + "]" + std::string(kLinePadding, '7')),
        end(text.data() + kFloatRunBefore + elements.size() + 1) {}
  const char* begin() const { return text.data() + kFloatRunBefore; }
  std::string text;
  const char* end;
};

float nearest(const std::string& text) {
  float value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// Numbers as logs hold them, in all forms.
std::string random_number(std::mt19937& random) {
  const auto digits = [&](size_t count) {
    std::string text;
    while (text.size() < count) text += static_cast<char>('0' + random() % 10);
    return text;
  };
  const std::string sign = random() % 2 == 0 ? "-" : "";
  const std::string whole =
      random() % 3 == 0 ? "0" : std::to_string(1 + random() % 9) + digits(random() % 7);
  switch (random() % 16) {
    case 0:
      return sign + whole;
    case 1:
      return sign + whole + "." + digits(1 + random() % 3) + "e-" + std::to_string(random() % 40);
    case 2:
      return sign + whole + "." + digits(10 + random() % 20);
    case 3: {  // halfway between two floats, or nearly
      const auto bits = static_cast<uint32_t>(0x3F800000U + random() % 0x01000000U);
      const double middle = static_cast<double>(std::bit_cast<float>(bits)) / 2 +
                            static_cast<double>(std::bit_cast<float>(bits + 1)) / 2;
      char text[64];
      const auto to = std::to_chars(
          text, text + sizeof(text), middle,
          random() % 2 == 0 ? std::chars_format::fixed : std::chars_format::scientific);
      return sign + std::string(text, to.ptr);
    }
    default:
      return sign + whole + "." + digits(1 + random() % 9);
  }
}

TEST(NumberArray, EachFloatIsTheNearest) {
  std::mt19937 random(3);
  for (int round = 0; round < 400; ++round) {
    std::vector<std::string> numbers(random() % 700);
    const std::string space(random() % 3, ' ');
    std::string text = space;
    for (std::string& number : numbers) {
      number = random_number(random);
      if (&number != numbers.data()) text.append(",").append(space);
      text += number;
    }
    const Array array(text);
    std::vector<float> values;
    std::string problem;
    ASSERT_EQ(read_array(array.begin(), array.end, values, problem), array.end - 1) << problem;
    ASSERT_EQ(values.size(), numbers.size());
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(values[i]), std::bit_cast<uint32_t>(nearest(numbers[i])))
          << numbers[i];
    }
  }
}

// Breaks if what reads several numbers at once let through what is no JSON.
TEST(NumberArray, RejectsNonNumbersAtEveryPosition) {
  const std::regex grammar(" *-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)? *");
  std::mt19937 random(4);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (size_t i = 0, count = 6 + random() % 90; i < count; ++i) {
      if (i > 0) text += ',';
      text += random_number(random);
    }
    const size_t changed = 20 + random() % (text.size() - 20);
    text[changed] = "0123456789.-+eE, x"[random() % 18];
    std::vector<float> want;
    bool valid = true;
    for (size_t at = 0; at <= text.size();) {
      const size_t comma = std::min(text.find(',', at), text.size());
      std::string element = text.substr(at, comma - at);
      const bool is_changed = at <= changed + 1 && changed <= comma;  // a comma changes two
      valid = valid && (!is_changed || std::regex_match(element, grammar)) &&
              std::isfinite(std::strtof(element.c_str(), nullptr));
      element.erase(0, std::min(element.find_first_not_of(' '), element.size()));
      want.push_back(nearest(element));
      at = comma + 1;
    }
    const Array array(text);
    std::vector<float> values;
    std::string problem;
    const char* stop = read_array(array.begin(), array.end, values, problem);
    ASSERT_EQ(stop != nullptr, valid) << text << "\n" << problem;
    if (valid) {
      ASSERT_EQ(values, want) << text;
    }
    refused += valid ? 0 : 1;
  }
  EXPECT_GT(refused, 5000);
}

// Breaks if the fast path were never used, which no result would show.
TEST(NumberArray, UsualNumbersAreReadManyAtATime) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "processor: it has no AVX2";
  std::string text;
  for (int i = 0; i < 100; ++i) text += "-12.345,";
  const Array array(text);
  std::vector<float> values(1000);
  const FloatRun run = read_usual_floats(array.begin(), array.end, values);
  EXPECT_EQ(run.count, 100U);
  EXPECT_EQ(run.at, array.end - 1);
#else
  GTEST_SKIP() << "processor: only on x86-64";
#endif
}

}  // namespace
}  // namespace assay
