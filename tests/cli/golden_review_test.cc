// What assay golden review and accept say of a golden that is held to something else.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <sstream>

#include "assay/log/sketch.h"
#include "tests/cli/golden_command.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

using testing::AllOf;
using testing::HasSubstr;

class GoldenReview : public GoldenCommand {
 protected:
  // The sketch of [1, 1, 1, 1], as a member of a record.
  static std::string sketch_of_ones() {
    const std::vector<float> ones(4, 1.0F);
    return fmt::format(R"(, "sketch": [{}])", fmt::join(compute_sketch(ones), ", "));
  }
};

// Breaks if a whole layer, or an op of one, could go from the logs together with its floors.
TEST_F(GoldenReview, ALogThatLacksALayerIsRefused) {
  const auto layers = [](std::string log) {
    for (const char* layer : {"layer_1_output", "layer_2_output"}) {
      log = with_copies(log, "layer_0_output", layer);
    }
    return log;
  };
  const std::string logs[2] = {layers(golden_->contents().at("f32.jsonl")),
                               layers(golden_->contents().at("long.jsonl"))};
  const auto write = [&] {
    golden_->write("", "");
    fs::remove(path("f32.jsonl.new"));
    fs::remove(path("long.jsonl.new"));
    fs::remove(path("manifest.json.new"));
    put_log("f32.jsonl", logs[0]);
    put_log("long.jsonl", logs[1]);
    ASSERT_EQ(golden({"verify"}).exit_code, 0);
  };
  const auto refused = [&](const std::string& message) {
    for (const char* action : {"accept", "review"}) {
      expect_refused(golden({action}), "f32.jsonl.new: " + message);
    }
  };
  // One within; the last, which the other log has; and the last of both, which those in place have.
  for (const char* layer : {"layer_1_output", "layer_2_output"}) {
    SCOPED_TRACE(layer);
    const std::string message =
        "has no '" + std::string(layer) + "', which belongs to the set 'layers'";
    write();
    put_log("f32.jsonl", without(logs[0], layer), ".new");
    refused(message);
    put_log("long.jsonl", without(logs[1], layer), ".new");
    refused(message);
    put_log("f32.jsonl", without(logs[0], layer));
    EXPECT_THAT(golden({"verify"}).err, HasSubstr("f32.jsonl: " + message));
  }
  // An op of one layer.
  const std::string ops = with_copies(logs[0], "layer_0_output", "layer_0_attn");
  std::string all = ops;
  for (const char* more : {"layer_1_attn", "layer_2_attn", "layer_0_q", "layer_1_q", "layer_2_q"}) {
    all = with_copies(all, "layer_0_attn", more);
  }
  write();
  replace_in(path("manifest.json"), "\"layers\"", "\"ops\"");
  const std::string floor = R"({"f32_vs_f64": {"max": 1e-6}}, )";
  replace_in(path("manifest.json"),
             "\"output\": ", "\"attn\": " + floor + "\"q\": " + floor + "\"output\": ");
  put_log("f32.jsonl", all);
  put("golden/inventory.txt", golden({"list", "--inventory"}).out);
  ASSERT_EQ(golden({"verify"}).exit_code, 0);
  put_log("f32.jsonl", without(all, "layer_1_q"), ".new");
  refused("has no 'layer_1_q', which belongs to the set 'ops'");
}

