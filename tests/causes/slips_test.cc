// Slips that an engine makes in few places: a wrong token, norms and products in half precision.
// The kernels here know nothing of the catalogue's own edits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "kernels/half.h"
#include "tests/causes/faulty_logs.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

float to_bf16(float x) {
  return float_from_bf16(bf16_from_float(x));
}

// To the nearest multiple of the tenth part of a float's mantissa.
float to_tf32(float x) {
  if (x == 0) return x;
  const float unit = std::exp2(std::floor(std::log2(std::abs(x))) - 10);
  return std::round(x / unit) * unit;
}

class CausesOfSlips : public FaultyLogs {
 protected:
  // The cause with its sentence, else the hint.
  std::string named(const std::string& name, Kernels& wrong, const char* set) {
    const auto model = load(name);
    const auto right = make_reference_kernels();
    const std::string ref = log(*model, *right, "ref", set);
    const std::string got = log(*model, wrong, "got", set);
    const Comparison comparison = compare(model.get(), ref, got, 1e-6);
    EXPECT_FALSE(comparison.pass);
    if (comparison.causes.empty()) return comparison.cause_hint;
    EXPECT_GT(comparison.causes[0].explained, 0.999);
    return comparison.causes[0].name + ": " + comparison.causes[0].sentence;
  }
};

// Looks other ids up.
class OtherIds : public WrongKernels {
 public:
  explicit OtherIds(std::function<void(std::vector<int32_t>& ids)> edit) : edit_(std::move(edit)) {}

 protected:
  void get_rows(GetRowsCall call) override {
    std::vector<int32_t> ids(call.ids, call.ids + call.n_ids);
    if (!call.of_positions) edit_(ids);
    call.ids = ids.data();
    right_->run(call);
  }

 private:
  std::function<void(std::vector<int32_t>&)> edit_;
};

TEST_F(CausesOfSlips, NamesTokensThatAreTakenForOthers) {
  OtherIds one([](std::vector<int32_t>& ids) { ids[4] = 99; });
  EXPECT_THAT(named("tinyllama", one, "ops"),
              HasSubstr("wrong_token: embedding looks up token 99 in place of 201 at position 4:"));
  OtherIds two([](std::vector<int32_t>& ids) {
    ids[4] = 99;
    ids[9] = 3;
  });
  EXPECT_THAT(named("gemma2", two, "layers"),
              HasSubstr("token 99 in place of 201 at position 4, 3 in place of 77 at position 9:"));
  OtherIds again([](std::vector<int32_t>& ids) { ids[7] = ids[6]; });
  OtherIds exchanged([](std::vector<int32_t>& ids) { std::swap(ids[7], ids[8]); });
  for (const char* set : {"layer_*_output", "logits"}) {
    EXPECT_THAT(named("tinyllama", again, set),
                HasSubstr("evaluates the token of position 6 at position 7, too"))
        << set;
    EXPECT_THAT(named("tinyllama", exchanged, set),
                HasSubstr("exchanges the tokens of positions 7 and 8"))
        << set;
  }
}

// Breaks if any embedding were taken for the nearest token's.
TEST_F(CausesOfSlips, ANoisyEmbeddingIsNoOtherToken) {
  class Noisy : public WrongKernels {
   protected:
    void get_rows(GetRowsCall call) override {
      right_->run(call);
      for (int64_t i = 0; i < call.table.columns; ++i) {
        call.out[4 * call.table.columns + i] += 0.3F * normal_(random_);
      }
    }

   private:
    std::mt19937 random_{1};
    std::normal_distribution<float> normal_{0, 1};
  } noisy;
  EXPECT_THAT(named("tinyllama", noisy, "ops"), testing::Not(HasSubstr("token ")));
}

// RMSNorm as engines of half precision have it.
class NormInBf16 : public WrongKernels {
 public:
  NormInBf16(Checkpoint at, bool before_weight) : at_(at), before_weight_(before_weight) {}

 protected:
  void norm(NormCall call) override {
    if (call.site.checkpoint != at_) return right_->run(call);
    for (int64_t t = 0; t < call.n_tokens; ++t) {
      const float* x = call.x + t * call.width;
      double squares = 0;
      for (int64_t i = 0; i < call.width; ++i) squares += std::pow(to_bf16(x[i]), 2.0);
      const double root = std::sqrt(squares / static_cast<double>(call.width) + call.eps);
      for (int64_t i = 0; i < call.width; ++i) {
        auto y = static_cast<float>(to_bf16(x[i]) / root);
        if (before_weight_) y = to_bf16(y);
        call.out[t * call.width + i] = to_bf16(y * to_bf16(call.weight[i]));
      }
    }
  }

 private:
  Checkpoint at_;
  bool before_weight_;
};

TEST_F(CausesOfSlips, NamesNormsInHalfPrecision) {
  for (const Checkpoint at : {Checkpoint::kFinalNorm, Checkpoint::kAttnNorm}) {
    NormInBf16 after(at, false);
    EXPECT_THAT(named("tinyllama", after, "ops"),
                AllOf(HasSubstr("rounding: "), HasSubstr("norm is computed in bf16 except for its "
                                                         "sum:")));
    NormInBf16 before(at, true);
    EXPECT_THAT(named("tinyllama", before, "ops"),
                AllOf(HasSubstr("rounding: "), HasSubstr("before its weights, too:")));
  }
}

// A product whose factors are rounded, and its result.
class RoundedHead : public WrongKernels {
 public:
  float (*x)(float) = [](float value) { return value; };
  float (*weight)(float) = x;
  float (*result)(float) = x;

 protected:
  void matmul(const MatmulCall& call) override {
    if (call.site.checkpoint != Checkpoint::kLogits) return right_->run(call);
    const auto* w = static_cast<const float*>(call.w.data);
    for (int64_t t = 0; t < call.n_tokens; ++t) {
      for (int64_t r = 0; r < call.w.rows; ++r) {
        double sum = 0;
        for (int64_t c = 0; c < call.w.columns; ++c) {
          sum += static_cast<double>(x(call.x[t * call.w.columns + c])) *
                 static_cast<double>(weight(w[r * call.w.columns + c]));
        }
        call.out[t * call.w.rows + r] = result(static_cast<float>(sum));
      }
    }
  }
};

TEST_F(CausesOfSlips, NamesAHeadInHalfPrecision) {
  RoundedHead wrong;
  const auto expect = [&](const std::string& words) {
    for (const char* set : {"ops", "logits"}) {
      EXPECT_THAT(named("tinyllama", wrong, set), HasSubstr("rounding: logits " + words)) << set;
    }
  };
  wrong.weight = to_bf16;
  expect("rounds its weights to bf16:");
  wrong.x = to_bf16;
  expect("rounds its input and weights to bf16:");
  wrong.result = to_bf16;
  expect("rounds its input and weights and its result to bf16:");
  wrong = RoundedHead();
  wrong.x = wrong.weight = to_tf32;
  EXPECT_THAT(named("tinyllama", wrong, "ops"), HasSubstr("rounds its input and weights to tf32"));
}

}  // namespace
}  // namespace assay
