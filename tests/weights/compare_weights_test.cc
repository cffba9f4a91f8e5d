#include "assay/weights/compare_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "assay/weights/weights_report.h"
#include "base/error.h"
#include "tests/support/paths.h"
#include "tests/weights/edited_model.h"

namespace assay {
namespace {

using testing::HasSubstr;
using Values = EditedModel::Values;

std::string golden(const std::string& model, const std::string& type) {
  return source_path("golden/") + model + "/" + model + "-" + type + ".gguf";
}

constexpr const char* kUp = "blk.1.ffn_up.weight";
constexpr const char* kQuery = "blk.0.attn_q.weight";
constexpr const char* kNorm = "blk.0.attn_norm.weight";
constexpr const char* kWide = "blk.1.ffn_down.weight";  // rows of whole blocks of 256
constexpr const char* kSquare = "blk.0.attn_output.weight";

class CompareWeights : public testing::Test {
 protected:
  const TensorResult& of(const WeightsComparison& comparison, const std::string& name) {
    return *std::ranges::find(comparison.tensors, name, &TensorResult::name);
  }

  // `edited`, in float32 and then with its matrices rounded, beside the right file.
  void expect_named(const EditedModel& edited, const std::string& name,
                    const std::string& sentence) {
    for (const TensorType type : {TensorType::kF32, TensorType::kQ8_0, TensorType::kQ4_0,
                                  TensorType::kIQ4_NL, TensorType::kNVFP4}) {
      EditedModel stored = edited;
      const Values values = edited.values_now(name);
      if (edited_is_matrix(edited, name)) stored.put(name, values, type);
      const WeightsComparison comparison = compare_weights(ref_, stored.gguf(), {});
      EXPECT_EQ(comparison.verdict, WeightsVerdict::kMismatch);
      EXPECT_EQ(comparison.count(TensorStatus::kWrong), 1);
      EXPECT_EQ(of(comparison, name).status, TensorStatus::kWrong);
      EXPECT_THAT(of(comparison, name).reason, HasSubstr(sentence)) << tensor_type_info(type).name;
    }
  }

  static bool edited_is_matrix(const EditedModel& edited, const std::string& name) {
    EditedModel copy = edited;
    return copy.at(name).dims.size() > 1;
  }

