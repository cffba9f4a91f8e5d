#include "assay/golden/measure_floors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tests/compare/log_files.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kLayers = 4;
constexpr int kTokens = 3;

class MeasureFloors : public LogFiles {
 protected:
  // 64 values of 1 and -1, which no offset explains, off by a relative L2 of `error`.
  static std::vector<float> values(int layer, int token, double error) {
    std::vector<float> row;
    for (int i = 0; i < 64; ++i) {
      const int sign = (i * 7 + layer * 13 + token * 29) % 5 < 2 ? -1 : 1;
      row.push_back(static_cast<float>(sign * (1 + (i % 2 == 0 ? error : -error))));
    }
    return row;
  }
  static std::vector<float> first_values(int layer, int token) {
    std::vector<float> row = values(layer, token, 1e-6);
    row.resize(4);
    return row;
  }
  using Error = std::function<double(int layer, int token)>;
  static std::string text(const Error& error, const std::string& tokens = "[1,2,3]") {
    std::string text = R"({"assay":1,"model":{"name":"tiny"},"tokens":)" + tokens + "}\n";
    for (int layer = 0; layer < kLayers; ++layer) {
      for (int token = 0; token < kTokens; ++token) {
        text += line("layer_" + std::to_string(layer) + "_output", token,
                     values(layer, token, error(layer, token)));
      }
    }
    return text;
  }
  std::string log(const std::string& name, const Error& error) { return put(name, text(error)); }
  std::string reference() {
    return log("ref.jsonl", [](int, int) { return 0.0; });
  }
  // An error of so much at each place.
  std::string noisy(const std::string& name, double error) {
    return log(name, [=](int, int) { return error; });
  }
  static std::string refusal(const std::vector<std::string>& paths,
                             const FloorOptions& options = {}) {
    return error_of([&] { measure_floors(paths, options); });
  }
};

// Breaks if an engine that lists a token's experts in another order could have no floors.
TEST_F(MeasureFloors, TheSameExpertsInAnotherOrderAreNoOtherChoice) {
  const auto experts = [](const std::vector<float>& ids, const std::vector<float>& weights) {
    return line("layer_0_experts", 0, ids) + line("layer_0_expert_weights", 0, weights);
  };
  const auto error = [](double of_all) { return [=](int, int) { return of_all; }; };
  const std::string ref = put("ref.jsonl", text(error(0)) + experts({4, 7}, {0.75F, 0.25F}));
  const std::string other =
      put("other.jsonl", text(error(1e-5)) + experts({7, 4}, {0.25F, 0.7500001F}));
  EXPECT_EQ(measure_floors({ref, other}, {}).floors.size(), kLayers + 1U);
  const std::string wrong = put("wrong.jsonl", text(error(1e-5)) + experts({7, 5}, {0.25F, 0.75F}));
  EXPECT_THAT(refusal({ref, wrong}), HasSubstr("'layer_0_experts' at token 0 fails"));
}

TEST_F(MeasureFloors, AFloorIsTheGreatestErrorOverTokensAndRuns) {
  const std::string a = log(
      "a.jsonl", [](int layer, int token) { return 1e-5 * (1 + layer) * (token == 1 ? 2 : 1); });
  const std::string b = log("b.jsonl", [](int layer, int) { return layer == 3 ? 3e-4 : 1e-6; });
  FloorOptions options;
  options.accept_jumps = true;
  const MeasuredFloors measured = measure_floors({reference(), a, b}, options);
  ASSERT_EQ(measured.floors.size(), kLayers);
  for (int layer = 0; layer < kLayers; ++layer) {
    const MeasuredFloor& floor = measured.floors[static_cast<size_t>(layer)];
    EXPECT_EQ(floor.checkpoint, "layer_" + std::to_string(layer) + "_output");
    EXPECT_THAT(floor.rel_l2, DoubleNear(layer == 3 ? 3e-4 : 2e-5 * (1 + layer), 1e-7));
    EXPECT_EQ(floor.run, layer == 3 ? 2U : 1U);
    EXPECT_EQ(floor.records, 2 * kTokens);
    if (layer < 3) {
      EXPECT_EQ(floor.token_idx, 1);
    }
  }
  EXPECT_EQ(measured.tokens, kTokens);
  EXPECT_THAT(measured.runs, ElementsAre(Field(&FloorRun::worst_rel_l2, DoubleNear(8e-5, 1e-7)),
                                         Field(&FloorRun::worst_rel_l2, DoubleNear(3e-4, 1e-7))));
}

