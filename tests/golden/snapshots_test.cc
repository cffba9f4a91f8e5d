#include "assay/golden/snapshots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "assay/golden/fast_floors.h"
#include "assay/golden/snapshot_review.h"
#include "base/error.h"
#include "tests/golden/manifest_text.h"

namespace assay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

CheckpointSnapshot values(char digit, double norm = 10) {
  return {std::string(16, digit), norm, {1, 2, -3, 4.5}};
}

// Of the manifest's F32 and Q4_1, which has no log.
GoldenSnapshots example() {
  GoldenSnapshots all{"tiny", {"embedding", "layer_0_output", "logits"}, {}};
  for (const char* math : kSnapshotMaths) {
    for (const char* prompt : {"haiku", "long"}) {
      all.snapshots.push_back(
          {"F32", kShaA, math, prompt, 4, {values('a'), values('b'), values('c')}});
    }
  }
  return all;
}

TEST(Snapshots, AreReadAsTheyWereWritten) {
  const GoldenSnapshots before = example();
  const GoldenSnapshots after = parse_snapshots(snapshots_text(before), "snapshots.json");
  EXPECT_EQ(snapshots_text(after), snapshots_text(before));
  EXPECT_THAT(snapshot_changes(before, after, true), IsEmpty());
  EXPECT_EQ(after.model, "tiny");
  EXPECT_EQ(after.snapshots[0].values[1].hash, std::string(16, 'b'));
  EXPECT_THAT(after.snapshots[0].values[1].sums, ElementsAre(1, 2, -3, 4.5));
  EXPECT_EQ(after.snapshots[0].values[1].norm, 10);
}

// What would break: a damaged file that reads as if nothing had changed.
TEST(Snapshots, WhatIsWrongIsNamed) {
  const std::string good = snapshots_text(example());
  const std::pair<const char*, const char*> cases[] = {
      {"\"schema\": 1", "\"schema\": 2"},
      {"aaaaaaaaaaaaaaaa 10 1 2 -3 4.5", "aaaaaaaaaaaaaaaa 10 1 2 -3"},
      {"aaaaaaaaaaaaaaaa 10 1 2 -3 4.5", "aaaaaaaaaaaaaaaa 10 1 2 -3 4.5 6"},
      {"aaaaaaaaaaaaaaaa 10", "aaaaaaaaaaaaaaaA 10"},
      {"aaaaaaaaaaaaaaaa 10", "aaaaaaaa 10"},
      {"aaaaaaaaaaaaaaaa 10 1 2 -3 4.5", ""},
      {"\"layer_0_output\"", "\"embedding\""},
      {"\"layer_0_output\",", ""},
      {"\"math\": \"fast\"", "\"math\": \"exact\""},
      {"\"positions\": 4", "\"positions\": 0"}};
  for (const auto& [from, to] : cases) {
    std::string bad = good;
    ASSERT_NE(bad.find(from), std::string::npos) << from;
    bad.replace(bad.find(from), std::string_view(from).size(), to);
    EXPECT_THAT([&] { parse_snapshots(bad, "here.json"); },
                ThrowsMessage<Error>(HasSubstr("here.json: ")))
        << to;
  }
}

// What would break: a prompt, type or kind of math whose bits are no longer checked.
TEST(Snapshots, MustBeThoseOfTheManifest) {
  const GoldenManifest manifest = parse_golden_manifest(manifest_text(), "manifest.json");
  GoldenSnapshots snapshots = example();
  EXPECT_THAT(snapshot_problems(manifest, snapshots), IsEmpty());
  snapshots.snapshots[0].sha256 = kShaB;
  snapshots.snapshots[1].prompt = "other";
  EXPECT_THAT(snapshot_problems(manifest, snapshots),
              ElementsAre("is of another model file at F32 exact haiku",
                          "has no snapshot of F32 exact long",
                          "has a snapshot of F32 exact other, of which there is no golden"));
}

// What would break: a checkpoint whose bits are no longer checked anywhere.
TEST(Snapshots, HaveEachCheckpointOfWhichThereAreFloors) {
  const GoldenManifest manifest = parse_golden_manifest(manifest_text(), "manifest.json");
  GoldenSnapshots snapshots = example();
  snapshots.checkpoints = {"embedding", "layer_1_output"};
  EXPECT_THAT(snapshot_problems(manifest, snapshots),
              ElementsAre("has no 'layer_0_output', of which the manifest has floors",
                          "has no 'logits', of which the manifest has floors"));
}

TEST(Snapshots, ReportsTheFirstChangedCheckpointAndTheSizeInFloors) {
  const GoldenManifest manifest = parse_golden_manifest(manifest_text(), "manifest.json");
  const GoldenSnapshots before = example();
  GoldenSnapshots after = before;
  CheckpointSnapshot& output = after.snapshots[0].values[1];
  output.hash[5] = 'f';
  output.sums[2] += 4e-5;  // 2e-5 of the norm's 10 is 2e-6, two floors of layer_0_output
  after.snapshots[0].values[2].hash[5] = 'f';
  const auto changes = snapshot_changes(before, after, true);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].name(), "F32 exact haiku");
  EXPECT_EQ(changes[0].checkpoints.front().checkpoint, "layer_0_output");
  EXPECT_NEAR(changes[0].checkpoints.front().rel_l2, 2e-6, 1e-12);
  EXPECT_EQ(changes[0].checkpoints.back().rel_l2, 0) << "smaller than nine digits of a sum tell";
  auto reviews = review_snapshots(manifest, {}, &before, after);
  ASSERT_EQ(reviews.size(), 1U);
  EXPECT_EQ(reviews[0].line,
            "F32 exact haiku: 2 of 3 checkpoints change, the first is layer_0_output; most "
            "layer_0_output, by 2 floors (relative L2 2e-06)");
  EXPECT_TRUE(reviews[0].within);
  output.sums[2] += 4e-5;
  reviews = review_snapshots(manifest, {}, &before, after);
  EXPECT_FALSE(reviews[0].within) << "four floors are more than k, which is 3";
  output.sums[2] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(review_snapshots(manifest, {}, &before, after)[0].within);
}

