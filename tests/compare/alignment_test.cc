// Which records of two logs belong together: selections, and generations that part.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "assay/compare/compare_logs.h"
#include "tests/compare/log_files.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class AlignmentTest : public LogFiles {
 protected:
  Comparison compare(const std::string& ref, const std::string& got) {
    return compare_logs(put("ref.jsonl", ref), put("got.jsonl", got), options_);
  }

  // A greedy run: prompt 7 7, then what `generated` says. The embedding is the token's; the logits
  // have their maximum at the token that comes next.
  static std::string run_of(const std::vector<int>& tokens, bool embedding = true,
                            float scale = 1) {
    std::string log = "{\"assay\":1,\"tokens\":[7,7]}\n";
    for (size_t t = 0; t + 1 < tokens.size(); ++t) {
      const auto token = static_cast<float>(tokens[t]);
      const auto at = static_cast<int64_t>(t);
      if (embedding) log += line("embedding", at, {scale * token, 1 - token, 2, token * token});
      std::vector<float> logits(10, 1.0F);
      for (size_t i = 0; i < logits.size(); ++i) {
        logits[i] += 0.1F * token * static_cast<float>(i % 3) + 0.01F * static_cast<float>(t * i);
      }
      logits[static_cast<size_t>(tokens[t + 1])] = 4;
      log += line("logits", at, logits);
    }
    return log;
  }
  static std::vector<float> random_values(int seed) {
    std::mt19937 engine(static_cast<unsigned>(seed));
    std::normal_distribution<float> normal;
    std::vector<float> values(64);
    for (float& value : values) value = normal(engine);
    return values;
  }

  CompareOptions options_;
};

// Breaks if an engine were called wrong at the embedding because a level candidate won before it.
TEST_F(AlignmentTest, ComparesDivergingGenerationsUpToTheSplit) {
  const std::string ref = run_of({7, 7, 3, 5, 1, 2});
  std::string got = run_of({7, 7, 3, 6, 8, 9});
  const Comparison comparison = compare(ref, got);
  ASSERT_TRUE(comparison.split);
  EXPECT_EQ(comparison.split->token_idx, 3);
  EXPECT_EQ(comparison.split->ref_token, 5);
  EXPECT_EQ(comparison.split->got_token, 6);
  EXPECT_EQ(comparison.split->left_out, 4);
  EXPECT_EQ(comparison.compared, 6);
  EXPECT_EQ(comparison.unmatched_ref, 0);
  EXPECT_EQ(comparison.unmatched_got, 0);
  // The choice itself is judged: 4 against 1 is no tie.
  ASSERT_TRUE(comparison.first_divergence);
  EXPECT_EQ(comparison.first_divergence->checkpoint.name, "logits");
  EXPECT_EQ(comparison.first_divergence->token_idx, 2);
}

TEST_F(AlignmentTest, SplitAfterATiedChoicePasses) {
  const std::string before =
      line("embedding", 0, {1, 2}) + line("embedding", 1, {3, 4}) + line("logits", 0, {1, 9, 2});
  const Comparison comparison =
      compare(before + line("logits", 1, {100, 100.001F, 1}) + line("embedding", 2, {5, -5}) +
                  line("logits", 2, {1, 2, 3}),
              before + line("logits", 1, {100.002F, 100.001F, 1}) + line("embedding", 2, {-6, 6}) +
                  line("logits", 2, {3, 2, 1}));
  EXPECT_EQ(comparison.verdict, Verdict::kTieFlip);
  EXPECT_TRUE(comparison.pass);
  ASSERT_TRUE(comparison.split);
  EXPECT_EQ(comparison.split->token_idx, 2);
  EXPECT_EQ(comparison.split->ref_token, 1);
  EXPECT_EQ(comparison.split->got_token, 0);
}