  const std::string path_ = golden("llama3", "f32");
  const Gguf ref_{path_};
  EditedModel got_{path_};
};

// What would break: a right file of any type that is called wrong, or one of which nothing is said.
TEST_F(CompareWeights, ARightFileOfAnyTypeIsInParity) {
  EXPECT_EQ(compare_weights(ref_, ref_, {}).verdict, WeightsVerdict::kMatch);
  for (const TensorType type :
       {TensorType::kF16, TensorType::kBF16, TensorType::kQ8_0, TensorType::kQ4_0,
        TensorType::kQ4_1, TensorType::kQ5_0, TensorType::kQ5_1, TensorType::kQ6_K,
        TensorType::kQ5_K, TensorType::kQ4_K, TensorType::kQ3_K, TensorType::kQ2_K,
        TensorType::kMXFP4, TensorType::kNVFP4, TensorType::kIQ4_NL, TensorType::kIQ4_XS}) {
    got_.store_as(type);
    const Gguf got = got_.gguf();
    for (const bool is_turned : {false, true}) {
      const WeightsComparison comparison =
          is_turned ? compare_weights(got, ref_, {}) : compare_weights(ref_, got, {});
      EXPECT_EQ(comparison.verdict, WeightsVerdict::kMatch) << tensor_type_info(type).name;
      EXPECT_GT(comparison.count(TensorStatus::kRounded), 1);
      for (const TensorResult& tensor : comparison.tensors) {
        EXPECT_NEAR(tensor.ratio(), 1.0, 0.2) << tensor.name;
      }
    }
  }
}

TEST_F(CompareWeights, AMistakeOfAWholeTensorIsNamed) {
  EditedModel sign = got_;
  sign.edit(kUp, [](Values& w) {
    for (float& x : w) x = -x;
  });
  expect_named(sign, kUp, "every sign");
  EditedModel scale = got_;
  scale.edit(kUp, [](Values& w) {
    for (float& x : w) x *= 1.25F;
  });
  expect_named(scale, kUp, "times 1.2");
  EditedModel slightly = got_;
  slightly.edit(kNorm, [](Values& w) {
    for (float& x : w) x *= 1.0001F;
  });
  expect_named(slightly, kNorm, "times 1.0001");
  EditedModel norm = got_;
  norm.edit(kNorm, [](Values& w) {
    for (float& x : w) x -= 1.0F;
  });
  expect_named(norm, kNorm, "minus 1");
  EditedModel zeros = got_;
  zeros.edit(kUp, [](Values& w) { std::ranges::fill(w, 0.0F); });
  expect_named(zeros, kUp, "all zeros");
}

TEST_F(CompareWeights, AMistakeOfOrderIsNamed) {
  const int64_t columns = ref_.find_tensor(kUp)->columns();
  EditedModel rows = got_;
  rows.edit(kUp, [&](Values& w) { std::rotate(w.begin(), w.begin() + columns, w.end()); });
  expect_named(rows, kUp, "one too early");
  EditedModel other = got_;
  other.edit(kUp, [&](Values& w) { w = got_.values("blk.0.ffn_up.weight"); });
  expect_named(other, kUp, "as blk.0.ffn_up.weight");
  EditedModel halves = got_;
  halves.edit(kUp, [](Values& w) {
    for (size_t i = 0; i < w.size(); i += 32) {
      std::swap_ranges(w.begin() + i, w.begin() + i + 16, w.begin() + i + 16);
    }
  });
  expect_named(halves, kUp, "each 16 elements exchanged");
  ASSERT_EQ(ref_.find_tensor(kSquare)->rows(), ref_.find_tensor(kSquare)->columns());
  EditedModel turned = got_;
  turned.edit(kSquare, [&](Values& w) {
    const auto n = static_cast<size_t>(ref_.find_tensor(kSquare)->rows());
    const Values right = w;
    for (size_t i = 0; i < w.size(); ++i) w[i] = right[i % n * n + i / n];
  });
  expect_named(turned, kSquare, "is transposed");
}

TEST_F(CompareWeights, RotaryRowsInTheOtherOrderAreNamed) {
  const auto head_dim = static_cast<size_t>(ref_.get_int("llama.attention.key_length", 0) > 0
                                                ? ref_.get_int("llama.attention.key_length")
                                                : ref_.get_int("llama.embedding_length") /
                                                      ref_.get_int("llama.attention.head_count"));
  EditedModel halves = got_;
  halves.edit(kQuery, [&](Values& w) {
    const auto columns = static_cast<size_t>(ref_.find_tensor(kQuery)->columns());
    const Values right = w;
    for (size_t row = 0; row < w.size() / columns; ++row) {
      const size_t i = row % head_dim;
      const size_t from = row - i + (i % (head_dim / 2)) * 2 + i / (head_dim / 2);
      std::copy_n(right.begin() + from * columns, columns, w.begin() + row * columns);
    }
  });
  expect_named(halves, kQuery, "order of rotary halves");
}

// What would break: one block among thousands that is lost in the error of the whole tensor.
TEST_F(CompareWeights, ADamagedBlockIsFound) {
  for (const TensorType type :
       {TensorType::kF32, TensorType::kF16, TensorType::kQ8_0, TensorType::kQ5_1, TensorType::kQ4_0,
        TensorType::kIQ4_NL, TensorType::kNVFP4}) {
    EditedModel damaged = got_;
    Values values = got_.values(kUp);
    const auto columns = static_cast<size_t>(ref_.find_tensor(kUp)->columns());
    std::fill_n(values.begin() + 3 * columns + 32, 32, 0.0F);
    damaged.put(kUp, values, type);
    const WeightsComparison comparison = compare_weights(ref_, damaged.gguf(), {});
    EXPECT_EQ(comparison.verdict, WeightsVerdict::kMismatch) << tensor_type_info(type).name;
    EXPECT_EQ(of(comparison, kUp).status, TensorStatus::kWrong);
    if (type != TensorType::kQ5_1 && type != TensorType::kQ4_0) continue;
    EXPECT_EQ(of(comparison, kUp).row, 3);
    EXPECT_EQ(of(comparison, kUp).column, 32);
  }
}

// What would break: a row whose weights are small beside those of other rows, such as that of a
// rare token, that is lost in what the others' rounding costs.
TEST_F(CompareWeights, ALostRowOfSmallWeightsIsFound) {
  constexpr size_t kRow = 7;
  const auto columns = static_cast<size_t>(ref_.find_tensor(kUp)->columns());
  EditedModel small = got_;
  Values values = got_.values(kUp);
  for (size_t i = kRow * columns; i < (kRow + 1) * columns; ++i) values[i] *= 0.05F;
  small.put(kUp, values, TensorType::kF32);
  const Gguf ref = small.gguf();
  Values lost = values;
  std::fill_n(lost.begin() + kRow * columns, columns, 0.0F);
  for (const TensorType type : {TensorType::kQ8_0, TensorType::kQ4_0, TensorType::kIQ4_NL}) {
    EditedModel stored = small;
    stored.put(kUp, values, type);
    EXPECT_EQ(compare_weights(ref, stored.gguf(), {}).verdict, WeightsVerdict::kMatch);
    stored.put(kUp, lost, type);
    const WeightsComparison comparison = compare_weights(ref, stored.gguf(), {});
    EXPECT_EQ(of(comparison, kUp).status, TensorStatus::kWrong) << tensor_type_info(type).name;
    EXPECT_EQ(of(comparison, kUp).row, kRow);
  }
}

// What would break: a right file called wrong for a weight that BF16 holds and F16 does not.
TEST_F(CompareWeights, BFloat16HoldsLargeWeights) {
  EditedModel large = got_;
  large.edit(kUp, [](Values& w) { w[3] = 1e6F; });
  EditedModel stored = large;
  stored.put(kUp, large.values_now(kUp), TensorType::kBF16);
  EXPECT_EQ(compare_weights(large.gguf(), stored.gguf(), {}).verdict, WeightsVerdict::kMatch);
}

// What would break: a right file called wrong for weights that blocks hold, though their scales
// could not be so large.
TEST_F(CompareWeights, BlocksHoldLargeWeights) {
  EditedModel large = got_;
  large.edit(kUp, [](Values& w) {
    for (float& x : w) x *= 0x1p14F / 40.0F;
    w[3] = 0x1p16F;
  });
  Values values = large.values_now(kUp);
  const Gguf ref = large.gguf();
  for (float& x : values) x *= 0x1p-10F;
  for (const TensorType type : {TensorType::kQ8_0, TensorType::kQ4_0}) {
    EditedModel stored = large;
    stored.put(kUp, values, type);
    // The scales, times 1024: ten more in the exponent.
    stored.edit_blocks(kUp, [](uint8_t* block) { block[1] = static_cast<uint8_t>(block[1] + 40); });
    EXPECT_EQ(compare_weights(ref, stored.gguf(), {}).verdict, WeightsVerdict::kMatch);
  }
}

// What would break: a quantiser that cuts codes off where it should round them.
TEST_F(CompareWeights, CodesThatAreCutOffAreWrong) {
  EditedModel cut = got_;
  Values values = got_.values(kUp);
  for (float& x : values) {
    x = std::bit_cast<float>(std::bit_cast<uint32_t>(x) & 0xFFFF0000U);
  }
  cut.put(kUp, values, TensorType::kBF16);
  const WeightsComparison comparison = compare_weights(ref_, cut.gguf(), {});
  EXPECT_EQ(of(comparison, kUp).status, TensorStatus::kWrong);
  EXPECT_NEAR(of(comparison, kUp).ratio(), 2.0, 0.1);
  // Towards zero is a factor, too; down is not.
  EXPECT_THAT(of(comparison, kUp).reason, HasSubstr("times 0.99"));
  const Values right = got_.values(kUp);
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] <= right[i]) continue;
    values[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(values[i]) + 0x10000U);
  }
  cut.put(kUp, values, TensorType::kBF16);
  EXPECT_THAT(of(compare_weights(ref_, cut.gguf(), {}), kUp).reason, HasSubstr("cut off"));
}

