// Logs of several sequences: which belong together, and that each has to be shown.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "assay/compare/evidence.h"
#include "assay/log/run_files.h"
#include "base/error.h"
#include "tests/compare/comparison_case.h"

namespace assay {
namespace {

class SequencesTest : public ComparisonTest {
 protected:
  static std::string header(const std::string& tokens, const std::string& names,
                            const std::string& more = "") {
    return R"({"assay":1,"tokens":)" + tokens + R"(,"sequences":)" + names + more + "}\n";
  }

  // The records of a sequence whose values depend on its tokens alone.
  static std::string records(const std::string& name, const std::vector<int>& tokens, float off = 0,
                             int64_t first = 0) {
    std::string text;
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::vector<float> values = waves(16, tokens[i]);
      values[3] += off;
      text += line("layer_0_output", first + static_cast<int64_t>(i), values,
                   R"(,"sequence":")" + name + "\"");
    }
    return text;
  }

  static const Comparison& of_sequence(const Comparison& all, const std::string& ref) {
    return *std::ranges::find(all.sequences, ref, &Comparison::ref_sequence);
  }
};

constexpr const char* kRefTokens = "[[11,12,13],[21,22],[31,32,33]]";
constexpr const char* kRefNames = R"(["a","b","c"])";

// Breaks if sequences were paired by their place or their name, when their tokens say otherwise.
TEST_F(SequencesTest, TokensPairSequences) {
  const std::string ref = header(kRefTokens, kRefNames) + records("a", {11, 12, 13}) +
                          records("b", {21, 22}) + records("c", {31, 32, 33});
  const std::string head = header("[[31,32,33],[11,12,13],[21,22]]", R"(["a","9","b"])");
  const std::string got =
      head + records("b", {21, 22}) + records("a", {31, 32, 33}) + records("9", {11, 12, 13});
  const Comparison comparison = compare(ref, got);
  EXPECT_TRUE(comparison.pass);
  EXPECT_EQ(comparison.compared, 8);
  EXPECT_EQ(comparison.evidence.whole, 8);
  ASSERT_EQ(comparison.sequences.size(), 3U);
  EXPECT_EQ(of_sequence(comparison, "a").got_sequence, "9");
  EXPECT_EQ(of_sequence(comparison, "c").got_sequence, "a");
  // A fault in one is found there.
  const Comparison wrong =
      compare(ref, head + records("b", {21, 22}) + records("a", {31, 32, 33}, 1) +
                       records("9", {11, 12, 13}));
  EXPECT_FALSE(wrong.pass);
  EXPECT_EQ(wrong.failed, 3);
  ASSERT_TRUE(wrong.first_divergence);
  EXPECT_EQ(wrong.first_divergence->checkpoint.sequence, "c");
  EXPECT_EQ(wrong.first_divergence->checkpoint.title(), "layer_0_output of sequence c");
}

// Breaks if a sequence, or a record of one, could be missing unseen.
TEST_F(SequencesTest, AMissingSequenceIsUnproven) {
  const std::string ref = header(kRefTokens, kRefNames) + records("a", {11, 12, 13}) +
                          records("b", {21, 22}) + records("c", {31, 32, 33});
  const Comparison missing = compare(
      ref, header(kRefTokens, kRefNames) + records("a", {11, 12, 13}) + records("b", {21, 22}));
  EXPECT_EQ(missing.verdict, Verdict::kIncomplete);
  EXPECT_FALSE(missing.pass);
  EXPECT_EQ(missing.evidence.unproven, 3);
  ASSERT_TRUE(missing.evidence.first_unproven);
  EXPECT_EQ(missing.evidence.first_unproven->checkpoint.sequence, "c");
  EXPECT_EQ(missing.evidence.first_unproven->reason, "the other log has no such sequence");
  const Comparison one_record =
      compare(ref, header(kRefTokens, kRefNames) + records("a", {11, 12, 13}) + records("b", {21}) +
                       records("c", {31, 32, 33}));
  EXPECT_EQ(one_record.verdict, Verdict::kIncomplete);
  EXPECT_EQ(one_record.evidence.unproven, 1);
}