// Breaks if a broken embedding were excused as another token.
TEST_F(AlignmentTest, EmbeddingWrongThroughoutIsNoSplit) {
  const Comparison comparison =
      compare(run_of({7, 7, 3, 5, 1, 2}), run_of({7, 7, 3, 6, 8, 9}, true, 3));
  EXPECT_FALSE(comparison.split);
  EXPECT_EQ(comparison.first_divergence->checkpoint.name, "embedding");
  EXPECT_EQ(comparison.first_divergence->token_idx, 0);
}

// Breaks if an embedding that fails only while decoding were excused: both chose the same token.
TEST_F(AlignmentTest, WrongEmbeddingAfterTheSameChoiceIsNoSplit) {
  std::string got = run_of({7, 7, 3, 5, 1, 2});
  const std::string ref = got;
  const std::string good = line("embedding", 3, {5, -4, 2, 25});
  const size_t at = got.find(good);
  ASSERT_NE(at, std::string::npos);
  got.replace(at, good.size(), line("embedding", 3, {-5, 4, 2, 25}));
  const Comparison comparison = compare(ref, got);
  EXPECT_FALSE(comparison.split);
  EXPECT_EQ(comparison.first_divergence->checkpoint.name, "embedding");
  EXPECT_EQ(comparison.first_divergence->token_idx, 3);
}

// The tokens were forced: the argmax differs, what is computed next does not.
TEST_F(AlignmentTest, ForcedTokensAreNoSplit) {
  const auto log = [](float first) {
    return line("embedding", 0, {1, 2}) + line("logits", 0, {first, 9, 2}) +
           line("embedding", 1, {3, 4}) + line("logits", 1, {1, 9, 2});
  };
  const Comparison comparison = compare(log(1), log(12));
  EXPECT_FALSE(comparison.split);
  EXPECT_EQ(comparison.compared, 4);
}

TEST_F(AlignmentTest, LogitsRevealASplitWithoutEmbeddings) {
  const Comparison comparison =
      compare(run_of({7, 7, 3, 5, 1, 2}, false), run_of({7, 7, 3, 5, 8, 9}, false));
  ASSERT_TRUE(comparison.split);
  EXPECT_EQ(comparison.split->token_idx, 4);
}

// Within the prompt the argmax chooses nothing.
TEST_F(AlignmentTest, PromptNeverSplits) {
  const auto log = [](float first, float second) {
    return "{\"assay\":1,\"tokens\":[1,2,3]}\n" + line("embedding", 0, {1, 2}) +
           line("logits", 0, {first, 9, 2}) + line("embedding", 1, {second, 4}) +
           line("logits", 1, {1, 9, 2});
  };
  const Comparison comparison = compare(log(1, 3), log(12, -3));
  EXPECT_FALSE(comparison.split);
  EXPECT_EQ(comparison.compared, 4);
}

TEST_F(AlignmentTest, TokensAndCheckpointsCanBeSelected) {
  const std::string ref = run_of({7, 7, 3, 5, 1, 2});
  std::string got = run_of({7, 7, 3, 5, 1, 2}, true, 2);
  options_.selection.set_checkpoints("logits", "--checkpoints");
  EXPECT_EQ(compare(ref, got).verdict, Verdict::kMatch);
  EXPECT_EQ(compare(ref, got).compared, 5);
  options_.selection.set_tokens("1..2,4..", "--tokens");
  const Comparison comparison = compare(ref, got);
  EXPECT_EQ(comparison.compared, 3);
  EXPECT_EQ(comparison.unmatched_ref, 0);
  EXPECT_EQ(comparison.unmatched_got, 0);
  options_.selection = {};
  options_.selection.set_tokens("7..", "--tokens");
  EXPECT_THAT(error_of([&] { compare(ref, got); }), HasSubstr("has no record at tokens 7..;"));
  options_.selection = {};
  options_.selection.set_tokens("1..2,100", "--tokens");
  EXPECT_THAT(error_of([&] { compare(ref, got); }),
              HasSubstr("has no record at tokens 100; its records are of tokens 0 to "));
}

