#include "assay/record/followed_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/compare/log_files.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kHeader = R"({"assay":1,"model":{"name":"m"},"tokens":[3,1],"prompt":"ab"})"
                                "\n";

class FollowedTokensTest : public LogFiles {
 protected:
  // Of a vocabulary of four, of which 3 is padding.
  FollowedLog read_log(const std::string& text) {
    return read_followed_tokens(put("ref.jsonl", text), {true, true, true, false});
  }
  FollowedTokens read(const std::string& text) { return read_log(text).sequences.at(0); }
  std::string failure(const std::string& text) {
    return error_of([&] { read(text); });
  }
  // A record of logits, or another, of which `rest` holds all from `shape` on.
  static std::string logits(int64_t token_idx, const std::string& rest,
                            const std::string& checkpoint = "logits") {
    return R"({"checkpoint":")" + checkpoint + R"(","token_idx":)" + std::to_string(token_idx) +
           R"(,"dtype":"f32",)" + rest + "}\n";
  }
};

constexpr const char* kShape = R"("shape":[1,4],)";

// Breaks if one of the forms in which a log shows the chosen token were read wrongly.
TEST_F(FollowedTokensTest, TheContinuationIsWhatTheLogitsChoose) {
  const std::string shape = kShape;
  const FollowedLog log =
      read_log(kHeader + logits(0, shape + R"("values":[9,0,0,0])") +
               logits(1, shape + R"("values":[1,2,2,0])") +            // a tie: the lowest
               logits(2, shape + R"("values":[1,"-Infinity",2,5])") +  // the greatest is padding
               logits(3, shape + R"("values":[7],"summary":{"argmax":1,"l2":3})") +
               logits(4, shape + R"("values":[7],"summary":{"argmax":3,"top":[[3,9],[0,8]]})") +
               logits(5, shape + R"("values":[],"top":[[3,-0.1],[2,-1],[0,-4]])", "logprobs") +
               line("embedding", 6, {0.5F}));
  ASSERT_EQ(log.sequences.size(), 1U);
  EXPECT_THAT(log.sequences[0].prompt, ElementsAre(3, 1));
  EXPECT_EQ(log.prompt_text, "ab");
  EXPECT_THAT(log.sequences[0].continuation, ElementsAre(1, 2, 1, 0, 2));
  EXPECT_THAT(log.warnings, IsEmpty());
}

TEST_F(FollowedTokensTest, ALogOfItsPromptAloneHasNoContinuation) {
  const std::string prompt = kHeader + line("embedding", 0, {1}) + line("embedding", 1, {1});
  EXPECT_THAT(read(prompt).continuation, IsEmpty());
  const FollowedLog cut = read_log(prompt + "{\"checkpoint\":\"lo");
  EXPECT_THAT(cut.warnings, ElementsAre(HasSubstr("ref.jsonl:4: the last line is cut off")));
}

// A record of a whole sequence has a row for each token.
TEST_F(FollowedTokensTest, RowsOfARecordAreOfOneTokenEach) {
  EXPECT_THAT(read(kHeader +
                   logits(0, R"("shape":[4,4],"values":[[9,0,0,0],[0,0,9,0],[0,9,0,0],[9,0,0,0]])"))
                  .continuation,
              ElementsAre(2, 1));
}

TEST_F(FollowedTokensTest, ReportsTokensThatAreUnknown) {
  const std::string shape = kShape;
  const std::string at_two = line("embedding", 2, {0.5F});
  EXPECT_THAT(failure(at_two), HasSubstr("ref.jsonl: it has no header; follow a log whose header"));
  EXPECT_THAT(failure("{\"assay\":1,\"tokens\":[]}\n" + at_two),
              HasSubstr("its header names no tokens"));
  EXPECT_THAT(failure("{\"assay\":1,\"tokens\":[4]}\n" + at_two),
              HasSubstr("the header's token 4 is not in the model's vocabulary of 4"));
  EXPECT_THAT(failure("{\"assay\":1,\"tokens\":[-1]}\n" + at_two), HasSubstr("token -1 is not"));
  EXPECT_THAT(failure(kHeader), HasSubstr("the log holds no records"));
  EXPECT_THAT(failure(kHeader + at_two),
              AllOf(HasSubstr("the token at position 2 is not known: it is what the logits at 1 "
                              "choose, and it has none"),
                    HasSubstr("log the reference with its logits at each token")));
  const auto of_one = [&](const std::string& rest) {
    return failure(kHeader + logits(1, rest) + at_two);
  };
  EXPECT_THAT(of_one(shape + R"("values":[1,2])"), HasSubstr("only a part of their values"));
  EXPECT_THAT(of_one(shape + R"("values":[1,2],"summary":{"l2":3})"), HasSubstr("only a part of"));
  EXPECT_THAT(of_one(shape + R"("values":[1,2,"NaN",0])"), HasSubstr("that of the token 2 is NaN"));
  EXPECT_THAT(of_one(shape + R"("values":[1],"summary":{"argmax":0,"nonfinite":1})"),
              HasSubstr("some of them are not finite"));
  EXPECT_THAT(of_one(shape + R"("values":[],"top":[[0,"NaN"],[1,-1]])"), HasSubstr("is NaN"));
  EXPECT_THAT(of_one(shape + R"("values":[1],"summary":{"argmax":3})"),
              HasSubstr("none of the ids that they name can be chosen"));
  EXPECT_THAT(of_one(R"("shape":[1,6],"values":[0,0,0,0,0,9])"),
              HasSubstr("the logits at 1 choose the token 5, which is not in the model's "
                        "vocabulary of 4; follow a reference of this model"));
  EXPECT_THAT(of_one(R"("shape":[1099511627776,4],"values":[0])"),
              HasSubstr("of a record of several tokens all values are needed"));
  EXPECT_THAT(failure(kHeader + line("embedding", 9223372036854775807, {1})),
              HasSubstr("the token at position 2 is not known"));
  EXPECT_THAT(
      failure(kHeader + logits(1, shape + R"("values":[9,0,0,0])") +
              logits(1, shape + R"("values":[0,9,0,0])")),
      HasSubstr("ref.jsonl:3: the logits at 1 choose the token 1, and 0 in a record before"));
  EXPECT_THAT(failure(kHeader + logits(0, shape + R"("values":[0],"sequence":"a")") +
                      logits(0, shape + R"("values":[0],"sequence":"b")")),
              HasSubstr("ref.jsonl: its header names no tokens of the sequence 'a'; follow a log "
                        "whose header"));
}