// Breaks if sequences that the reference does not have failed a log, or hid a NaN.
TEST_F(SequencesTest, FurtherSequencesAreOnlyCheckedForNaN) {
  const std::string ref = header("[[11,12]]", R"(["a"])") + records("a", {11, 12});
  const std::string head = header("[[21,22],[11,12]]", R"(["0","1"])");
  const Comparison further = compare(ref, head + records("1", {11, 12}) + records("0", {21, 22}));
  EXPECT_TRUE(further.pass);
  ASSERT_EQ(further.warnings.size(), 1U);
  EXPECT_NE(further.warnings[0].find(
                "got.jsonl: 1 sequence is not in the reference, and only searched for NaN: '0'"),
            std::string::npos)
      << further.warnings[0];
  const std::string nan = line("layer_0_output", 0, {1, NAN}, R"(,"sequence":"0")");
  const Comparison bad = compare(ref, head + records("1", {11, 12}) + nan);
  EXPECT_FALSE(bad.pass);
  EXPECT_EQ(bad.failed, 1);
  EXPECT_EQ(bad.first_divergence->checkpoint.sequence, "0");
}

// Breaks if sequences whose tokens are not known were paired by anything but their names.
TEST_F(SequencesTest, WithoutTokensNamesPairSequences) {
  const std::string ref = records("a", {11, 12}) + records("b", {21, 22});
  EXPECT_TRUE(compare(ref, records("b", {21, 22}) + records("a", {11, 12})).pass);
  EXPECT_NE(
      failure(ref, records("x", {11, 12}) + records("y", {21, 22})).find("no record in common"),
      std::string::npos);
}

// Breaks if a sequence whose positions are off by one passed as one of an engine that counts so.
TEST_F(SequencesTest, AnOffsetThatOtherSequencesDoNotHaveIsUnproven) {
  const std::vector<int> a = {11, 12, 13, 14};
  const std::vector<int> b = {21, 22, 23, 24};
  const std::string ref = records("a", a) + records("b", b);
  const Comparison one = compare(ref, records("a", a) + records("b", b, 0, 1));
  EXPECT_EQ(one.verdict, Verdict::kIncomplete);
  EXPECT_EQ(one.evidence.unproven, 4);
  ASSERT_TRUE(one.evidence.first_unproven);
  EXPECT_EQ(one.evidence.first_unproven->checkpoint.sequence, "b");
  EXPECT_EQ(one.evidence.first_unproven->reason, kOffsetOfSome);
  EXPECT_TRUE(compare(ref, records("a", a, 0, 1) + records("b", b, 0, 1)).pass) << "counts from 1";
  const std::string padded = header("[[11,12,13,14],[0,21,22,23,24]]", R"(["a","b"])",
                                    R"(,"mask":[[1,1,1,1],[0,1,1,1,1]])");
  EXPECT_TRUE(compare(header("[[11,12,13,14],[21,22,23,24]]", R"(["a","b"])") + ref,
                      padded + records("a", a) + records("b", b, 0, 1))
                  .pass)
      << "says what is padding";
}

// Breaks if rows that the mask says are padding were compared, or moved what is not.
TEST_F(SequencesTest, TheMaskSaysWhatIsPadding) {
  const std::string ref = header("[[11,12,13],[21,22]]", R"(["a","b"])") +
                          records("a", {11, 12, 13}) + records("b", {21, 22, 23});
  const auto padded = [&](const std::string& row_b, const std::string& mask_b,
                          const std::string& records_b) {
    return header("[[11,12,13]," + row_b + "]", R"(["0","1"])",
                  R"(,"mask":[[1,1,1],)" + mask_b + "]") +
           records("0", {11, 12, 13}) + records_b;
  };
  const std::string pad = line("layer_0_output", 0, {7, 7}, R"(,"sequence":"1")");
  const Comparison left =
      compare(ref, padded("[0,21,22]", "[0,1,1]", pad + records("1", {21, 22, 23}, 0, 1)));
  EXPECT_TRUE(left.pass);
  EXPECT_EQ(left.compared, 6);
  const std::string pad_after = line("layer_0_output", 2, {7, 7}, R"(,"sequence":"1")");
  const Comparison right =
      compare(ref, padded("[21,22,0]", "[1,1,0]",
                          records("1", {21, 22}) + pad_after + records("1", {23}, 0, 3)));
  EXPECT_TRUE(right.pass);
  EXPECT_EQ(right.compared, 6);
  EXPECT_FALSE(
      compare(ref, padded("[0,21,22]", "[0,1,1]", pad + records("1", {21, 22, 23}, 1, 1))).pass);
}

// Breaks if padding was not recognised without a mask, or BOS was taken for it.
TEST_F(SequencesTest, TokensShowWhatIsPadding) {
  const std::string ref = header("[[11,12,13,14],[21,22]]", R"(["a","b"])") +
                          records("a", {11, 12, 13, 14}) + records("b", {21, 22});
  const std::string pads = records("1", {0, 0});
  const Comparison left =
      compare(ref, header("[[11,12,13,14],[0,0,21,22]]", R"(["0","1"])") +
                       records("0", {11, 12, 13, 14}) + pads + records("1", {21, 22}, 0, 2));
  EXPECT_TRUE(left.pass);
  EXPECT_EQ(left.compared, 6);
  const Comparison right =
      compare(ref, header("[[11,12,13,14],[21,22,0,0]]", R"(["0","1"])") +
                       records("0", {11, 12, 13, 14}) + records("1", {21, 22, 0, 0}));
  EXPECT_TRUE(right.pass);
  EXPECT_EQ(right.evidence.whole, 6);
}