// What would break: a thread's share of the rows, or the last ones, that take a path which cuts
// off: of the whole tensor that is not more than another quantiser may lose.
TEST_F(CompareWeights, CodesThatAreCutOffInSomeRowsAreWrong) {
  EditedModel cut = got_;
  Values values = got_.values(kUp);
  const auto columns = static_cast<size_t>(ref_.find_tensor(kUp)->columns());
  for (size_t i = 192 * columns; i < values.size(); ++i) {
    values[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(values[i]) & 0xFFFF0000U);
  }
  cut.put(kUp, values, TensorType::kBF16);
  const WeightsComparison comparison = compare_weights(ref_, cut.gguf(), {});
  const TensorResult& result = of(comparison, kUp);
  EXPECT_EQ(result.status, TensorStatus::kWrong);
  EXPECT_LT(result.ratio(), 1.5);
  EXPECT_EQ(result.row, 192);
  EXPECT_THAT(result.reason, HasSubstr("rows 192 to 255 are off by"));
}

// What would break: `!(error <= limit)` written as `error > limit`.
TEST_F(CompareWeights, NotANumberIsWrong) {
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), INFINITY}) {
    EditedModel edited = got_;
    edited.edit(kUp, [&](Values& w) { w[5] = value; });
    const Gguf got = edited.gguf();
    for (const WeightsComparison& comparison :
         {compare_weights(ref_, got, {}), compare_weights(got, ref_, {}),
          compare_weights(got, got, {}), compare_weights(ref_, got, {.max_rel_l2 = 10.0})}) {
      EXPECT_EQ(comparison.verdict, WeightsVerdict::kMismatch);
      EXPECT_THAT(of(comparison, kUp).reason, HasSubstr("NaN or an infinity in row 0"));
    }
  }
}