// Ranges are positions of the reference, whatever the other log counts from.
TEST_F(AlignmentTest, RangesFollowTheOffset) {
  std::string ref, got;
  for (int t = 0; t < 6; ++t) {
    const std::vector<float> values = {1.0F * static_cast<float>(t), 2,
                                       -3.0F * static_cast<float>(t)};
    ref += line("logits", t, values);
    got += line("logits", t + 2, values);
  }
  options_.selection.set_tokens("2..3", "--tokens");
  options_.align = AlignMode::kFixed;
  options_.offset = 2;
  const Comparison comparison = compare(ref, got);
  EXPECT_EQ(comparison.compared, 2);
  EXPECT_EQ(comparison.verdict, Verdict::kMatch);
  EXPECT_EQ(comparison.results[0].token_idx, 2);
}

// Breaks if an engine that leaves BOS out were only told that its first token is another one.
TEST_F(AlignmentTest, LeadingTokensLeftOutAreAnOffset) {
  const auto log = [](const std::string& tokens, int first) {
    std::string text = "{\"assay\":1,\"tokens\":[" + tokens + "]}\n";
    for (int t = 0; t < 4; ++t) {
      text += line("embedding", t + first, {1.0F + static_cast<float>(t), 2, -1});
    }
    return text;
  };
  const std::string with_bos = "{\"assay\":1,\"tokens\":[1,7,8,9,5]}\n" +
                               line("embedding", 0, {9, 9, 9}) +
                               log("", 1).substr(log("", 1).find('\n') + 1);
  const std::string without = log("7,8,9,5", 0);
  const Comparison left_out = compare(with_bos, without);
  EXPECT_EQ(left_out.alignment.offset, -1);
  EXPECT_EQ(left_out.verdict, Verdict::kMatch);
  EXPECT_EQ(left_out.compared, 4);
  EXPECT_EQ(left_out.unmatched_ref, 1);
  ASSERT_EQ(left_out.warnings.size(), 1U);
  EXPECT_THAT(left_out.warnings[0], HasSubstr("got.jsonl leaves out the first token of "));
  EXPECT_THAT(left_out.warnings[0], HasSubstr("their tokens say so"));
  const Comparison added = compare(without, with_bos);
  EXPECT_EQ(added.alignment.offset, 1);
  EXPECT_THAT(added.warnings.at(0), HasSubstr("has tokens before the first token of "));
  // Other tokens are still told as such.
  EXPECT_THAT(error_of([&] { compare(with_bos, log("7,8,6,5", 0)); }),
              HasSubstr("at position 0 it has 7, the reference 1"));
  options_.align = AlignMode::kIndex;
  EXPECT_THAT(error_of([&] { compare(with_bos, without); }), HasSubstr("other tokens"));
}

// Breaks if an offset that is asked for silenced that the two logs are of other tokens.
TEST_F(AlignmentTest, OtherTokensUnderAFixedOffsetAreWarnedOf) {
  const auto log = [](const std::string& header, int first = 0) {
    return "{\"assay\":1," + header + "}\n" + line("logits", first + 1, {1, 2, -1});
  };
  const std::string ref = log(R"("tokens":[1,7,8])");
  options_.align = AlignMode::kFixed;
  const auto warnings = [&](const std::string& a, const std::string& b, int64_t offset = 0) {
    options_.offset = offset;
    const Comparison comparison = compare(a, b);
    EXPECT_TRUE(comparison.pass);
    return comparison.warnings;
  };
  EXPECT_THAT(
      warnings(ref, log(R"("tokens":[1,9,8])")),
      ElementsAre(AllOf(HasSubstr("got.jsonl is of other tokens than the reference "),
                        HasSubstr(": at position 1 it has 9, the reference 7; --align=0 compares "
                                  "them all the same"))));
  EXPECT_THAT(warnings(ref, log(R"("tokens":[1,7,8,5])")), IsEmpty());
  EXPECT_THAT(warnings(ref, log(R"("engine":"x")")), IsEmpty());
  EXPECT_THAT(warnings(log(R"("prompt":"a")"), log(R"("prompt":"b")")),
              ElementsAre(HasSubstr("is of another prompt than the reference")));
  // One that leaves the first token out, and one that counts from another number.
  EXPECT_THAT(warnings(ref, log(R"("tokens":[7,8])", -1), -1), IsEmpty());
  EXPECT_THAT(warnings(ref, log(R"("tokens":[1,7,8])", 5), 5), IsEmpty());
  EXPECT_THAT(warnings(ref, log(R"("tokens":[7,9])", -1), -1),
              ElementsAre(HasSubstr("at position 1 it has 9, the reference 8 at 2; --align=-1")));
}