TEST(Snapshots, ReportsNewAndRemovedCases) {
  const GoldenManifest manifest = parse_golden_manifest(manifest_text(), "manifest.json");
  const GoldenSnapshots all = example();
  GoldenSnapshots some = all;
  some.snapshots.pop_back();
  auto reviews = review_snapshots(manifest, {}, &some, all);
  ASSERT_EQ(reviews.size(), 1U);
  EXPECT_EQ(reviews[0].line, "F32 fast long: is new");
  EXPECT_TRUE(reviews[0].within);
  reviews = review_snapshots(manifest, {}, &all, some);
  ASSERT_EQ(reviews.size(), 1U);
  EXPECT_EQ(reviews[0].line, "F32 fast long: is removed");
  EXPECT_FALSE(reviews[0].within);
  EXPECT_EQ(review_snapshots(manifest, {}, nullptr, all).size(), 4U);
}

FastFloors floors_of(double most) {
  return {"tiny", {{"Q4_1", kShaB, "haiku", {{"embedding", {0, 0}}, {"logits", {most, 0.01}}}}}};
}

TEST(FastFloorsFile, IsReadAsItWasWrittenAndAFloorThatLetsAnythingPassIsRefused) {
  const std::string text = fast_floors_text(floors_of(0.03));
  EXPECT_EQ(fast_floors_text(parse_fast_floors(text, "f.json")), text);
  for (const char* bad : {"[1, 0.01]", "[1e9, 0.01]", "[1e308, 0.01]", "[-1, 0.01]", "[0.03]",
                          "[0.001, 0.01]", "[\"NaN\", 0.01]"}) {
    std::string other = text;
    other.replace(other.find("[0.03, 0.01]"), 12, bad);
    EXPECT_THAT([&] { parse_fast_floors(other, "f.json"); },
                ThrowsMessage<Error>(HasSubstr("f.json: 'prompts[0].floors.logits")))
        << bad;
  }
}

// Floors of library would be taken for those of fast, or the other way round.
TEST(FastFloorsFile, LibraryHasEntriesOfItsOwn) {
  FastFloors floors = floors_of(0.03);
  floors.prompts.push_back(floors.prompts.front());
  floors.prompts.back().math = "library";
  floors.prompts.back().floors = {{"logits", {0.002, 0.001}}};
  const std::string text = fast_floors_text(floors);
  const FastFloors read = parse_fast_floors(text, "f.json");
  EXPECT_EQ(fast_floors_text(read), text);
  EXPECT_EQ(find_fast_floor(read, "Q4_1", "haiku", "logits")->max, 0.03);
  EXPECT_EQ(find_fast_floor(read, "Q4_1", "haiku", "logits", "library")->max, 0.002);
  EXPECT_EQ(find_fast_floor(read, "Q4_1", "haiku", "embedding", "library"), nullptr);
  EXPECT_THAT(fast_floor_changes(floors, floors_of(0.03)).notes,
              ElementsAre("library floors of Q4_1 haiku: logits is removed"));
  std::string other = text;
  other.replace(other.find("\"library\""), 9, "\"exact\"");
  EXPECT_THAT([&] { parse_fast_floors(other, "f.json"); },
              ThrowsMessage<Error>(HasSubstr("'prompts[1].math'")));
}

TEST(FastFloorsFile, ReportsARiseWhichLoosens) {
  EXPECT_THAT(fast_floor_changes(floors_of(0.03), floors_of(0.03)).notes, IsEmpty());
  FastFloorChanges changes = fast_floor_changes(floors_of(0.03), floors_of(0.06));
  EXPECT_THAT(changes.notes, ElementsAre("fast floors of Q4_1 haiku: 1 rise, 0 fall, most that of "
                                         "logits: 0.03 -> 0.06 (x 2)"));
  EXPECT_TRUE(changes.looser);
  changes = fast_floor_changes(floors_of(0.06), floors_of(0.03));
  EXPECT_FALSE(changes.looser);
  EXPECT_TRUE(fast_floor_changes(floors_of(0.03), {"tiny", {}}).looser);
}

// What would break: an error too large for rounding, and becomes what is allowed.
TEST(FastFloorsFile, AFloorIsRoundedUpAndNeverNaN) {
  const FastFloor floor = fast_floor_of({0.01234, 0.02001, 0.001}, "here");
  EXPECT_EQ(floor.max, 0.0201);
  EXPECT_EQ(floor.median, 0.0124);
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), 1.0, 2.0}) {
    EXPECT_THAT(
        [&] {
          fast_floor_of({0.1, bad}, "here");
        },
        ThrowsMessage<Error>(HasSubstr("too large for rounding")));
  }
  EXPECT_THAT([] { fast_floor_of({}, "here"); }, ThrowsMessage<Error>(HasSubstr("no position")));
}

}  // namespace
}  // namespace assay