// Breaks if each of many sequences were looked for among all of the other log: 8,000 of each kind
// took a minute.
TEST_F(SequencesTest, ManySequencesArePaired) {
  constexpr int kCount = 8000;
  const auto log = [&](int first_token, int pads, const std::string& prefix) {
    std::string tokens;
    std::string names;
    std::string text;
    for (int i = 0; i < kCount; ++i) {
      const int place = (i * 1201) % kCount;  // another order than that of the reference
      const std::string name = prefix + std::to_string(i);
      const int id = prefix == "r" ? i : place;
      tokens += (i > 0 ? ",[" : "[") + std::string(pads > 0 ? "7,7," : "") +
                fmt::format("{},{}]", first_token + id, 20000 + id);
      names += (i > 0 ? ",\"" : "\"") + name + "\"";
      for (int t = 0; t < pads; ++t)
        text += line("logits", t, {1}, ",\"sequence\":\"" + name + "\"");
      text += line("logits", pads, {static_cast<float>(id), 1}, ",\"sequence\":\"" + name + "\"");
    }
    return header("[" + tokens + "]", "[" + names + "]") + text;
  };
  const std::clock_t begin = std::clock();
  const std::string ref = log(100, 0, "r");
  for (const int pads : {0, 2}) {
    const Comparison comparison = compare(ref, log(100, pads, "g"));
    EXPECT_TRUE(comparison.pass);
    EXPECT_EQ(comparison.evidence.whole, kCount) << pads;
    EXPECT_EQ(std::ssize(comparison.sequences), kCount);
  }
  std::string unnamed;
  for (int i = 0; i < kCount; ++i) {
    unnamed += line("logits", 0, {static_cast<float>(i), 1}, fmt::format(",\"sequence\":{}", i));
  }
  EXPECT_EQ(compare(unnamed, unnamed).evidence.whole, kCount);
  EXPECT_THAT(failure(ref, log(50000, 0, "o")), testing::HasSubstr("no record in common"));
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 20);
}

// Breaks if each of many sequences with a beginning in common, as after a system prompt, were tried
// with each of the other log: 20,000 took 23 s.
TEST_F(SequencesTest, ManySequencesThatBeginAlikeArePaired) {
  constexpr int kCount = 8000;
  const auto log = [&](const std::string& before, const std::string& after, int64_t first) {
    std::string tokens;
    std::string names;
    std::string text;
    for (int i = 0; i < kCount; ++i) {
      const int id = before.empty() ? i : (i * 1201) % kCount;
      const std::string name = fmt::format("\"{}{}\"", before.empty() ? 'r' : 'g', i);
      tokens += fmt::format("{}[{}1,2,3,4,{}{}]", i > 0 ? "," : "", before, 100 + id, after);
      names += (i > 0 ? "," : "") + name;
      text += line("logits", first, {static_cast<float>(id), 1}, ",\"sequence\":" + name);
    }
    return header("[" + tokens + "]", "[" + names + "]") + text;
  };
  const std::clock_t begin = std::clock();
  const std::string ref = log("", "", 4);
  const std::string further = log("", ",5", 4);
  for (const std::string& got : {log("9,", "", 5), log("9,8,", ",7", 6)}) {
    const Comparison comparison = compare(ref, got);
    EXPECT_EQ(std::ssize(comparison.sequences), kCount);
    EXPECT_EQ(comparison.compared, kCount);
  }
  EXPECT_EQ(compare(ref, further).compared, kCount);
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 20);
}

// Breaks if one of two sequences with the same tokens were compared with nothing.
TEST_F(SequencesTest, ASequenceThatIsThereTwiceIsComparedTwice) {
  const std::string ref = header("[[11,12]]", R"(["a"])") + records("a", {11, 12});
  const auto twice = [&](float off_of_x, float off_of_y) {
    return header("[[11,12],[11,12]]", R"(["x","y"])") + records("x", {11, 12}, off_of_x) +
           records("y", {11, 12}, off_of_y);
  };
  const Comparison same = compare(ref, twice(0, 0));
  EXPECT_TRUE(same.pass);
  EXPECT_EQ(same.compared, 4);
  EXPECT_FALSE(compare(ref, twice(2, 0)).pass);
  const Comparison wrong = compare(ref, twice(0, 2));
  ASSERT_TRUE(wrong.first_divergence);
  EXPECT_EQ(wrong.first_divergence->checkpoint.sequence, "a as y");
}