// Without headers the embeddings tell, where all that follows differs because BOS is missing.
TEST_F(AlignmentTest, EmbeddingsRevealTheOffsetWithoutTokens) {
  std::string ref = line("embedding", 0, {9, 9, 9}) + line("logits", 0, {1, 2, 9, 4});
  std::string got;
  for (int t = 0; t < 6; ++t) {
    const auto x = static_cast<float>(t);
    ref += line("embedding", t + 1, {1 + x, 2 - x * x, -1}) + line("logits", t + 1, {x, 2, 9, -x});
    got += line("embedding", t, {1 + x, 2 - x * x, -1}) + line("logits", t, {5 - x, 9, 1, x * x});
  }
  const Comparison comparison = compare(ref, got);
  EXPECT_EQ(comparison.alignment.offset, -1);
  ASSERT_FALSE(comparison.warnings.empty());
  EXPECT_THAT(comparison.warnings[0], HasSubstr("their embeddings say so"));
  EXPECT_EQ(comparison.first_divergence->checkpoint.name, "logits");
}

// Breaks if a table of embeddings that is read a row off, of consecutive tokens, were taken for
// tokens that were left out.
TEST_F(AlignmentTest, EmbeddingsDoNotContradictTheHeaders) {
  const auto log = [](const char* header, int off) {
    std::string text = header;
    for (int token = 0; token < 5; ++token) {
      text += line("embedding", token, random_values(1 + token + off));
      text += line("layer_0_output", token, random_values(100 + token + 50 * off));
    }
    return text;
  };
  const char* header = "{\"assay\":1,\"tokens\":[1,2,3,4,5]}\n";
  EXPECT_EQ(compare(log("", 0), log("", 1)).alignment.offset, -1);
  const Comparison told = compare(log(header, 0), log(header, 1));
  EXPECT_EQ(told.alignment.offset, 0);
  EXPECT_EQ(told.first_divergence->checkpoint.name, "embedding");
  EXPECT_EQ(told.first_divergence->token_idx, 0);
}

// Breaks if the data moved what the tokens in both headers settle, or if nothing said how the
// records would match.
TEST_F(AlignmentTest, TokensInBothHeadersDecideTheAlignment) {
  const auto log = [](int first, int count, int broken) {
    std::string text = "{\"assay\":1,\"tokens\":[1,2,3,4,5]}\n";
    for (int token = 0; token < count; ++token) {
      text += line("embedding", first + token, random_values(1 + token));
      text += line("layer_0_output", first + token, random_values(100 + token + broken));
    }
    return text;
  };
  for (const int count : {5, 4}) {
    const Comparison told = compare(log(0, 5, 0), log(1, count, 50));
    EXPECT_EQ(told.alignment.offset, 0);
    EXPECT_FALSE(told.pass);
    EXPECT_THAT(told.warnings,
                testing::Contains(HasSubstr("the records would match with --align=1")));
  }
}