// What would break: two files whose weights were never written, in parity.
TEST_F(CompareWeights, ZerosShowNothing) {
  EditedModel zeros = got_;
  for (const GgufTensor& tensor : ref_.tensors()) {
    zeros.put(tensor.name, Values(got_.values(tensor.name).size(), 0.0F), TensorType::kF32);
  }
  const Gguf file = zeros.gguf();
  WeightsComparison comparison = compare_weights(file, file, {});
  EXPECT_EQ(comparison.verdict, WeightsVerdict::kIncomplete);
  EXPECT_THAT(of(comparison, kUp).reason, HasSubstr("all zeros in both files"));
  comparison = compare_weights(file, ref_, {});
  EXPECT_EQ(comparison.verdict, WeightsVerdict::kMismatch);
  EXPECT_EQ(of(comparison, kUp).reason, "the reference's is all zeros");
  // One tensor may be zeros.
  EditedModel one = got_;
  one.put(kUp, Values(got_.values(kUp).size(), 0.0F), TensorType::kF32);
  const Gguf with_one = one.gguf();
  EXPECT_EQ(compare_weights(with_one, with_one, {}).verdict, WeightsVerdict::kMatch);
}

TEST_F(CompareWeights, WhatOneFileLacksIsAFailure) {
  EditedModel less = got_;
  less.remove(kUp);
  WeightsComparison comparison = compare_weights(ref_, less.gguf(), {});
  EXPECT_EQ(comparison.verdict, WeightsVerdict::kMismatch);
  EXPECT_EQ(of(comparison, kUp).status, TensorStatus::kMissing);
  comparison = compare_weights(less.gguf(), ref_, {});
  EXPECT_EQ(comparison.verdict, WeightsVerdict::kMismatch);
  EXPECT_EQ(of(comparison, kUp).status, TensorStatus::kExtra);
}

// What would break: the first of two files in parity, taken for the whole model.
TEST_F(CompareWeights, APartOfAModelIsIncomplete) {
  EditedModel part = got_;
  part.metadata["split.count"] = uint64_t{2};
  part.metadata["split.no"] = uint64_t{0};
  const WeightsComparison comparison = compare_weights(ref_, part.gguf("part.gguf"), {});
  EXPECT_THAT(comparison.warnings,
              testing::ElementsAre("part.gguf is part 1 of 2 of a model: the tensors of the other "
                                   "parts are not compared"));
  EXPECT_EQ(comparison.verdict, WeightsVerdict::kIncomplete);
  std::string junit;
  find_report(weights_reports(), "junit")->write(comparison, {}, [&](std::string_view text) {
    junit += text;
  });
  EXPECT_THAT(junit, HasSubstr("<failure type=\"incomplete\" message=\"part.gguf is part 1 of 2"));
  const WeightsOptions named{.tensors = {"*"}};
  EXPECT_EQ(compare_weights(ref_, part.gguf("part.gguf"), named).verdict, WeightsVerdict::kMatch);
  EXPECT_THAT(compare_weights(ref_, ref_, {}).warnings, testing::IsEmpty());
}

TEST_F(CompareWeights, AnotherShapeIsWrong) {
  EditedModel edited = got_;
  std::ranges::reverse(edited.at(kUp).dims);
  const WeightsComparison comparison = compare_weights(ref_, edited.gguf(), {});
  EXPECT_EQ(of(comparison, kUp).status, TensorStatus::kWrong);
  EXPECT_THAT(of(comparison, kUp).reason, HasSubstr("has the shape"));
}