// Breaks if a fault at one token becomes the floor of all.
TEST_F(MeasureFloors, RefusesAnErrorAtOneToken) {
  const auto with_fault = [&](double fault, double noise) {
    return log("fault.jsonl",
               [=](int layer, int token) { return layer == 2 && token == 1 ? fault : noise; });
  };
  const std::string ref = reference();
  EXPECT_EQ(refusal({ref, with_fault(2e-4, 5e-6)}), "no error");
  const std::string faulty = with_fault(1e-3, 5e-6);
  EXPECT_THAT(refusal({ref, faulty}),
              AllOf(HasSubstr(faulty + ": the error of 'layer_2_output'"),
                    HasSubstr("at token 1 and 5"), HasSubstr("that looks like a mistake")));
  EXPECT_THAT(refusal({ref, with_fault(1e-4, 0)}), HasSubstr("at token 1 and 5.96e-08"));
  FloorOptions options;
  options.accept_jumps = true;
  EXPECT_EQ(refusal({ref, with_fault(1e-3, 5e-6)}, options), "no error");
}

// Breaks if a policy that lets anything pass, or that nothing measured stands behind, was written.
TEST_F(MeasureFloors, RefusesAFloorOfWhichKTimesIsAnything) {
  const std::string ref = reference();
  const std::string off = noisy("off.jsonl", 0.4);
  FloorOptions coarse;
  coarse.accept_jumps = true;
  EXPECT_THAT(refusal({ref, off}, coarse),
              AllOf(HasSubstr(off + ": 'layer_0_output' at token"), HasSubstr("0.4 off"),
                    HasSubstr("3 times that lets anything pass, as zeros are off by 1")));
  FloorOptions tight = coarse;
  tight.k = 2;
  const MeasuredFloors wide = measure_floors({ref, off}, tight);
  EXPECT_EQ(wide.k, 2);
  EXPECT_THAT(wide.warnings, ElementsAre(HasSubstr("2 times the floor of 'layer_")));
  tight.k = 1;
  EXPECT_THAT(measure_floors({ref, off}, tight).warnings, IsEmpty());
  EXPECT_THAT(refusal({ref, noisy("far.jsonl", 1.5)}),
              AllOf(HasSubstr("'layer_0_output' at token 0 fails by rel_l2"),
                    HasSubstr("that is no noise")));
}

TEST_F(MeasureFloors, RefusesWhatIsNoNumber) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double wrong : {nan, std::numeric_limits<double>::infinity()}) {
    const std::string got = log(
        "got.jsonl", [=](int layer, int token) { return layer == 2 && token == 1 ? wrong : 1e-6; });
    EXPECT_THAT(
        refusal({reference(), got}),
        AllOf(HasSubstr("'layer_2_output' at token 1 fails by nonfinite"), HasSubstr("got.jsonl")));
    EXPECT_THAT(refusal({got, reference()}), HasSubstr("layer_2_output"));
    EXPECT_THAT(refusal({got, log("same.jsonl",
                                  [=](int layer, int token) {
                                    return layer == 2 && token == 1 ? wrong : 2e-6;
                                  })}),
                HasSubstr("layer_2_output"));
  }
}

// Breaks if an honest-looking pair of which one has a fault in a layer made the fault its floor.
TEST_F(MeasureFloors, RefusesAnErrorThatJumpsAtALayer) {
  const std::string ref = reference();
  const std::string faulty =
      log("faulty.jsonl", [](int layer, int) { return layer < 2 ? 2e-6 : 1e-2; });
  EXPECT_THAT(refusal({ref, faulty}),
              AllOf(HasSubstr("jumps from 2"), HasSubstr("at 'layer_2_output'"),
                    HasSubstr("give --accept-jumps")));
  EXPECT_THAT(refusal({ref, noisy("honest.jsonl", 1e-6), faulty}), HasSubstr("faulty.jsonl"));
  // From no error at all, too: the same engine with a fault.
  const std::string exact =
      log("exact.jsonl", [](int layer, int) { return layer < 2 ? 0.0 : 1e-2; });
  EXPECT_THAT(refusal({ref, exact}),
              HasSubstr("jumps from 0 in the layer before to 0.01 at 'layer_2_output'"));
  FloorOptions options;
  options.accept_jumps = true;
  EXPECT_THAT(measure_floors({ref, exact}, options).floors[2].rel_l2, DoubleNear(1e-2, 1e-5));
  // Rounding that grows from layer to layer is not a jump.
  const std::string growing =
      log("growing.jsonl", [](int layer, int) { return 1e-6 * std::pow(6, layer); });
  EXPECT_EQ(measure_floors({ref, growing}, {}).floors.size(), kLayers);
}