// Breaks if a sequence went on with another's choice, or one without records were left out.
TEST_F(FollowedTokensTest, EachSequenceHasItsOwnTokens) {
  const std::string header = R"({"assay":1,"tokens":[[3,1],[2],[0]],"sequences":["a","b","c"]})"
                             "\n";
  const std::string shape = kShape;
  const std::string of_a = R"(,"sequence":"a")";
  const std::string of_b = R"(,"sequence":"b")";
  const FollowedLog log =
      read_log(header + logits(0, shape + R"("values":[0,0,9,0])" + of_b) +
               logits(1, shape + R"("values":[0,9,0,0])" + of_a) +
               line("embedding", 2, {0.5F}, of_a) + line("embedding", 1, {0.5F}, of_b));
  ASSERT_EQ(log.sequences.size(), 3U);
  EXPECT_EQ(log.sequences[0].sequence, "a");
  EXPECT_THAT(log.sequences[0].prompt, ElementsAre(3, 1));
  EXPECT_THAT(log.sequences[0].continuation, ElementsAre(1));
  EXPECT_THAT(log.sequences[1].prompt, ElementsAre(2));
  EXPECT_THAT(log.sequences[1].continuation, ElementsAre(2));
  EXPECT_THAT(log.sequences[2].prompt, ElementsAre(0));
  EXPECT_THAT(log.sequences[2].continuation, IsEmpty());
  EXPECT_THAT(failure(header + line("embedding", 0, {1}, of_a) +
                      line("embedding", 0, {1}, R"(,"sequence":"d")")),
              HasSubstr("names no tokens of the sequence 'd'"));
}

// Breaks if the largest logit of one rank alone were taken for the token.
TEST_F(FollowedTokensTest, APartOfTheLogitsChoosesNothing) {
  const auto of_rank = [&](const std::string& dims) {
    return kHeader + logits(0, R"("shape":[4],"values":[0,9,0,0])") +
           logits(1, R"("rank":{"tp":1},"dims":")" + dims + R"(","shape":[4],"values":[0,9,0,0])") +
           line("embedding", 2, {0.5F});
  };
  EXPECT_THAT(failure(of_rank("v[tp]")), AllOf(HasSubstr("ref.jsonl:3: the logits at 1"),
                                               HasSubstr("'v[tp]'"), HasSubstr("whole logits")));
  EXPECT_THAT(failure(of_rank("+[tp] v")), HasSubstr("a rank's part"));
  EXPECT_THAT(failure(of_rank("v[x]")), HasSubstr("ref.jsonl:3: 'dims' is 'v[x]'"));
  EXPECT_THAT(read(of_rank("v")).continuation, ElementsAre(1));
  const std::string half = kHeader + logits(1, R"("shape":[2],"values":[0,9])");
  EXPECT_THAT(read(half).continuation, IsEmpty()) << "nothing depends on it";
  EXPECT_THAT(failure(half + line("embedding", 2, {0.5F})),
              HasSubstr("the token at position 2 is not known: it is what the logits at 1 choose, "
                        "and there are 2 of them for the model's vocabulary of 4"));
}

// Breaks if a run that followed one with a temperature evaluated tokens that were not sampled.
TEST_F(FollowedTokensTest, SampledTokensAreNotKnown) {
  const std::string sampled = R"({"assay":1,"tokens":[3,1],"sampling":"temp 3, seed 4"})"
                              "\n";
  const std::string shape = kShape;
  const std::string prompt = sampled + logits(0, shape + R"("values":[9,0,0,0])");
  EXPECT_THAT(read(prompt).continuation, IsEmpty());
  EXPECT_THAT(
      failure(prompt + line("embedding", 2, {0.5F}) + logits(1, shape + R"("values":[1,2,2,0])")),
      HasSubstr("were sampled (temp 3, seed 4)"));
}

}  // namespace
}  // namespace assay