// A file without an output matrix uses the embedding as one.
TEST_F(CompareWeights, ATiedOutputIsTheEmbedding) {
  EditedModel tied = got_;
  tied.remove("output.weight");
  const Gguf without = tied.gguf();
  tied.at("token_embd.weight");
  EditedModel stated = tied;
  stated.tensors.push_back(stated.at("token_embd.weight"));
  stated.tensors.back().name = "output.weight";
  EXPECT_EQ(compare_weights(without, stated.gguf(), {}).verdict, WeightsVerdict::kMatch);
  EXPECT_EQ(compare_weights(stated.gguf(), without, {}).verdict, WeightsVerdict::kMatch);
  // The model's own is not its embedding.
  EXPECT_EQ(of(compare_weights(ref_, without, {}), "output.weight").reason,
            "is not in the file, so that engines use its token_embd.weight");
  EXPECT_EQ(of(compare_weights(without, ref_, {}), "output.weight").reason,
            "is not in the reference, which uses its token_embd.weight");
}

// What would break: two roundings of one model, of which neither says what the other should be,
// passed or failed by chance.
TEST_F(CompareWeights, TwoRoundingsOfOneTypeAreNotJudged) {
  EditedModel one = got_;
  one.store_as(TensorType::kQ4_0);
  EditedModel two = one;
  Values moved = got_.values(kUp);
  for (float& x : moved) x *= 1.03F;
  two.put(kUp, moved, TensorType::kQ4_0);
  const Gguf ref = one.gguf();
  WeightsComparison comparison = compare_weights(ref, two.gguf(), {});
  EXPECT_EQ(comparison.verdict, WeightsVerdict::kIncomplete);
  EXPECT_EQ(of(comparison, kUp).status, TensorStatus::kUnjudged);
  comparison = compare_weights(ref, two.gguf(), {.max_rel_l2 = 0.5});
  EXPECT_EQ(comparison.verdict, WeightsVerdict::kMatch);
  comparison = compare_weights(ref, two.gguf(), {.max_rel_l2 = 0.01});
  EXPECT_EQ(comparison.verdict, WeightsVerdict::kMismatch);
}

// What would break: a factor that hides in the rounding, of a tensor or of the rows of one expert.
TEST_F(CompareWeights, ASmallFactorIsNoRounding) {
  const int64_t columns = ref_.find_tensor(kWide)->columns();
  const std::pair<TensorType, float> cases[] = {{TensorType::kQ8_0, 1.005F},
                                                {TensorType::kQ4_0, 1.05F},
                                                {TensorType::kQ4_0, 0.95F},
                                                {TensorType::kQ4_K, 1.05F},
                                                {TensorType::kIQ4_NL, 1.05F}};
  for (const auto& [type, factor] : cases) {
    Values scaled = got_.values(kWide);
    for (float& x : scaled) x *= factor;
    EditedModel tensor = got_;
    tensor.put(kWide, scaled, type);
    WeightsComparison comparison = compare_weights(ref_, tensor.gguf(), {});
    EXPECT_EQ(comparison.count(TensorStatus::kWrong), 1) << tensor_type_info(type).name << factor;
    EXPECT_THAT(of(comparison, kWide).reason, HasSubstr("is the reference's times"));
    Values one_row = got_.values(kWide);
    for (int64_t i = columns; i < 2 * columns; ++i)
      one_row[static_cast<size_t>(i)] *= 1.0F + 3.0F * (factor - 1.0F);
    tensor.put(kWide, one_row, type);
    comparison = compare_weights(ref_, tensor.gguf(), {});
    EXPECT_EQ(of(comparison, kWide).status, TensorStatus::kWrong) << tensor_type_info(type).name;
    EXPECT_EQ(of(comparison, kWide).row, 1);
  }
}

