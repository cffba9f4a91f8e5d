// assay invariance.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "tests/cli/conform_command.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

using testing::HasSubstr;

class InvarianceCommand : public ConformCommand {};

TEST_F(InvarianceCommand, AssayDoesNotDependOnHowItIsAsked) {
  const Outcome outcome = asked({"invariance", "assay", "--features", "family_gemma2", "--features",
                                 "family_mixtral", "--format", "json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  const rapidjson::Document json = parsed(outcome.out);
  const rapidjson::Value& counts = json["engines"][0]["counts"];
  EXPECT_EQ(counts["same bits"].GetInt(), 12);
  EXPECT_EQ(counts["unsupported"].GetInt(), 4);  // batches
}

// An engine in shell and awk: a few checkpoints of each token. $Q is an element of layer 0's q at
// the third, $L one of the logits; the other element of each tensor is the token's.
constexpr const char* kTiny = R"(
export Q L
echo $ASSAY_TOKENS | tr , '\n' | awk '
function put(name, value) {
  printf "{\"checkpoint\":\"%s\",\"token_idx\":%d,\"dtype\":\"f32\",\"shape\":[1,2],", name, NR - 1
  printf "\"values\":[%s,%s]}\n", value, 7 + $1 / 1000
}
{
  put("embedding", 1)
  put("layer_0_attn_norm", 2)
  put("layer_0_q", NR == 3 ? ENVIRON["Q"] : 3)
  put("layer_0_k", 4)
  put("layer_1_output", 6)
  put("logits", ENVIRON["L"])
}' > $ASSAY_LOG_FILE)";

TEST_F(InvarianceCommand, WhatDependsIsNamedWithItsFirstOp) {
  const std::string engine =
      std::string("Q=3 L=5; case $ASSAY_SURFACE in chunks*) Q=3.25 L=9;; esac; ") + kTiny;
  const Outcome outcome = asked({"invariance", "--command", engine, "--features", "family_llama",
                                 "--surfaces", "again,chunks:7,steps", "--format", "json"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  const rapidjson::Document json = parsed(outcome.out);
  const rapidjson::Value& surfaces = json["engines"][0]["surfaces"];
  EXPECT_STREQ(surfaces[0]["verdict"].GetString(), "same bits");
  EXPECT_STREQ(surfaces[1]["verdict"].GetString(), "dependent") << outcome.out;
  EXPECT_STREQ(surfaces[1]["first_divergence"].GetString(), "layer_0_q");
  EXPECT_THAT(surfaces[1]["text"].GetString(), HasSubstr("first at token 2"));
  EXPECT_THAT(surfaces[1]["text"].GetString(),
              HasSubstr("the likeliest token changes at 48 of 48"));
  EXPECT_STREQ(surfaces[2]["verdict"].GetString(), "same bits");
}

// Another value in each run.
TEST_F(InvarianceCommand, NoiseIsMeasuredByRepeating) {
  const std::string count = folder_ + "/n";
  const std::string engine = "n=$(cat " + count +
                             " 2>/dev/null || echo 0); n=$((n+1)); echo $n > " + count +
                             "; Q=3 L=5.0000$n; " + kTiny;
  const Outcome outcome = asked({"invariance", "--command", engine, "--features", "family_llama",
                                 "--surfaces", "again,steps", "--format", "json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const rapidjson::Document json = parsed(outcome.out);
  EXPECT_EQ(json["engines"][0]["counts"]["within noise"].GetInt(), 2) << outcome.out;
}

// What would break: results in a batch that are others in each run would pass as noise.
TEST_F(InvarianceCommand, WhatRoundingCannotCauseIsNoNoise) {
  const std::string count = folder_ + "/n";
  const std::string engine =
      "n=$(cat " + count + " 2>/dev/null || echo 0); n=$((n+1)); echo $n > " + count +
      "; Q=3 L=5; case $ASSAY_SURFACE in batch*) L=$((n % 2 * 8 + 1));; esac; " + kTiny;
  const Outcome outcome = asked({"invariance", "--command", engine, "--features", "family_llama",
                                 "--surfaces", "again,batch:2", "--format", "json"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.out << outcome.err;
  const rapidjson::Document json = parsed(outcome.out);
  const rapidjson::Value& batch = json["engines"][0]["surfaces"][1];
  EXPECT_STREQ(batch["verdict"].GetString(), "dependent") << outcome.out;
  EXPECT_THAT(batch["text"].GetString(), HasSubstr("repeats are off by"));
}

// What a way of asking does not log was not compared.
TEST_F(InvarianceCommand, ALogThatLacksPositionsIsNotInvariant) {
  const std::string engine = std::string("Q=3 L=5; ") + kTiny +
                             "; [ $ASSAY_SURFACE = alone ] || "
                             "sed -i '/\"logits\",\"token_idx\":1/d' $ASSAY_LOG_FILE";
  const Outcome outcome = asked({"invariance", "--command", engine, "--features", "family_llama",
                                 "--surfaces", "steps,chunks:2"});
  EXPECT_EQ(outcome.exit_code, 2) << outcome.out;
  EXPECT_THAT(outcome.err, HasSubstr("logs less of it than of the tokens alone"));
}

// What would break: other values, or NaN, that look unsupported since a position is missing, too.
TEST_F(InvarianceCommand, ALogThatLacksPositionsAndDiffersIsDependent) {
  for (const char* logits : {"9", "'\"NaN\"'"}) {
    const std::string engine = std::string("Q=3 L=5; [ $ASSAY_SURFACE = alone ] || L=") + logits +
                               "; " + kTiny +
                               "; [ $ASSAY_SURFACE = alone ] || "
                               "sed -i '/\"logits\",\"token_idx\":1/d' $ASSAY_LOG_FILE";
    const Outcome outcome = asked({"invariance", "--command", engine, "--features", "family_llama",
                                   "--surfaces", "again,steps"});
    EXPECT_EQ(outcome.exit_code, 1) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr("1 dependent")) << logits;
  }
}

// What would break: an engine whose layers are not logged as logits, or that repeats no layer.
TEST_F(InvarianceCommand, LayersAreComparedAsLogitsAre) {
  const std::string layers =
      std::string("Q=3 L=5; ") + kTiny + "; sed -i '/\"logits\"/d' $ASSAY_LOG_FILE";
  const Outcome same = asked(
      {"invariance", "--command", layers, "--features", "family_llama", "--surfaces", "steps"});
  EXPECT_EQ(same.exit_code, 0) << same.err;
  const std::string count = folder_ + "/n";
  const std::string noisy = "n=$(cat " + count + " 2>/dev/null || echo 0); n=$((n+1)); echo $n > " +
                            count + "; L=5 Q=3.0000$n; " + kTiny;
  const Outcome within = asked({"invariance", "--command", noisy, "--features", "family_llama",
                                "--surfaces", "again,steps"});
  EXPECT_EQ(within.exit_code, 0) << within.out;
  EXPECT_THAT(within.out, HasSubstr("2 within noise"));
}

TEST_F(InvarianceCommand, ValuesThatAreNoNumbersAreNeverInvariant) {
  const std::string engine = std::string("Q=3 L='\"NaN\"'; ") + kTiny;
  const Outcome outcome = asked({"invariance", "--command", engine, "--features", "family_llama",
                                 "--surfaces", "again,steps"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("2 dependent"));
}

// Fewer values than of the tokens alone show nothing of the others.
TEST_F(InvarianceCommand, FewerValuesAreNotTheSameBits) {
  const std::string engine = std::string("Q=3 L=5; ") + kTiny +
                             "; [ $ASSAY_SURFACE = alone ] || "
                             "sed -i '/\"logits\"/s/,7[.0-9]*]/],\"n\":2/' $ASSAY_LOG_FILE";
  const Outcome outcome = asked({"invariance", "--command", engine, "--features", "family_llama",
                                 "--surfaces", "steps,chunks:2"});
  EXPECT_EQ(outcome.exit_code, 2) << outcome.out;
}

// Breaks if a log that says next to nothing, and says it again in each way, is a pass.
TEST_F(InvarianceCommand, TooLittleEvidenceIsNoPass) {
  const std::string whole = std::string("Q=3 L=5; ") + kTiny;
  const auto expect_too_little = [&](const std::string& engine, const std::string& message) {
    const Outcome outcome = asked({"invariance", "--command", engine, "--features", "family_llama",
                                   "--surfaces", "again,after,steps"});
    EXPECT_EQ(outcome.exit_code, 2) << outcome.out << engine;
    EXPECT_THAT(outcome.err, HasSubstr(message));
  };
  const auto edited = [&](const std::string& sed) {
    return whole + "; sed -i '" + sed + "' $ASSAY_LOG_FILE";
  };
  expect_too_little(edited("/\"token_idx\":46/!d"), "logs all logits of 1 of 48 positions");
  expect_too_little(edited("s/\"logits\"/\"mine\"/; /layer_1/d"),
                    "logs no output: give logits, logprobs or layer_1_output of all positions");
  expect_too_little(edited("s/\"values\":.*/\"n\":2,\"values\":[],\"summary\":{\"min\":5,\"max\":7,"
                           "\"mean\":6,\"l2\":8.6,\"argmax\":1,\"top\":[[1,7]],\"nonfinite\":0}}/"),
                    "logs all logits of 0 of 48 positions");
  expect_too_little(edited("s/\"values\":.*/\"n\":4,\"values\":[5,7]}/"),
                    "logs all logits of 0 of 48 positions");
  expect_too_little(edited("s/\"values\":.*/\"values\":[5,7]}/"),
                    "logs the same logits for other tokens");
  expect_too_little(edited("s/\"values\":.*/\"values\":[5,7]}/") +
                        "; [ $(echo $ASSAY_TOKENS | tr , '\\n' | wc -l) = 48 ] || "
                        "sed -i '/logits/d; /layer_1/d' $ASSAY_LOG_FILE",
                    "logs no logits for another prompt");
  expect_too_little("[ $(echo $ASSAY_TOKENS | tr , '\\n' | wc -l) = 48 ] || exit 3; " + whole,
                    "evaluates no other prompt");
}

// What would break: a log that says two things of one tensor would be said to depend on the way in
// which the engine was asked.
TEST_F(InvarianceCommand, ALogThatContradictsItselfIsNotDependent) {
  const std::string edit =
      R"(sed -i '/"logits","token_idx":4,/s/"values":.5,/"summary":{"max":1e9},"values":[5,/' )"
      "$ASSAY_LOG_FILE";
  for (const char* when : {"", "[ $ASSAY_SURFACE = alone ] || "}) {
    const std::string engine = std::string("Q=3 L=5; ") + kTiny + "; " + when + edit;
    const Outcome outcome = asked({"invariance", "--command", engine, "--features", "family_llama",
                                   "--surfaces", "steps,chunks:7"});
    EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("2 crashed"));
    EXPECT_THAT(outcome.out, HasSubstr("the log contradicts itself: logits at token 4"));
  }
}

// What would break: an engine that evaluates other tokens than it was given, and says so.
TEST_F(InvarianceCommand, OtherTokensInTheHeaderAreNoAnswer) {
  const std::string engine = std::string("Q=3 L=5; ") + kTiny +
                             "; sed -i '1i {\"assay\":1,\"tokens\":[9,9,9]}' $ASSAY_LOG_FILE";
  const Outcome outcome = asked({"invariance", "--command", engine, "--features", "family_llama",
                                 "--surfaces", "again,steps"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("2 crashed"));
  EXPECT_THAT(outcome.out, HasSubstr("its header names other tokens than it was given: 9 at "
                                     "position 0"));
}

// What would break: a log that holds zeros would be said to hold no numbers.
TEST_F(InvarianceCommand, WhyThereIsNoDistanceIsSaid) {
  const std::pair<const char*, const char*> cases[] = {
      {R"(/logits/s/"values":.*/"values":[0,0]}/)", "where nothing is shown: "},
      {R"(s/"values":.5,/"values":["NaN",/)", "where values are no numbers"}};
  for (const auto& [edit, why] : cases) {
    const std::string engine =
        std::string("Q=3 L=5; ") + kTiny + "; sed -i '" + edit + "' $ASSAY_LOG_FILE";
    const Outcome outcome = asked(
        {"invariance", "--command", engine, "--features", "family_llama", "--surfaces", "again"});
    EXPECT_THAT(outcome.out, HasSubstr(why)) << outcome.err;
  }
}

// What would break: masks at other places, or NaN, would be "nan off".
TEST_F(InvarianceCommand, InfinitiesAtOtherPlacesAreFarOffAndNanIsNoNumber) {
  const auto edited = [&](const std::string& edits) {
    return asked({"invariance", "--command", std::string("Q=3 L=5; ") + kTiny + edits, "--features",
                  "family_llama", "--surfaces", "again,after,steps"});
  };
  // Tokens whose number ends oddly mask one logit, the others the other.
  const Outcome masked = edited(R"(
sed -i '/"logits"/{s/\[5,7[.0-9]*[13579]\]/["-Infinity",7.5]/;s/\[5,\(7[.0-9]*\)\]/[\1,"-Infinity"]/}' \
  $ASSAY_LOG_FILE)");
  EXPECT_EQ(masked.exit_code, 0) << masked.out << masked.err;
  const Outcome nan = edited(R"(
[ $(echo $ASSAY_TOKENS | tr , '\n' | wc -l) = 48 ] ||
  sed -i '/"logits"/s/"values":.5/"values":["NaN"/' $ASSAY_LOG_FILE)");
  EXPECT_EQ(nan.exit_code, 2) << nan.out;
  EXPECT_THAT(nan.err, HasSubstr("logs values of logits that are no numbers"));
}

// What would break: an engine that never reads its prompt would be invariant, within its own noise.
TEST_F(InvarianceCommand, ConstantsWithNoiseAreNoPass) {
  const std::string count = folder_ + "/n";
  const std::string constant =
      std::string("Q=3 L=5; ") + kTiny + "; n=$(cat " + count +
      " 2>/dev/null || echo 0); n=$((n+1)); echo $n > " + count +
      "; sed -i \"s/\\\"values\\\":.*/\\\"values\\\":[5,7.00$((n * n % 7))]}/\" $ASSAY_LOG_FILE";
  const Outcome noise = asked({"invariance", "--command", constant, "--features", "family_llama",
                               "--surfaces", "again,after,steps"});
  EXPECT_EQ(noise.exit_code, 2) << noise.out;
  EXPECT_THAT(noise.err, HasSubstr("logs nearly the same logits for other tokens"));
  // The same in each run, and further from itself by less than rounding.
  const std::string hashed = std::string("Q=3 L=5; ") + kTiny +
                             "; sed -i 's/,7[.]\\([0-9]*\\)]/,7.00000\\1]/' $ASSAY_LOG_FILE";
  const Outcome same = asked({"invariance", "--command", hashed, "--features", "family_llama",
                              "--surfaces", "again,after,steps"});
  EXPECT_EQ(same.exit_code, 2) << same.out;
  EXPECT_THAT(same.err, HasSubstr("and 1.0e-05 shows nothing"));
}

// What little is logged is enough to see that it depends.
TEST_F(InvarianceCommand, LittleThatDependsIsDependent) {
  const std::string engine = std::string("Q=3 L=5; case $ASSAY_SURFACE in steps) L=9;; esac; ") +
                             kTiny + "; sed -i '/\"token_idx\":47/!d' $ASSAY_LOG_FILE";
  const Outcome outcome = asked({"invariance", "--command", engine, "--features", "family_llama",
                                 "--surfaces", "again,steps"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.out;
}

// A prompt that reads the same backwards still has another beside it.
TEST_F(InvarianceCommand, OneTokenIsAPrompt) {
  const std::string tiny = source_path("golden/tinyllama/tinyllama-f32.gguf");
  for (const char* tokens : {"0", "5", "7,7,7"}) {
    const Outcome outcome = asked(
        {"invariance", "assay", "--gguf", tiny, "--tokens", tokens, "--surfaces", "again,after"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err << tokens;
    EXPECT_THAT(outcome.out, HasSubstr("2 same bits"));
  }
}

TEST_F(InvarianceCommand, BadUsageOfInvarianceIsOneLine) {
  for (const char* surface :
       {"batch:0", "chunks:-1", "chunks:", "chunks:3x", "chunks:99999999999"}) {
    expect_usage({"invariance", "assay", "--surfaces", surface}, "is not a surface");
  }
  expect_usage({"invariance", "assay", "--surfaces", "again,again"}, "'again' is given twice");
  expect_usage({"invariance", "assay", "--model", "/nonexist", "--tokens", "1"},
               "/nonexist: is no folder with a config.json");
  expect_usage({"invariance", "assay", "--gguf", put("x.gguf", "hello"), "--tokens", "1"},
               "x.gguf");
  expect_usage({"invariance", "assay", "--surfaces", "sideways"}, "'sideways' is not a surface");
  expect_usage({"invariance", "assay", "--model", folder_}, "needs --tokens");
  expect_usage({"invariance", "assay", "--tokens", "1,2"}, "needs --model or --gguf");
  const std::string tiny = source_path("golden/tinyllama/tinyllama-f32.gguf");
  expect_usage({"invariance", "assay", "--gguf", tiny}, "--gguf: needs --tokens");
  expect_usage({"invariance", "assay", "--gguf", tiny, "--tokens", "1,318"},
               "--tokens: 318 is not in the vocabulary of " + std::string(tiny) +
                   "; give ids from 0 to 317");
  const Outcome uncut = asked({"invariance", "assay", "--gguf", tiny, "--tokens", "1", "--surfaces",
                               "chunks:16,steps,cached"});
  EXPECT_EQ(uncut.exit_code, 2) << uncut.out;
  EXPECT_THAT(uncut.err, HasSubstr("nothing is cut there of 1 token: give more --tokens"));
  put("config.json", "{}");
  expect_usage({"invariance", "assay", "--model", folder_, "--tokens", "1,x"},
               "'x' is not a token id");
  expect_usage({"invariance", "assay", "--model", folder_, "--tokens", "1", "--features", "x"},
               "chooses of the suite's models");
}

}  // namespace
}  // namespace assay