// Breaks if a review called a golden that holds an engine to less within its floors.
TEST_F(GoldenReview, WhatGoesFromAGoldenIsToldByNameAndEndsTheReviewWithOne) {
  record("0", "one_log");
  Outcome outcome = golden({"review"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("long.jsonl would go"));
  golden({"reject"});
  // Records: those of a set that names fewer, by which the log is whole.
  const std::string log = golden_->contents().at("f32.jsonl");
  fs::copy(path("manifest.json"), path("manifest.json.new"));
  replace_in(path("manifest.json.new"), "\"layers\"", "\"embedding,logits\"");
  put_log("f32.jsonl", without(log, "layer_0_output"), ".new");
  outcome = golden({"review"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("incomplete: 0 of 8 records beyond 3 x the floor; 4 would go"),
                    HasSubstr("\n    4 records of layer_0_output would go, or hold less\n")));
  golden({"reject"});
  // What a record holds.
  const auto with_values = [&](const std::string& values) {
    const std::string key = "\"values\": ";
    std::string thin = log;
    const size_t at = thin.find(key, thin.find("\"layer_0_output\"")) + key.size();
    thin.replace(at, thin.find(']', at) + 1 - at, values + ", \"n\": 4");
    fs::copy(path("manifest.json"), path("manifest.json.new"));
    put_log("f32.jsonl", thin, ".new");
    return golden({"review"});
  };
  outcome = with_values("[1]" + sketch_of_ones());
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\n    1 record of layer_0_output would go, or hold less\n"));
  golden({"reject"});
  expect_refused(with_values("[]"), "f32.jsonl.new: has no value of 'layer_0_output' at 0");
}

// Breaks if a golden that no right engine passes were verified: its records contradict themselves,
// or its manifest has no floor for them.
TEST_F(GoldenReview, AGoldenThatARightEngineFailsIsNotVerified) {
  std::string log = golden_->contents().at("f32.jsonl");
  const size_t at = log.find("[1, 1, 1, 1]", log.find("\"layer_0_output\""));
  ASSERT_NE(at, std::string::npos);
  log.insert(at + 12, R"(, "summary": {"min": 1, "max": 7, "mean": 1, "l2": 2})");
  put_log("f32.jsonl", log);
  EXPECT_THAT(golden({"verify"}).err, HasSubstr("f32.jsonl: has 'layer_0_output' at 0, of which"));
  golden_->write("", "");
  std::string manifest = golden_->contents().at("manifest.json");
  const size_t chosen = manifest.find("\"floor\": \"");
  ASSERT_NE(chosen, std::string::npos);
  manifest.insert(chosen + 10, "no_");
  std::ofstream(golden_->folder() + "manifest.json") << manifest;
  const Outcome outcome = golden({"verify"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("cannot be compared with: "));
  EXPECT_THAT(outcome.err, HasSubstr("has no floor 'no_"));
}

// Breaks if a manifest could call a log's model or prompt something else than the log does.
TEST_F(GoldenReview, WhatAManifestStatesIsHeldToTheLogsHeader) {
  std::string log = golden_->contents().at("f32.jsonl");
  log.replace(log.find("\"tokens\""), 0, "\"prompt\": \"a c\", ");
  put_log("f32.jsonl", log);
  Outcome outcome = golden({"verify"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("f32.jsonl: says 'a c' in the 'prompt' of its header, and the "
                                     "manifest 'a b'; "));
  golden_->write("", "");
  replace_in(path("manifest.json"), "\"arch\": \"llama\"", "\"arch\": \"qwen2\"");
  outcome = golden({"verify"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("says 'llama' in the 'arch' of its header"));
}

// Breaks if Assay's own engine, or a computation less exact than the floors are measured against,
// could become the reference that Assay is judged by.
TEST_F(GoldenReview, AGoldenIsOfAnotherProgramInFloat64) {
  const std::string header = R"("engine": "fake", "math": "float64")";
  const std::string log = golden_->contents().at("f32.jsonl");
  const auto refused = [&](const std::string& instead, const std::string& message) {
    SCOPED_TRACE(instead);
    std::string other = log;
    other.replace(log.find(header), header.size(), instead);
    put_log("f32.jsonl", other);
    const Outcome verified = golden({"verify"});
    EXPECT_EQ(verified.exit_code, 2);
    EXPECT_THAT(verified.err, HasSubstr("f32.jsonl: " + message));
    golden_->write("", "");
    put_log("f32.jsonl", other, ".new");
    expect_refused(golden({"review"}), "f32.jsonl.new: " + message);
    expect_refused(golden({"accept"}), "f32.jsonl.new: " + message);
    EXPECT_EQ(golden({"reject"}).exit_code, 0);
  };
  EXPECT_EQ(golden({"verify"}).exit_code, 0);
  refused(R"("engine": "assay", "math": "float64")", "is of Assay's own engine, as 'engine'");
  refused(R"("engine": "fake", "math": "float32")", "says 'float32' in the 'math' of its header");
  refused(R"("engine": "fake", "math": "exact")", "says 'exact' in the 'math' of its header");
  refused(R"("engine": "fake")", "says nothing in the 'math' of its header, and the floor 'f32_vs");
  refused(header + R"(, "routing": "replayed")", "has experts that another log chose, as 'rout");
  refused(header + R"(, "sampling": "temp 1")", "has tokens that were drawn, as 'sampling' in");
}

// Breaks if tokens that the golden's own logits do not choose were held against an engine, or a
// choice were called clear that is not.
TEST_F(GoldenReview, WhatAManifestStatesOfChoicesIsHeldToTheLog) {
  const std::string manifest = golden_->contents().at("manifest.json");
  const auto verify_with = [&](const std::string& from, const std::string& to) {
    std::string text = manifest;
    EXPECT_NE(text.find(from), std::string::npos);
    text.replace(text.find(from), from.size(), to);
    std::ofstream(golden_->folder() + "manifest.json") << text;
    return golden({"verify"});
  };
  const size_t greedy = manifest.find("\"greedy\": [");
  ASSERT_NE(greedy, std::string::npos);
  const std::string tokens = manifest.substr(greedy, manifest.find(']', greedy) + 1 - greedy);
  EXPECT_EQ(verify_with(tokens, "\"greedy\": [2, 3]").exit_code, 0);
  const Outcome other = verify_with(tokens, "\"greedy\": [2, 1]");
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("f32.jsonl: chooses 3 at 3, and the manifest states 1 in "
                                   "logs[f32.jsonl].greedy[1]; "));
  for (const auto& [gap, stated] : {std::pair("0.01", "0.01"), {"1e300", "1e+300"}}) {
    const Outcome wide =
        verify_with("\"n_predict\"", std::string("\"argmax_min_gap\": ") + gap + ", \"n_predict\"");
    EXPECT_EQ(wide.exit_code, 2) << gap;
    EXPECT_THAT(wide.err,
                HasSubstr(std::string("f32.jsonl: has logits whose largest two are as near as 0, "
                                      "and the manifest states ") +
                          stated + " in logs[f32.jsonl].argmax_min_gap; "));
  }
  EXPECT_EQ(verify_with("\"n_predict\"", "\"argmax_min_gap\": 0, \"n_predict\"").exit_code, 0);
  // An id that is never chosen is passed over; one that was must not be.
  EXPECT_EQ(verify_with("\"padding_ids\": []", "\"padding_ids\": [0]").exit_code, 0);
  EXPECT_THAT(verify_with("\"padding_ids\": []", "\"padding_ids\": [3]").err,
              HasSubstr("f32.jsonl: chooses 0 at 3, and the manifest states 3 in "));
  // All are padding: none would be held to what is stated.
  EXPECT_THAT(verify_with("\"padding_ids\": []", "\"padding_ids\": [0, 1, 2, 3]").err,
              HasSubstr("f32.jsonl: chooses no padding, and the manifest states 2 in "
                        "logs[f32.jsonl].greedy[0], which is one of its padding_ids; "));
}

// Breaks if a golden were taken with which no engine, however right, could be in parity.
TEST_F(GoldenReview, ALogThatCouldNotShowAnEqualOneIsRefused) {
  const std::string log = golden_->contents().at("f32.jsonl");
  const std::string with_sketch = R"([1, 1, 1], "n": 4)" + sketch_of_ones();
  const struct {
    const char* checkpoint;
    const char* values;
    const char* message;
  } cases[] = {
      {"layer_0_output", R"([1, 1, 1], "n": 4)",
       "'layer_0_output' at 0: only a part of it was compared, and whole evidence is required"},
      {"logits", R"([1, 1, 1], "n": 4)",
       "'logits' at 0: only a part of it was compared, and whole evidence is required"},
      {"logits", with_sketch.c_str(), "'logits' at 0: neither log tells which element it chooses"},
      {"layer_0_output",
       R"(["Infinity", 1, 1, 1], "summary": {"min": 1, "max": 1, "nonfinite": 0})",
       "'layer_0_output' at 0: the reference contradicts itself there"}};
  for (const auto& [checkpoint, values, message] : cases) {
    SCOPED_TRACE(values);
    std::string bad = log;
    const size_t at =
        bad.find("[1", bad.find("\"values\"", bad.find('"' + std::string(checkpoint) + '"')));
    ASSERT_NE(at, std::string::npos);
    bad.replace(at, bad.find(']', at) + 1 - at, values);
    golden_->write("", "");
    put_log("f32.jsonl", bad, ".new");
    for (const char* action : {"review", "accept"}) {
      expect_refused(
          golden({action}),
          std::string("f32.jsonl.new: cannot show that a log equal to it is right: ") + message);
    }
    golden({"reject"});
    put_log("f32.jsonl", bad);
    const Outcome verified = golden({"verify"});
    EXPECT_EQ(verified.exit_code, 2);
    EXPECT_THAT(verified.err,
                HasSubstr("f32.jsonl: cannot show that a log equal to it is right: "));
  }
}

// Breaks if a golden were taken that nothing, or anything, is within the tolerance of.
TEST_F(GoldenReview, ALogOfNothingButZerosOrWithNaNIsRefused) {
  const std::string log = golden_->contents().at("f32.jsonl");
  const std::pair<const char*, const char*> cases[] = {
      {"[0, 0.0, -0.0, 0]", "nothing but zeros or infinities"},
      {"[\"NaN\", \"NaN\", \"NaN\", \"NaN\"]", "a NaN, which nothing can match,"},
      {"[1, \"NaN\", 1, 1]", "a NaN, which nothing can match,"},
      {"[\"Infinity\", \"-Infinity\", 0, 0]", "nothing but zeros or infinities"}};
  for (const auto& [values, message] : cases) {
    SCOPED_TRACE(values);
    std::string bad = log;
    const size_t at = bad.find("[1, 1, 1, 1]", bad.find("\"layer_0_output\""));
    ASSERT_NE(at, std::string::npos);
    bad.replace(at, 12, values);
    put_log("f32.jsonl", bad, ".new");
    for (const char* action : {"review", "accept"}) {
      const Outcome outcome = golden({action});
      expect_refused(outcome, std::string("f32.jsonl.new: has ") + message);
      EXPECT_THAT(outcome.err, HasSubstr("of 'layer_0_output' at 0"));
    }
    golden({"reject"});
    put_log("f32.jsonl", bad);  // accepted by an older program
    EXPECT_THAT(golden({"verify"}).err, HasSubstr(std::string("f32.jsonl: has ") + message));
    golden_->write("", "");
  }
}

TEST_F(GoldenReview, ReviewTellsWhatIsBeyondTheFloorsAndWhatElseChanges) {
  record("2", "one_log");
  const Outcome outcome = golden({"review", "tiny"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("oracles.num_py: '2.4.6' -> '2.4.7'"),
                                 HasSubstr("long.jsonl would go"),
                                 HasSubstr("files[F32].logs[f32.jsonl].greedy[0]: 2 -> 0\n"),
                                 HasSubstr("kind logits rises: 4e-06 -> 8e-06 (x 2)\n"),
                                 HasSubstr("wrong: 4 of 12 records beyond 3 x the floor")));
  // The worst comes first.
  EXPECT_LT(outcome.out.find("  logits "), outcome.out.find("  layer_0_output "));
  EXPECT_EQ(golden({"accept", "tiny"}).exit_code, 0);
  EXPECT_FALSE(fs::exists(path("long.jsonl")));
  EXPECT_EQ(golden({"verify"}).exit_code, 0);
  // And back: the log is new again.
  record("0");
  EXPECT_THAT(golden({"review"}).out, HasSubstr("long.jsonl (F32, long)  new"));
}

// Breaks if a manifest could loosen what its golden is held to, or have a shell run something else,
// and the review said that nothing changes.
TEST_F(GoldenReview, ReviewTellsEachKeyThatChangesAndEndsWithOneWhereAToleranceGrows) {
  replace_in(path("manifest.json"), "\"floors\": {", R"("a_note": {"a": [[{"b": 1}]]},
    "texts": [{"prompt": "long", "greedy": [8, 9, 10]}, {"prompt": "haiku", "greedy": [8]}],
    "floors_by_checkpoint": {"layer_0_output": {"f32_vs_f64": {"max": 1e-6, "p99": 1e-7}},
                             "logits": {"f32_vs_f64": {"max": 4e-6}, "bf16_vs_f64": {"max": 0.1}}},
    "floors": {)");
  const std::string before = contents(path("manifest.json"));
  const struct {
    const char* from;
    const char* to;
    int exit_code;
    std::string message;
  } cases[] = {
      {R"({"max": 1e-6, )", R"({"max": 0.1, )", 1,
       "F32: the floor of layer_0_output rises: 1e-06 -> 0.1 (x 1e+05)"},
      {R"({"max": 1e-6, )", R"({"max": 5e-7, )", 0,
       "F32: of the floors f32_vs_f64, 1 fall, most that of layer_0_output: 1e-06 -> 5e-07 (x "
       "0.5)"},
      {R"("layer_0_output": {"f32_vs_f64": {"max": 1e-6, "p99": 1e-7}},)", "", 1,
       "F32: the floor of layer_0_output is removed"},
      {R"(, "bf16_vs_f64": {"max": 0.1})", "", 1,
       "F32: of the floors bf16_vs_f64, 1 removed: logits"},
      {"\"max\": 1e-06", "\"max\": 1e-05", 1,
       "F32: the floor of every other checkpoint of the kind output rises: 1e-06 -> 1e-05 (x 10)"},
      {R"("bf16_vs_f64": {"max": 0.1})", R"("bf16_vs_f64": {"max": 0.2})", 1,
       "F32: of the floors bf16_vs_f64, 1 rise, most that of logits: 0.1 -> 0.2 (x 2)"},
      {"\"p99\": 1e-7", "\"p99\": 2e-7", 0,
       "F32: the tables of the floors change, but no floor that judges"},
      {"\"k\": 3", "\"k\": 4", 1, "tolerance.k: 3 -> 4"},
      {"\"why\": \"measured\"", "\"why\": \"guessed\"", 0,
       "tolerance.why: 'measured' -> 'guessed'"},
      {"\"padding_ids\": []", "\"padding_ids\": [1]", 0, "padding_ids[0]: none -> 1, 0 items -> 1"},
      {"\"command\": \"python3", "\"command\": \"rm -rf ~; python3", 0,
       "command: '" + TinyGolden::command() + "' -> 'rm -rf ~; " + TinyGolden::command() + "'"},
      {"[8, 9, 10]", "[8, 9, 11]", 0, "files[F32].texts[long].greedy[2]: 10 -> 11"},
      {R"({"prompt": "long", "greedy": [8, 9, 10]}, )", "", 1,
       "files[F32].texts[long] is removed; it was {2 keys}"},
      {"[8, 9, 10]", "[8, 9]", 1, "files[F32].texts[long].greedy[2]: 10 -> none, 3 items -> 2"},
      {"{\"b\": 1}", "{\"c\": 1}", 0,
       "files[F32].a_note.a[0][0].b is removed; it was 1\n"
       "  files[F32].a_note.a[0][0].c is new: 1"},
      {"\"n_predict\": 2", "\"argmax_min_gap\": 0, \"n_predict\": 2", 0,
       "files[F32].logs[f32.jsonl].argmax_min_gap is new: 0"},
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(test.to);
    std::string after = before;
    ASSERT_NE(after.find(test.from), std::string::npos);
    after.replace(after.find(test.from), std::string_view(test.from).size(), test.to);
    put("golden/tiny/manifest.json.new", after);
    const Outcome outcome = golden({"review"});
    EXPECT_EQ(outcome.exit_code, test.exit_code) << outcome.err;
    EXPECT_EQ(outcome.out,
              "tiny\n  " + test.message + "\n" +
                  "\n  take it: assay golden accept tiny   drop it: assay golden reject tiny\n");
  }
}

}  // namespace
}  // namespace assay