// What would break: weights that are not ternary, of which -1, 0 and 1 hold so little that the
// limit would let zeros pass.
TEST_F(CompareWeights, TernaryTypesAreJudgedWhereTheyHoldTheWeights) {
  for (const TensorType type : {TensorType::kTQ1_0, TensorType::kTQ2_0}) {
    EditedModel rounded = got_;
    rounded.put(kWide, got_.values(kWide), type);
    WeightsComparison comparison = compare_weights(ref_, rounded.gguf(), {});
    EXPECT_EQ(comparison.verdict, WeightsVerdict::kIncomplete);
    EXPECT_THAT(of(comparison, kWide).reason, HasSubstr("already costs a rel_l2 of 0.8"));
    EditedModel ternary = got_;
    ternary.edit(kWide, [](Values& w) {
      for (float& x : w) x = std::fabs(x) < 0.02F ? 0.0F : std::copysign(0.03F, x);
    });
    const Gguf ref = ternary.gguf();
    rounded.put(kWide, ternary.values_now(kWide), type);
    EXPECT_EQ(compare_weights(ref, rounded.gguf(), {}).verdict, WeightsVerdict::kMatch);
    Values damaged = ternary.values_now(kWide);
    std::fill_n(damaged.begin() + 256, 256, 0.0F);
    rounded.put(kWide, damaged, type);
    comparison = compare_weights(ref, rounded.gguf(), {});
    EXPECT_EQ(of(comparison, kWide).status, TensorStatus::kWrong);
  }
}

// What would break: a tensor that was not judged counted among those that are right.
TEST_F(CompareWeights, TypesWithoutAnEncoderAreNotJudged) {
  EditedModel edited = got_;
  GgufTensor& tensor = edited.at(kWide);
  const std::string blocks(row_bytes(TensorType::kIQ3_S, tensor.rows() * tensor.columns()), '\x11');
  tensor.type = TensorType::kIQ3_S;
  tensor.data = std::as_bytes(std::span<const char>(blocks));
  const Gguf got = edited.gguf();
  WeightsComparison comparison = compare_weights(ref_, got, {});
  EXPECT_EQ(comparison.verdict, WeightsVerdict::kIncomplete);
  EXPECT_EQ(comparison.count(TensorStatus::kUnjudged), 1);
  EXPECT_THAT(of(comparison, kWide).reason, HasSubstr("no encoder of IQ3_S"));
  comparison = compare_weights(ref_, got, {.max_rel_l2 = 0.01});
  EXPECT_EQ(of(comparison, kWide).status, TensorStatus::kWrong);
}

// What would break: a --k with which a tensor of zeros holds "what its type can".
TEST_F(CompareWeights, NoFactorLetsZerosPass) {
  EditedModel zeros = got_;
  zeros.put(kUp, Values(got_.values(kUp).size(), 0.0F), TensorType::kQ4_0);
  const WeightsComparison comparison = compare_weights(ref_, zeros.gguf(), {.k = 100.0});
  EXPECT_EQ(of(comparison, kUp).status, TensorStatus::kWrong);
  EXPECT_THAT(of(comparison, kUp).reason, HasSubstr("whatever --k"));
}

TEST_F(CompareWeights, SomeTensorsCanBeAskedFor) {
  EditedModel edited = got_;
  edited.edit(kUp, [](Values& w) { w[0] += 1.0F; });
  const Gguf got = edited.gguf();
  EXPECT_EQ(compare_weights(ref_, got, {.tensors = {"*attn*"}}).verdict, WeightsVerdict::kMatch);
  EXPECT_EQ(compare_weights(ref_, got, {.tensors = {"blk.1.*"}}).verdict,
            WeightsVerdict::kMismatch);
  EXPECT_THROW(compare_weights(ref_, got, {.tensors = {"blk.77.*"}}), Error);
}

TEST_F(CompareWeights, TheReportNamesWhatIsWrong) {
  EditedModel edited = got_;
  edited.edit(kUp, [](Values& w) {
    for (float& x : w) x = -x;
  });
  const WeightsComparison comparison = compare_weights(ref_, edited.gguf(), {});
  std::string table;
  find_report(weights_reports(), "table")->write(comparison, {}, [&](std::string_view text) {
    table += text;
  });
  EXPECT_THAT(table, testing::StartsWith("DIVERGED  "));
  EXPECT_THAT(table, HasSubstr("wrong    blk.1.ffn_up.weight  F32 -> F32, rel_l2 2"));
  std::string json;
  find_report(weights_reports(), "json")->write(comparison, {}, [&](std::string_view text) {
    json += text;
  });
  EXPECT_THAT(json, testing::StartsWith(R"({"verdict":"mismatch","pass":false,)"));
  EXPECT_THAT(json, HasSubstr(R"("tensor":"blk.1.ffn_up.weight","status":"wrong",)"));
}

}  // namespace
}  // namespace assay