// Breaks if an engine that is wrong from the first layer on allowed later ones as much.
TEST_F(MeasureFloors, RefusesALargeErrorInTheFirstLayer) {
  const std::string off = noisy("off.jsonl", 0.3);
  EXPECT_THAT(refusal({reference(), off}), HasSubstr("is 0.3 at 'layer_0_output', in the first "
                                                     "layer: that looks like a mistake"));
  EXPECT_EQ(measure_floors({reference(), noisy("coarse.jsonl", 0.15)}, {}).k, 3);
  FloorOptions accepting;
  accepting.accept_jumps = true;
  EXPECT_EQ(measure_floors({reference(), off}, accepting).k, 3);
}

TEST_F(MeasureFloors, RefusesRecordsThatAreNotWholeInEachLog) {
  const std::string ref = reference();
  const std::string whole = text([](int, int) { return 1e-6; });
  const size_t last = whole.rfind("{\"checkpoint\"");
  EXPECT_THAT(refusal({ref, put("short.jsonl", whole.substr(0, last))}),
              AllOf(HasSubstr("1 of 12 records of"), HasSubstr("'layer_3_output' at token 2"),
                    HasSubstr("missing"), HasSubstr("narrow --checkpoints and --tokens")));
  // The head of a tensor, which its size shows.
  const std::string head =
      whole.substr(0, last) + line("layer_3_output", 2, first_values(3, 2), ",\"n\":64");
  EXPECT_THAT(refusal({ref, put("head.jsonl", head)}), HasSubstr("1 of 12 records of"));
  Selection selection;
  selection.set_checkpoints("layer_0_output,layer_1_output", "");
  FloorOptions narrow;
  narrow.compare.selection = selection;
  EXPECT_EQ(measure_floors({ref, put("short.jsonl", whole.substr(0, last))}, narrow).floors.size(),
            2U);
}

TEST_F(MeasureFloors, RefusesZerosOnBothSides) {
  const std::string zeros = line("layer_4_output", 0, std::vector<float>(64, 0));
  const std::string ref = put("ref.jsonl", text([](int, int) { return 0.0; }) + zeros);
  const std::string got = put("got.jsonl", text([](int, int) { return 1e-6; }) + zeros);
  EXPECT_THAT(refusal({ref, got}), AllOf(HasSubstr("'layer_4_output' at token 0 is all zeros"),
                                         HasSubstr("shows no noise")));
}

TEST_F(MeasureFloors, RefusesRunsOfOtherTokens) {
  const std::string ref = reference();
  const std::string other = put("other.jsonl", text([](int, int) { return 1e-6; }, "[1,2,4]"));
  EXPECT_NE(refusal({ref, other}), "no error");
  const std::string shifted = put("shifted.jsonl", text([](int, int) { return 1e-6; }, "[2,3]"));
  EXPECT_NE(refusal({ref, shifted}), "no error");
}

TEST_F(MeasureFloors, RefusesARunThatIsTheReferenceItself) {
  const std::string ref = reference();
  EXPECT_THAT(refusal({ref, ref}), HasSubstr("is the same file as"));
  EXPECT_THAT(refusal({ref, noisy("copy.jsonl", 0)}),
              AllOf(HasSubstr("bit for bit"), HasSubstr("no noise to measure")));
}

TEST_F(MeasureFloors, RefusesGarbageThatAComparisonWouldSetAside) {
  const std::string ref = reference();
  std::vector<float> freed = values(0, 0, 1e-6);
  freed[0] = -1.4e24F;
  freed[1] = 3.06e-41F;  // the upper half of an address
  std::string got = text([](int, int) { return 1e-6; });
  const std::string clean = line("layer_0_output", 0, values(0, 0, 1e-6));
  ASSERT_NE(got.find(clean), std::string::npos);
  got.replace(got.find(clean), clean.size(), line("layer_0_output", 0, freed));
  EXPECT_NE(refusal({ref, put("freed.jsonl", got)}), "no error");
}

}  // namespace
}  // namespace assay