// Breaks if the first of the offsets under which repeated tokens fit stood for the right one.
TEST_F(AlignmentTest, RepeatedTokensDoNotMoveTheOffset) {
  // 26 tokens, of which 20 in the middle or all are two by turns, behind `front` others.
  const auto log = [](int front, int same_at_the_ends, bool broken) {
    std::string text;
    for (int token = 0; token < 26 + front; ++token) {
      const int of_ref = token - front;
      const bool end = of_ref < same_at_the_ends || of_ref >= 26 - same_at_the_ends;
      text += line("embedding", token, random_values(end ? 10 + of_ref : of_ref % 2));
      if (broken) text += line("layer_0_output", token, random_values(100 + 50 * front + token));
    }
    return text;
  };
  for (const int ends : {0, 3}) {
    for (const bool broken : {false, true}) {
      EXPECT_EQ(compare(log(0, ends, broken), log(1, ends, broken)).alignment.offset, 1);
      EXPECT_EQ(compare(log(1, ends, broken), log(0, ends, broken)).alignment.offset, -1);
    }
  }
  EXPECT_EQ(compare(log(0, 3, false), log(1, 3, false)).verdict, Verdict::kIncomplete)
      << "the same as from an engine that is late by a token";
  EXPECT_EQ(compare(log(0, 0, false), log(0, 0, false)).alignment.offset, 0);
}

TEST_F(AlignmentTest, FindsLargeOffsets) {
  std::string ref;
  std::string got;
  for (int t = 0; t < 60; ++t) {
    const auto x = static_cast<float>(t);
    const std::vector<float> values = {std::sin(x), std::cos(x * 1.7F), std::sin(x * 2.9F), 1};
    if (t < 40) ref += line("logits", t, values);
    if (t > 5) got += line("logits", t + 300, values);  // neither the first nor the last together
  }
  const Comparison comparison = compare(ref, got);
  EXPECT_EQ(comparison.alignment.offset, 300);
  EXPECT_EQ(comparison.verdict, Verdict::kIncomplete) << "the reference's first six are missing";
  EXPECT_EQ(comparison.compared, 34);
  EXPECT_EQ(comparison.evidence.whole, 34);
  EXPECT_EQ(comparison.evidence.unproven, 6);
}

// Breaks if an engine whose logits are those of the token before passed, as the record that has
// none before it is left out by the offset that the others fit.
TEST_F(AlignmentTest, OffsetThatLeavesOutASharedPositionProvesNothing) {
  const auto log = [](int first, int last, int late, bool embedding = false) {
    std::string text;
    for (int t = first; t <= last; ++t) {
      if (embedding) text += line("embedding", t, random_values(1 + t));
      text += line("logits", t, t < late ? std::vector<float>(64) : random_values(100 + t - late));
    }
    return text;
  };
  const std::string ref = log(0, 7, 0);
  for (const char* header : {"", "{\"assay\":1,\"engine\":\"x\"}\n"}) {
    const Comparison late = compare(ref, header + log(0, 8, 1));
    EXPECT_EQ(late.alignment.offset, 1);
    EXPECT_EQ(late.verdict, Verdict::kIncomplete);
    EXPECT_EQ(late.evidence.unproven, 8);
    ASSERT_TRUE(late.evidence.first_unproven);
    EXPECT_THAT(late.evidence.first_unproven->reason, HasSubstr("leaves out records"));
    // A log that counts from 1.
    EXPECT_EQ(compare(ref, header + log(1, 8, 1)).verdict, Verdict::kMatch);
  }
  // What --tokens and --checkpoints leave out shows it, too.
  options_.selection.set_tokens("3..5", "--tokens");
  EXPECT_EQ(compare(ref, log(0, 8, 1)).verdict, Verdict::kIncomplete);
  EXPECT_EQ(compare(ref, log(1, 8, 1)).verdict, Verdict::kMatch);
  options_.selection = {};
  options_.selection.set_checkpoints("logits", "--checkpoints");
  const std::string start = line("embedding", 0, random_values(1));
  EXPECT_EQ(compare(log(0, 7, 0, true), start + log(1, 8, 1)).verdict, Verdict::kIncomplete);
  EXPECT_EQ(compare(log(0, 7, 0, true), log(1, 8, 1)).verdict, Verdict::kMatch);
  options_.selection = {};
  // Between the reference's positions nothing is left out.
  std::string sparse;
  for (const int t : {0, 3, 6, 7}) sparse += line("logits", t, random_values(100 + t));
  EXPECT_EQ(compare(sparse, log(1, 8, 1)).verdict, Verdict::kMatch);
  EXPECT_EQ(compare(sparse, log(0, 8, 1)).verdict, Verdict::kIncomplete);
  // One that is early, of which the reference lacks the first.
  EXPECT_EQ(compare(log(1, 7, 0), log(0, 6, -1) + line("logits", 7, random_values(9))).verdict,
            Verdict::kIncomplete);
  // Whoever gives the offset knows it.
  options_.align = AlignMode::kFixed;
  options_.offset = 1;
  EXPECT_EQ(compare(ref, log(0, 8, 1)).verdict, Verdict::kMatch);
}