// Breaks if a batch of one prompt were judged by its first lane where the reference names another
// part of its tokens, or where they are padded.
TEST_F(SequencesTest, LanesWithTheTokensOfOneThatWasComparedAreComparedToo) {
  const std::string ref = header("[[11,12]]", R"(["a"])") + records("a", {11, 12, 13});
  const auto lanes = [&](const std::string& tokens, const std::string& before,
                         const std::vector<int>& ids, int64_t first, float off) {
    return header("[" + tokens + "," + tokens + "]", R"(["x","y"])") + before +
           records("x", ids, 0, first) + records("y", ids, off, first);
  };
  EXPECT_TRUE(compare(ref, lanes("[11,12,13]", "", {11, 12, 13}, 0, 0)).pass);
  EXPECT_FALSE(compare(ref, lanes("[11,12,13]", "", {11, 12, 13}, 0, 2)).pass);
  const std::string pads = records("x", {0, 0}) + records("y", {0, 0});
  const Comparison padded = compare(ref, lanes("[0,0,11,12]", pads, {11, 12, 13}, 2, 0));
  EXPECT_TRUE(padded.pass);
  EXPECT_EQ(padded.compared, 6);
  EXPECT_FALSE(compare(ref, lanes("[0,0,11,12]", pads, {11, 12, 13}, 2, 2)).pass);
}

// Breaks if tokens that an engine left out passed for padding, since they repeat another.
TEST_F(SequencesTest, TokensOfTheReferenceAreNoPaddingByGuess) {
  const auto log = [&](const std::string& tokens, const std::string& more,
                       const std::vector<int>& ids) {
    return header("[[11,12,13,14]," + tokens + "]", R"(["a","b"])", more) +
           records("a", {11, 12, 13, 14}) + records("b", ids);
  };
  const std::string got = log("[21,22]", "", {21, 22});
  const Comparison tail = compare(log("[21,22,9,9]", "", {21, 22, 9, 9}), got);
  EXPECT_FALSE(tail.pass);
  EXPECT_EQ(tail.evidence.unproven, 2);
  EXPECT_EQ(tail.evidence.whole, 6);
  EXPECT_EQ(compare(log("[9,9,21,22]", "", {9, 9, 21, 22}), got).evidence.unproven, 2);
  EXPECT_TRUE(
      compare(log("[21,22,9,9]", R"(,"mask":[[1,1,1,1],[1,1,0,0]])", {21, 22, 9, 9}), got).pass);
}

// Breaks if a token that an engine dropped from one sequence of a batch were excused as BOS.
TEST_F(SequencesTest, BosIsWhatAllSequencesLack) {
  const std::string names = R"(["a","b"])";
  const std::string ref = header("[[1,11,12,13],[1,21,22,23]]", names) +
                          records("a", {1, 11, 12, 13}) + records("b", {1, 21, 22, 23});
  const Comparison none = compare(ref, header("[[11,12,13],[21,22,23]]", names) +
                                           records("a", {11, 12, 13}) + records("b", {21, 22, 23}));
  EXPECT_TRUE(none.pass);
  EXPECT_EQ(none.evidence.excused, 2);
  const Comparison one =
      compare(ref, header("[[1,11,12,13],[21,22,23]]", names) + records("a", {1, 11, 12, 13}) +
                       records("b", {21, 22, 23}));
  EXPECT_FALSE(one.pass);
  EXPECT_EQ(one.verdict, Verdict::kIncomplete);
  EXPECT_EQ(one.evidence.unproven, 1);
  EXPECT_EQ(one.evidence.excused, 0);
}

TEST_F(SequencesTest, BosIsTheSameInAllSequences) {
  const std::string names = R"(["a","b"])";
  const Comparison comparison =
      compare(header("[[1,11,12,13],[2,21,22,23]]", names) + records("a", {1, 11, 12, 13}) +
                  records("b", {2, 21, 22, 23}),
              header("[[11,12,13],[21,22,23]]", names) + records("a", {11, 12, 13}) +
                  records("b", {21, 22, 23}));
  EXPECT_FALSE(comparison.pass);
  EXPECT_EQ(comparison.evidence.unproven, 2);
}

