#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "tests/causes/faulty_logs.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr size_t kWidth = 576;
constexpr size_t kFitTokens = 6;

using Rows = std::vector<std::vector<float>>;

// What is fitted to a difference whose cause is known, without a model: a constant vector, a
// factor, a sign.
class Fits : public FaultyLogs {
 protected:
  static Rows normal_rows(unsigned seed = 1) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    Rows rows(kFitTokens, std::vector<float>(kWidth));
    for (auto& row : rows) {
      for (float& value : row) value = normal(random);
    }
    return rows;
  }

  // Of two logs that differ by `wrong` alone, of all values or of sketches and heads.
  Comparison differ(const Rows& right,
                    const std::function<float(float value, size_t token, size_t i)>& wrong,
                    int64_t head_values = kAllValues, double tolerance = 1e-4) {
    const LogOptions options{"", head_values, true, head_values != kAllValues};
    LogWriter ref(folder_ + "/ref.jsonl", options);
    LogWriter got(folder_ + "/got.jsonl", options);
    for (size_t token = 0; token < right.size(); ++token) {
      std::vector<float> values = right[token];
      ref.write("layer_0_ffn_out", static_cast<int64_t>(token), values);
      for (size_t i = 0; i < values.size(); ++i) values[i] = wrong(values[i], token, i);
      got.write("layer_0_ffn_out", static_cast<int64_t>(token), values);
    }
    ref.close();
    got.close();
    return compare(nullptr, ref.path(), got.path(), tolerance);
  }

  static std::string named(const Comparison& comparison) {
    EXPECT_FALSE(comparison.pass);
    return comparison.causes.empty() ? "" : comparison.causes[0].name;
  }
};

float factor_of(size_t i) {
  return 0.5F + static_cast<float>(i % 7) / 4;
}

TEST_F(Fits, NamesAConstant) {
  const Comparison found =
      differ(normal_rows(), [](float x, size_t, size_t i) { return x + factor_of(i); });
  ASSERT_THAT(found.causes, SizeIs(1)) << found.cause_hint;
  EXPECT_EQ(found.causes[0].name, "bias_missing");
  EXPECT_THAT(found.causes[0].sentence, HasSubstr("the same vector at every token"));
}

// A small error before the tensor may leave just that.
TEST_F(Fits, NamesNoFactorThatIsNearlyOne) {
  const auto times = [](float factor) {
    return [=](float x, size_t, size_t) { return x * factor; };
  };
  const Comparison found = differ(normal_rows(), times(1.00005F), kAllValues, 1e-5);
  EXPECT_EQ(named(found), "");
  EXPECT_THAT(found.cause_hint,
              HasSubstr("all of it is 1.00005 times what it should be (100.00 %"));
  const auto uneven = [](float x, size_t, size_t i) { return x * (i % 2 == 0 ? 1.00009F : 1.0F); };
  EXPECT_THAT(differ(normal_rows(), uneven, kAllValues, 1e-5).cause_hint,
              testing::Not(HasSubstr("all of it is")));
  EXPECT_EQ(named(differ(normal_rows(), times(1.0002F), kAllValues, 1e-5)), "scale");
}

// Some models add so much to K that its rows are nearly one.
TEST_F(Fits, NamesAConstantBesideALargerOne) {
  Rows rows = normal_rows();
  for (auto& row : rows) {
    for (size_t i = 0; i < kWidth; ++i) row[i] += 30 * factor_of(i);
  }
  EXPECT_EQ(named(differ(rows, [](float x, size_t, size_t i) { return x - 30 * factor_of(i); })),
            "bias_missing");
}

// The prompt repeats one token: that any difference is the same at each says nothing.
TEST_F(Fits, NamesNoConstantForConstantRows) {
  const Rows noise = normal_rows(2);
  for (const size_t distinct : {1U, 2U}) {
    Rows rows = normal_rows();
    for (size_t t = 0; t < kFitTokens; ++t) {
      rows[t] = rows[t < distinct ? t : 0];
      for (size_t i = 0; i < kWidth; ++i) rows[t][i] *= 1 + 1e-7F * noise[t][i];
    }
    EXPECT_EQ(named(differ(rows, [](float x, size_t, size_t i) { return x * factor_of(i); })), "")
        << distinct;
    EXPECT_EQ(named(differ(rows, [](float x, size_t, size_t i) { return x + factor_of(i); })), "")
        << distinct;
  }
}

// One channel is large and nearly the same at every token, and is wrong by a factor.
TEST_F(Fits, NamesNoConstantForANearlyConstantChannel) {
  for (const float share : {0.0F, 1.0F}) {
    Rows rows = normal_rows();
    for (auto& row : rows) row[100] = 3000 + share * row[100];
    EXPECT_EQ(named(differ(rows, [](float x, size_t, size_t i) { return i == 100 ? -x : x; })), "");
  }
}

TEST_F(Fits, NamesFactors) {
  Rows rows = normal_rows();
  for (auto& row : rows) {
    for (float& value : row) value = std::max(value, 0.0F);  // half of them are 0
  }
  for (const int64_t head : {kAllValues, int64_t{8}, int64_t{0}}) {
    EXPECT_EQ(named(differ(
                  rows, [](float x, size_t, size_t) { return 1.5F * x; }, head)),
              "scale");
    EXPECT_EQ(named(differ(
                  rows, [](float x, size_t, size_t) { return -x; }, head)),
              "sign");
  }
  // A judged log that is computed in less: what is left is a hundredth of the difference's norm.
  const Rows noise = normal_rows(2);
  EXPECT_EQ(
      named(differ(normal_rows(), [&](float x, size_t token,
                                      size_t i) { return 1.5F * x + 5e-3F * noise[token][i]; })),
      "scale");
}

// Breaks if what one large channel has were told of the whole tensor. Beside a sketch, of which
// each number is of all channels, the head's values tell.
TEST_F(Fits, OneChannelIsNotTheWholeTensor) {
  for (const int64_t head : {kAllValues, int64_t{8}}) {
    for (const float size : {100.0F, 300.0F, 1000.0F}) {
      Rows rows = normal_rows();
      for (auto& row : rows) row[100] = size * (1 + 0.3F * row[100]);
      for (const float by : {-1.0F, 0.5F, 1.5F, 2.0F}) {
        const auto wrong = [&](float x, size_t, size_t i) { return i == 100 ? by * x : x; };
        EXPECT_EQ(named(differ(rows, wrong, head)), "") << size << " by " << by << ", " << head;
      }
    }
  }
}

// As the first token's may be of which all others take their share.
TEST_F(Fits, OneTokenIsNotTheWholeTensor) {
  Rows rows = normal_rows();
  for (float& value : rows[0]) value *= 3000;
  EXPECT_EQ(
      named(differ(rows, [](float x, size_t token, size_t) { return token == 0 ? 1.5F * x : x; })),
      "");
}

}  // namespace
}  // namespace assay