// Breaks if a log that counts from 1 were doubted for logits that the reference, whose logits begin
// at its prompt's end, never had; or if one that is late passed for that.
TEST_F(AlignmentTest, RecordsThatTheReferenceNeverHadAreNotLeftOut) {
  const auto log = [](int first, int first_logits, int late, int late_logits) {
    std::string text;
    for (int t = first; t <= 7 + std::max(late, late_logits); ++t) {
      if (t <= 7 + late) text += line("layer_0_output", t, random_values(1 + t - late));
      if (t >= first_logits) text += line("logits", t, random_values(100 + t - late_logits));
    }
    return text;
  };
  const std::string ref = log(0, 3, 0, 0);
  for (const int first_logits : {1, 2, 3, 4}) {
    const Comparison counted = compare(ref, log(1, first_logits, 1, 1));
    EXPECT_EQ(counted.alignment.offset, 1);
    EXPECT_EQ(counted.verdict, Verdict::kMatch) << first_logits;
  }
  // Late in all, with something at 0; late in its logits alone; and logits alone.
  EXPECT_FALSE(compare(ref, log(0, 3, 1, 1)).pass);
  for (const int first : {0, 1}) {
    EXPECT_FALSE(compare(ref, log(first, 3, 0, 1)).pass) << first;
    options_.selection.set_checkpoints("logits", "--checkpoints");
    EXPECT_FALSE(compare(ref, log(first, 3, 0, 1)).pass) << first;
    options_.selection = {};
  }
  std::string logits;
  for (int t = 3; t <= 7; ++t) logits += line("logits", t, random_values(100 + t));
  std::string late;
  for (int t = 3; t <= 8; ++t) late += line("logits", t, random_values(99 + t));
  const Comparison alone = compare(logits, late);
  EXPECT_EQ(alone.alignment.offset, 1);
  EXPECT_EQ(alone.verdict, Verdict::kIncomplete);
}

TEST(SelectionTest, RangesAreChecked) {
  for (const char* bad : {"", "a", "5..3", "-1", "1,", "1...2", "..x", "99999999999999999999"}) {
    Selection selection;
    EXPECT_THROW(selection.set_tokens(bad, "--tokens"), Error) << bad;
  }
  Selection selection;
  selection.set_tokens("3,5..6,9..", "--tokens");
  EXPECT_FALSE(selection.has_token(4));
  EXPECT_TRUE(selection.has_token(3));
  EXPECT_TRUE(selection.has_token(6));
  EXPECT_FALSE(selection.has_token(8));
  EXPECT_TRUE(selection.has_token(INT64_MAX));
}

}  // namespace
}  // namespace assay