// Breaks if a folder with a file for each sequence was not one log.
// Breaks if a log that cannot be read, or whose ending is in capitals, were left out of a run.
TEST_F(SequencesTest, AFolderLeavesNoLogOut) {
  std::filesystem::create_directories(path("runs"));
  put("runs/a.jsonl", line("logits", 0, {1, 2, 3}));
  put("runs/b.JSONL", line("logits", 1, {1, 2, 3}));
  std::error_code none;
  std::vector<std::string> logs = logs_below(path("runs"), none);
  std::ranges::sort(logs);
  EXPECT_EQ(logs, (std::vector<std::string>{path("runs/a.jsonl"), path("runs/b.JSONL")}));
  std::filesystem::create_symlink("nothing", path("runs/c.jsonl"));
  EXPECT_THROW(compare_logs(path("runs"), path("runs"), options_), Error);
}

TEST_F(SequencesTest, AFolderMayHaveAFileForEachSequence) {
  for (const std::string folder : {"ref", "got"}) std::filesystem::create_directories(path(folder));
  const auto file = [&](const std::string& tokens, const std::vector<int>& ids, float off) {
    std::string text = "{\"assay\":1,\"tokens\":" + tokens + "}\n";
    for (size_t i = 0; i < ids.size(); ++i) {
      std::vector<float> values = waves(16, ids[i]);
      values[3] += off;
      text += line("layer_0_output", static_cast<int64_t>(i), values);
    }
    return text;
  };
  put("ref/one.jsonl", file("[11,12]", {11, 12}, 0));
  put("ref/two.jsonl", file("[21,22]", {21, 22}, 0));
  put("got/x.jsonl", file("[21,22]", {21, 22}, 0));
  put("got/y.jsonl", file("[11,12]", {11, 12}, 0));
  EXPECT_TRUE(compare_logs(path("ref"), path("got"), options_).pass);
  put("got/y.jsonl", file("[11,12]", {11, 12}, 1));
  const Comparison wrong = compare_logs(path("ref"), path("got"), options_);
  ASSERT_TRUE(wrong.first_divergence);
  EXPECT_EQ(wrong.first_divergence->checkpoint.sequence, "one");
}

// Breaks if a header whose lists do not fit each other was read.
TEST_F(SequencesTest, ListsOfAHeaderMustFit) {
  const std::string good = records("a", {11});
  const auto error = [&](const std::string& head) { return failure(good, head + good); };
  EXPECT_NE(
      error(header("[[11],[12]]", R"(["a"])")).find("1 names of sequences, 2 lists of tokens;"),
      std::string::npos)
      << "there is no mask";
  EXPECT_NE(error(header("[[11]]", R"(["a"])", R"(,"mask":[[1],[1]])"))
                .find("1 names of sequences, 2 lists of the mask;"),
            std::string::npos);
  EXPECT_NE(
      error(header("[[11]]", R"(["a"])", R"(,"mask":[[1,0]])")).find("a mask has another length"),
      std::string::npos);
  EXPECT_NE(error(header("[[11]]", R"(["a"])", R"(,"mask":[[2]])")).find("'mask' holds 2"),
            std::string::npos);
  EXPECT_NE(error(header("[[11],[12]]", R"(["a","a"])")).find("'sequences' has 'a' twice"),
            std::string::npos);
  EXPECT_NE(error(header("[[11],12]", R"(["a","b"])")).find("'tokens' is"), std::string::npos);
}

// Breaks if the tokens of a header were those of no record, so that no other tokens were noticed.
TEST_F(SequencesTest, AHeaderListsAllSequencesOfItsLog) {
  const std::string both = records("a", {11}) + records("b", {12});
  const std::string ref = header("[[11],[12]]", R"(["a","b"])") + both;
  EXPECT_TRUE(compare(ref, both).pass);  // without a header names pair
  for (const char* names : {R"(["p","q"])", R"(["a","q"])"}) {
    EXPECT_NE(failure(ref, header("[[98],[99]]", names) + both)
                  .find(", which its header does not list; list each sequence with its tokens"),
              std::string::npos)
        << names;
  }
}

// Breaks if a position that prefill and decode both computed could hold two values.
TEST_F(SequencesTest, OnePositionOfTwoPhasesMustBeEqual) {
  const std::string prefill = line("logits", 0, {1, 2}, R"(,"step":0,"phase":"prefill")");
  EXPECT_TRUE(
      compare(prefill, prefill + line("logits", 0, {1, 2}, R"(,"step":1,"phase":"decode")")).pass);
  EXPECT_NE(failure(prefill, prefill + line("logits", 0, {1, 3}, R"(,"step":1,"phase":"decode")"))
                .find("was logged before, in line 1, with other values"),
            std::string::npos);
}

}  // namespace
}  // namespace assay
