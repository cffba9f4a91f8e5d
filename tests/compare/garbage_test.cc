#include "assay/compare/garbage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace assay {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

float as_float(uint32_t bits) {
  return std::bit_cast<float>(bits);
}

std::vector<int64_t> indices(std::vector<float> values, GarbageReason reason,
                             const std::string& checkpoint = "logits") {
  Record record;
  record.checkpoint = checkpoint;
  record.n = static_cast<int64_t>(values.size());
  record.values = std::move(values);
  std::vector<int64_t> found;
  for (const Garbage& garbage : find_garbage(record)) {
    EXPECT_EQ(garbage.reason, reason) << garbage.index;
    found.push_back(garbage.index);
  }
  return found;
}

std::vector<float> normal_values(size_t n) {
  std::mt19937 random(9);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

TEST(Garbage, FindsNoneInRealTensors) {
  EXPECT_THAT(indices(normal_values(5000), GarbageReason::kNonfinite), IsEmpty());
  std::vector<float> massive = normal_values(5000);
  massive[0] = 90000;  // a massive activation
  EXPECT_THAT(indices(massive, GarbageReason::kNonfinite), IsEmpty());
  EXPECT_THAT(indices(std::vector<float>(100, 0.0F), GarbageReason::kNonfinite), IsEmpty());
  std::vector<float> relu = normal_values(5000);
  for (float& value : relu) value = std::max(value, 0.0F);
  relu[0] = 90000;
  relu[1] = 0;
  EXPECT_THAT(indices(relu, GarbageReason::kNonfinite), IsEmpty());
  EXPECT_THAT(indices({}, GarbageReason::kNonfinite), IsEmpty());
  EXPECT_THAT(indices({0, 0, 1e30F, 0}, GarbageReason::kNonfinite), IsEmpty());
}

// The bits of two heap pointers in the first 16 bytes, as a log that keeps bits shows them.
TEST(Garbage, PointersInTheBitsAreHeapMetadata) {
  std::vector<float> values = normal_values(10);
  values[0] = as_float(0x603C20);  // even where the low half is a small number
  values[1] = as_float(0x000055D5);
  EXPECT_THAT(indices(values, GarbageReason::kHeapMetadata), ElementsAre(0, 1));
  values[2] = as_float(0xDD603B80);
  values[3] = as_float(0x00007F12);
  values[8] = as_float(0x31);  // a size word
  values[9] = 0;
  EXPECT_THAT(indices(values, GarbageReason::kHeapMetadata), ElementsAre(0, 1, 2, 3, 8, 9));
}

// The same as "%.6f" prints it.
TEST(Garbage, PrintedPointersAreHeapMetadata) {
  std::vector<float> values = normal_values(10);
  values[0] = -46583.378906F;
  values[1] = 0;
  EXPECT_THAT(indices(values, GarbageReason::kHeapMetadata), ElementsAre(0, 1));
  values[1] = 0.5F;
  EXPECT_THAT(indices(values, GarbageReason::kHeapMetadata, "q"), IsEmpty());
  values = normal_values(10);
  values[0] = values[1] = values[3] = 0;
  values[2] = -1.009864e18F;
  EXPECT_THAT(indices(values, GarbageReason::kHeapMetadata), ElementsAre(0, 1, 2, 3));
}

// Breaks if a value were listed for two reasons.
TEST(Garbage, ASecondWordOutOfScaleIsListedOnce) {
  std::vector<float> values = normal_values(10);
  values[2] = -8.3e7F;
  values[3] = 0;
  EXPECT_THAT(indices(values, GarbageReason::kHeapMetadata), ElementsAre(2, 3));
}

// Breaks if honest numbers that small were taken for addresses.
TEST(Garbage, ATensorOfDenormalsHasNoPointers) {
  std::vector<float> values = normal_values(40);
  for (size_t i = 1; i < values.size(); i += 4) values[i] = as_float(0x5400);
  EXPECT_THAT(indices(values, GarbageReason::kHeapMetadata), IsEmpty());
}

TEST(Garbage, OutOfScaleIsMagnitudeAtAnyIndex) {
  for (const size_t place : std::vector<size_t>{0, 1, 2, 777, 4998, 4999}) {
    std::vector<float> values = normal_values(5000);
    values[place] = -2e16F;
    EXPECT_THAT(indices(values, GarbageReason::kMagnitude),
                ElementsAre(static_cast<int64_t>(place)));
  }
}

TEST(Garbage, NonfiniteIsListed) {
  std::vector<float> values = normal_values(100);
  values[5] = std::nanf("");
  values[99] = -std::numeric_limits<float>::infinity();
  EXPECT_THAT(indices(values, GarbageReason::kNonfinite), ElementsAre(5, 99));
}

TEST(Garbage, ConstantTailOfLogitsIsPadding) {
  for (const float fill : {-std::numeric_limits<float>::infinity(), -1e30F, -10000.0F}) {
    std::vector<float> values = normal_values(100);
    values[97] = values[98] = values[99] = fill;
    EXPECT_THAT(indices(values, GarbageReason::kPadding), ElementsAre(97, 98, 99));
  }
  std::vector<float> values = normal_values(100);
  values[98] = values[99] = 1.0F;
  EXPECT_THAT(indices(values, GarbageReason::kPadding), IsEmpty());
}

// Breaks if a mask in the middle were the scale of all other logits.
TEST(Garbage, MaskedLogitsArePaddingAnywhere) {
  for (const float mask : {-1e4F, -65504.0F, -1e30F, std::numeric_limits<float>::lowest()}) {
    std::vector<float> values = normal_values(100);
    for (const size_t place : {0U, 40U, 99U}) values[place] = mask;
    EXPECT_THAT(indices(values, GarbageReason::kPadding), ElementsAre(0, 40, 99)) << mask;
  }
  std::vector<float> most = normal_values(100);
  for (size_t i = 0; i < most.size(); ++i) {
    if (i != 7) most[i] = i % 2 == 0 ? -1e9F : -1e4F;  // two masks, and one token that is left
  }
  EXPECT_EQ(indices(most, GarbageReason::kPadding).size(), 99U);
}

// Breaks if logits that are merely low were taken for masked ones.
TEST(Garbage, LowLogitsAreNoPadding) {
  std::vector<float> low = normal_values(100);
  low[50] = -900;
  EXPECT_THAT(indices(low, GarbageReason::kPadding), IsEmpty());
  for (float& value : low) value -= 1e5F;  // all of them
  EXPECT_THAT(indices(low, GarbageReason::kPadding), IsEmpty());
  std::vector<float> peaked(100, -120.0F);  // log-probabilities beside one that is certain
  peaked[3] = -1e-9F;
  EXPECT_THAT(indices(peaked, GarbageReason::kPadding), IsEmpty());
}

}  // namespace
}  // namespace assay
