// Logs of several ranks, as files of a folder, against the log of one process.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "assay/compare/evidence.h"
#include "assay/log/log_reader.h"
#include "assay/log/record_text.h"
#include "assay/log/sketch.h"
#include "tests/compare/comparison_case.h"
#include "tests/compare/made_records.h"

namespace assay {
namespace {

// A tensor of one process, and what ranks log of it.
class RanksTest : public ComparisonTest {
 protected:
  void SetUp() override {
    ComparisonTest::SetUp();
    std::filesystem::create_directories(path("run"));
  }

  static Record part(const std::string& checkpoint, int64_t token, std::vector<float> values,
                     std::vector<int64_t> shape, const std::string& dims, const Rank& rank) {
    Record made = record(std::move(values), checkpoint);
    made.token_idx = token;
    made.dtype = "f32";
    made.shape = std::move(shape);
    if (!dims.empty()) made.dims = dims;
    made.rank = rank;
    return made;
  }

  static Record part(std::vector<float> values, const std::string& dims, const Rank& rank) {
    const auto n = static_cast<int64_t>(values.size());
    return part("layer_0_q", 0, std::move(values), {n}, dims, rank);
  }

  static std::string text(const Record& record) {
    std::string text;
    append_record_line(text, record);
    return text;
  }

  // The folder of a run with a file for each of `ranks`.
  std::string run_of(const std::vector<std::string>& ranks) {
    for (size_t i = 0; i < ranks.size(); ++i) put(fmt::format("run/{}.jsonl", i), ranks[i]);
    return path("run");
  }

  Comparison compare_run(const std::string& ref, const std::vector<std::string>& ranks) {
    return compare_logs(put("ref.jsonl", ref), run_of(ranks), options_);
  }
  std::string error_of_run(const std::string& ref, const std::vector<std::string>& ranks) {
    return error_of([&] { compare_run(ref, ranks); });
  }

  // Of `whole`, what rank `i` of `n` holds.
  static std::vector<float> piece(const std::vector<float>& whole, size_t i, size_t n) {
    const size_t width = whole.size() / n;
    const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(i * width);
    return {begin, begin + static_cast<std::ptrdiff_t>(width)};
  }

  static std::vector<std::string> cut(const std::vector<float>& whole, int64_t n) {
    std::vector<std::string> ranks;
    for (int64_t i = 0; i < n; ++i) {
      ranks.push_back(text(
          part(piece(whole, static_cast<size_t>(i), static_cast<size_t>(n)), "h[tp]", {.tp = i})));
    }
    return ranks;
  }
};

// Breaks if parts of ranks were put side by side in another order, or compared one by one.
TEST_F(RanksTest, CutTensorsArePutTogether) {
  const std::vector<float> whole = waves(64);
  const std::string ref = line("layer_0_q", 0, whole);
  const Comparison same = compare_run(ref, cut(whole, 4));
  EXPECT_TRUE(same.pass);
  EXPECT_EQ(same.verdict, Verdict::kMatch);
  EXPECT_EQ(same.evidence.whole, 1);
  std::vector<std::string> swapped = cut(whole, 4);
  std::swap(swapped[0], swapped[3]);  // the files' order is not that of the ranks
  EXPECT_TRUE(compare_run(ref, swapped).pass);
  std::vector<float> wrong = whole;
  wrong[40] += 1;
  const Comparison other = compare_run(ref, cut(wrong, 4));
  EXPECT_FALSE(other.pass);
  ASSERT_TRUE(other.first_divergence);
  EXPECT_EQ(other.first_divergence->ranks, "tp 2");
}

// Breaks if a sum of partial sums lost one, or was taken for a replica.
TEST_F(RanksTest, PartialSumsAreAdded) {
  const std::vector<float> a = waves(32, 1);
  const std::vector<float> b = waves(32, 2);
  std::vector<float> sum = a;
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += b[i];
  const auto ranks = [&](const std::string& dims) {
    return std::vector{text(part(a, dims, {.tp = 0})), text(part(b, dims, {.tp = 1}))};
  };
  EXPECT_TRUE(compare_run(line("layer_0_q", 0, sum), ranks("+[tp] h")).pass);
  EXPECT_FALSE(compare_run(line("layer_0_q", 0, a), ranks("+[tp] h")).pass);
  EXPECT_FALSE(compare_run(line("layer_0_q", 0, sum), ranks("h")).pass);
}

// Breaks if sketches of partial sums were not those of the sum.
TEST_F(RanksTest, SketchesOfPartialSumsAdd) {
  const std::vector<float> a = random_values(500, 1);
  const std::vector<float> b = random_values(500, 2);
  std::vector<float> sum = a;
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += b[i];
  const auto of = [&](const std::vector<float>& values, int64_t tp) {
    Record made = part(values, "+[tp] h", {.tp = tp});
    return text(head_of(made, 4, false, true));
  };
  const Comparison good = compare_run(line("layer_0_q", 0, sum), {of(a, 0), of(b, 1)});
  EXPECT_TRUE(good.pass);
  EXPECT_EQ(good.evidence.whole, 1);
  EXPECT_FALSE(compare_run(line("layer_0_q", 0, sum), {of(a, 0), of(a, 1)}).pass);
}

// Breaks if ranks that should hold the same could differ unseen, by a single bit.
TEST_F(RanksTest, ReplicasThatDifferAreAFinding) {
  const std::vector<float> whole = waves(32);
  std::vector<float> off = whole;
  off[7] = std::nextafter(off[7], 2.0F);
  const auto replica = [&](const std::vector<float>& values, int64_t tp) {
    return text(part(values, "", {.tp = tp}));
  };
  const std::string ref = line("layer_0_q", 0, whole);
  EXPECT_TRUE(compare_run(ref, {replica(whole, 0), replica(whole, 1), replica(whole, 2)}).pass);
  const Comparison found =
      compare_run(ref, {replica(whole, 0), replica(off, 1), replica(whole, 2)});
  EXPECT_FALSE(found.pass);
  ASSERT_TRUE(found.first_divergence);
  EXPECT_EQ(found.first_divergence->metric, Metric::kReplica);
  EXPECT_EQ(found.first_divergence->ranks, "tp 1");
  // Of two ranks, the one further from the reference; the first rank too.
  const Comparison first =
      compare_run(ref, {replica(off, 0), replica(whole, 1), replica(whole, 2)});
  EXPECT_EQ(first.first_divergence->ranks, "tp 0");
  // Nothing can be held to such a reference.
  const Comparison of_ref =
      compare_logs(run_of({replica(whole, 0), replica(off, 1)}), put("got.jsonl", ref), options_);
  EXPECT_EQ(of_ref.verdict, Verdict::kIncomplete);
  EXPECT_EQ(of_ref.evidence.unproven, 1);
}

// Breaks if a run without one of its ranks was judged as if it were whole.
TEST_F(RanksTest, AMissingRankIsAnError) {
  const std::vector<float> whole = waves(64);
  const std::string ref = line("layer_0_q", 0, whole);
  std::vector<std::string> ranks = cut(whole, 4);
  ranks[1] = ranks[0];
  EXPECT_NE(error_of_run(ref, ranks).find("rank tp 1 of 4 is missing"), std::string::npos);
  std::vector<std::string> fewer = cut(whole, 4);
  fewer[0] = R"({"assay":1,"ranks":{"tp":5}})"
             "\n" +
             fewer[0];
  EXPECT_NE(error_of_run(ref, fewer).find("rank tp 4 of 5 is missing"), std::string::npos);
}

// Breaks if a header that counts one kind of ranks denied those of others, or two files of a run
// could disagree on a kind.
TEST_F(RanksTest, AKindThatTheHeaderDoesNotCountIsCountedInTheRecords) {
  const std::vector<float> whole = waves(16);
  const std::string ref = line("layer_0_q", 0, whole) + line("layer_1_q", 0, whole);
  const auto run = [&](const std::string& first, const std::string& second) {
    const auto file = [&](const std::string& ranks, int64_t layer) {
      return fmt::format("{{\"assay\":1,\"ranks\":{}}}\n", ranks) +
             line(fmt::format("layer_{}_q", layer), 0, whole,
                  fmt::format(R"(,"rank":{{"pp":{}}})", layer));
    };
    return std::vector{file(first, 0), file(second, 1)};
  };
  for (const char* second : {R"({"tp":1})", R"({"pp":2})", "{}", R"({"pp":null})"}) {
    const Comparison comparison = compare_run(ref, run(R"({"tp":1})", second));
    EXPECT_TRUE(comparison.pass) << second;
    EXPECT_EQ(comparison.evidence.whole, 2);
  }
  EXPECT_NE(error_of_run(ref, run(R"({"tp":1})", R"({"pp":1})")).find("there is a rank pp 1"),
            std::string::npos);
  EXPECT_NE(error_of_run(ref, run("{}", R"({"pp":3})")).find("rank pp 2 of 3 is missing"),
            std::string::npos);
  const std::string error = error_of_run(ref, run(R"({"tp":1})", R"({"tp":2,"pp":2})"));
  EXPECT_NE(error.find("run/1.jsonl:1: the number of tp ranks is '2', but '1' in"),
            std::string::npos)
      << error;
  // That it has one rank of a kind excuses no tensor that is cut over another.
  const std::string cut_by_ep = R"({"assay":1,"ranks":{"tp":1}})"
                                "\n" +
                                text(part(piece(whole, 0, 2), "h[ep]", {.tp = 0}));
  const std::string unknown =
      error_of([&] { compare_logs(put("ref.jsonl", ref), put("cut.jsonl", cut_by_ep), options_); });
  EXPECT_NE(unknown.find("there is no rank but ep 0"), std::string::npos) << unknown;
}

// Breaks if each of many ranks were looked for among all: as many as a header may count took 27 s.
TEST_F(RanksTest, ManyRanksArePutTogether) {
  constexpr int64_t kCount = 32767;
  std::vector<float> whole(kCount);
  std::string cut;
  std::string replicas;
  for (int64_t i = 0; i < kCount; ++i) {
    whole[static_cast<size_t>(i)] = static_cast<float>(i % 17) + 0.5F;
    const std::string rank = fmt::format(R"(,"rank":{{"tp":{}}})", i);
    cut += line("layer_0_q", 0, {whole[static_cast<size_t>(i)]}, rank + R"(,"dims":"h[tp]")");
    replicas += line("layer_0_q", 0, {i == 9 ? 3.0F : 2.0F, 1}, rank);
  }
  const std::clock_t begin = std::clock();
  EXPECT_EQ(compare(line("layer_0_q", 0, whole), cut).evidence.whole, 1);
  const Comparison odd = compare(line("layer_0_q", 0, {2, 1}), replicas);
  ASSERT_TRUE(odd.first_divergence);
  EXPECT_EQ(odd.first_divergence->ranks, "tp 9");
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 8);
}

// Breaks if a misspelt kind were left out: the log would have as many ranks as are in it.
TEST_F(RanksTest, AHeaderWithAnUnknownKindOfRanksIsAnError) {
  const std::vector<float> whole(16, 1.0F);
  for (const char* kinds : {R"({"tpp":5})", R"({"tp":4,"dp":2})", R"({"TP":null})"}) {
    std::vector<std::string> ranks = cut(whole, 4);
    ranks[0] = fmt::format("{{\"assay\":1,\"ranks\":{}}}\n", kinds) + ranks[0];
    const std::string error = error_of_run(line("layer_0_q", 0, whole), ranks);
    EXPECT_NE(error.find("0.jsonl:1: 'ranks' has the unknown kind '"), std::string::npos) << error;
    EXPECT_NE(error.find("; the kinds are tp, pp, ep, sp; leave"), std::string::npos) << error;
  }
}

// Breaks if a rank that was given other tokens, all of whose replicas are wrong, were a sequence
// that nothing is compared with.
TEST_F(RanksTest, ARankWithOtherTokensIsNoSequence) {
  const std::vector<float> right = waves(16);
  const std::vector<float> wrong = waves(16, 3);
  const auto run = [&](const std::string& more, const std::string& axis) {
    const auto file = [&](const char* tokens, const std::vector<float>& values, int64_t rank) {
      const std::string head = std::string(R"({"assay":1,"tokens":)") + tokens + more + "}\n";
      return head + line("logits", 0, values, fmt::format(R"(,"rank":{{"{}":{}}})", axis, rank));
    };
    return std::vector{file("[5,6]", right, 0), file("[5,9]", wrong, 1)};
  };
  const std::string ref = R"({"assay":1,"tokens":[5,6]})"
                          "\n" +
                          line("logits", 0, right);
  for (const std::string axis : {"tp", "pp", "ep"}) {
    EXPECT_NE(error_of_run(ref, run("", axis))
                  .find("rank " + axis +
                        " 1 of 2 has nothing of the "
                        "sequence '0', which other ranks have"),
              std::string::npos);
  }
  EXPECT_NE(error_of_run(ref, run(R"(,"ranks":{"tp":2})", "tp")).find("has nothing of"),
            std::string::npos);
}

// Breaks if records without a rank, which are of the first, made it a rank that is missing.
TEST_F(RanksTest, RecordsWithoutARankAreOfTheFirst) {
  const std::string whole = line("logits", 0, waves(16));
  const std::string replica = line("logits", 0, waves(16), R"(,"rank":{"tp":1})");
  EXPECT_TRUE(compare_run(whole, {whole, replica}).pass);
  const std::string wrong = line("logits", 0, waves(16, 3), R"(,"rank":{"tp":1})");
  EXPECT_FALSE(compare_run(whole, {whole, wrong}).pass);
}

// Breaks if a record that lacks a part was compared, or its NaN lost.
TEST_F(RanksTest, ARecordThatLacksAPartIsMissing) {
  const std::vector<float> whole = waves(64);
  const std::string ref = line("layer_0_q", 0, whole) + line("layer_0_q", 1, whole);
  std::vector<std::string> ranks = cut(whole, 2);
  Record only = part("layer_0_q", 1, piece(whole, 0, 2), {32}, "h[tp]", {.tp = 0});
  ranks[0] += text(only);
  const Comparison incomplete = compare_run(ref, ranks);
  EXPECT_EQ(incomplete.verdict, Verdict::kIncomplete);
  EXPECT_EQ(incomplete.evidence.whole, 1);
  EXPECT_EQ(incomplete.evidence.unproven, 1);
  ASSERT_FALSE(incomplete.warnings.empty());
  EXPECT_NE(incomplete.warnings.front().find("lacks the part of rank tp 1"), std::string::npos);
  only.values[3] = NAN;
  ranks = cut(whole, 2);
  ranks[0] += text(only);
  EXPECT_GT(compare_run(ref, ranks).failed, 0);
}

// Breaks if the head of one rank's piece stood for the piece of a rank that says nothing.
TEST_F(RanksTest, APieceThatSaysNothingIsUnproven) {
  const std::vector<float> whole = waves(16);
  Record silent = part(piece(whole, 1, 2), "h[tp]", Rank{1});
  silent.n = 8;
  silent.values.clear();
  const std::string first = text(part(piece(whole, 0, 2), "h[tp]", Rank{0}));
  const std::string ref = line("layer_0_q", 0, whole);
  Comparison comparison = compare_run(ref, {first, text(silent)});
  EXPECT_EQ(comparison.verdict, Verdict::kIncomplete);
  EXPECT_EQ(comparison.results.at(0).reason, kSilentPart);
  EXPECT_FALSE(compare_logs(path("run"), path("ref.jsonl"), options_).pass);
  silent.values = {piece(whole, 1, 2)[0]};
  EXPECT_TRUE(compare_run(ref, {first, text(silent)}).pass) << "a head of each piece";
  Record none = part({}, "h[tp]", Rank{1});
  EXPECT_TRUE(compare_run(line("layer_0_q", 0, piece(whole, 0, 2)), {first, text(none)}).pass);
}

// Breaks if parts that cannot be those of one tensor were put together.
TEST_F(RanksTest, PartsThatDoNotFitAreErrors) {
  const std::vector<float> whole = waves(24);
  const std::string ref = line("layer_0_q", 0, whole);
  const auto error = [&](const Record& a, const Record& b) {
    return error_of_run(ref, {text(a), text(b)});
  };
  const std::vector<float> half = piece(whole, 0, 2);
  EXPECT_NE(error(part(half, "t h[tp]", {.tp = 0}), part(half, "t h[tp]", {.tp = 1}))
                .find("run/0.jsonl:1: 'dims' is 't h[tp]': it names 2 axes, but the shape is [12]"),
            std::string::npos);
  EXPECT_NE(error(part(half, "h[xp]", {.tp = 0}), part(half, "h[xp]", {.tp = 1}))
                .find("'xp' is not one of tp, pp, ep, sp"),
            std::string::npos);
  EXPECT_NE(
      error(part(half, "h[tp]", {.tp = 0}), part(half, "+[tp] h", {.tp = 1})).find("run/1.jsonl:1"),
      std::string::npos);
  const Record rows = part("layer_0_q", 0, half, {3, 4}, "x h[tp]", {.tp = 0});
  const Record others = part("layer_0_q", 0, half, {4, 3}, "x h[tp]", {.tp = 1});
  EXPECT_NE(error(rows, others).find("does not fit"), std::string::npos);
  // One rank twice, with other values.
  EXPECT_NE(
      error_of_run(ref, {text(part(half, "h[tp]", {.tp = 0})), text(part(half, "h[tp]", {.tp = 1})),
                         text(part(waves(12, 9), "h[tp]", {.tp = 1}))})
          .find("the cuts overlap"),
      std::string::npos);
  // Tokens at two of the ranks that divide them.
  EXPECT_NE(error(part("layer_0_output", 0, waves(12), {3, 4}, "t[sp] h", {.sp = 0}),
                  part("layer_0_output", 2, waves(12), {3, 4}, "t[sp] h", {.sp = 1}))
                .find("the cuts overlap"),
            std::string::npos);
}

// Breaks if rows of ranks that hold different tokens were lost or mixed up.
TEST_F(RanksTest, TokensMayBeDividedBetweenRanks) {
  std::string ref;
  for (int64_t t = 0; t < 6; ++t) ref += line("layer_0_output", t, waves(4, static_cast<int>(t)));
  const auto rows = [&](int first, Rank rank, const std::string& dims) {
    std::vector<float> values;
    for (int t = first; t < first + 3; ++t) {
      const std::vector<float> row = waves(4, t);
      const auto begin = row.begin() + 2 * rank.tp;
      values.insert(values.end(), begin, begin + (dims.ends_with("[tp]") ? 2 : 4));
    }
    const int64_t width = std::ssize(values) / 3;
    return text(part("layer_0_output", first, values, {3, width}, dims, rank));
  };
  const Comparison divided =
      compare_run(ref, {rows(0, {.sp = 0}, "t[sp] h"), rows(3, {.sp = 1}, "t[sp] h")});
  EXPECT_TRUE(divided.pass);
  EXPECT_EQ(divided.evidence.whole, 6);
  const Comparison both = compare_run(
      ref,
      {rows(0, {.tp = 0, .sp = 0}, "t[sp] h[tp]"), rows(0, {.tp = 1, .sp = 0}, "t[sp] h[tp]"),
       rows(3, {.tp = 0, .sp = 1}, "t[sp] h[tp]"), rows(3, {.tp = 1, .sp = 1}, "t[sp] h[tp]")});
  EXPECT_TRUE(both.pass);
  EXPECT_EQ(both.evidence.whole, 6);
}

// Breaks if layers, or experts, of different ranks were not one log; experts stand in the order of
// the ranks that have them.
TEST_F(RanksTest, LayersAndExpertsMayBeAtDifferentRanks) {
  const std::vector<float> router = {0, 0, 3, 0, 2, 0, 0, 0, 0, 4};
  const std::string ref = line("layer_0_output", 0, waves(8)) + line("layer_1_router", 0, router) +
                          line("layer_1_experts", 0, {9, 2, 4}) +
                          line("layer_1_expert_weights", 0, {0.5, 0.3F, 0.2F}) +
                          line("layer_1_output", 0, waves(8, 1));
  const auto experts = [&](const std::vector<float>& ids, const std::vector<float>& weights,
                           int64_t ep) {
    const auto n = std::ssize(ids);
    const Rank rank = {.pp = 1, .ep = ep};
    return text(part("layer_1_router", 0, router, {10}, "", rank)) +
           text(part("layer_1_experts", 0, ids, {n}, "e[ep]", rank)) +
           text(part("layer_1_expert_weights", 0, weights, {n}, "e[ep]", rank));
  };
  const auto ranks = [&](float weight) {
    return std::vector<std::string>{
        text(part("layer_0_output", 0, waves(8), {8}, "", {.pp = 0, .ep = 0})),
        text(part("layer_1_output", 0, waves(8, 1), {8}, "", {.pp = 1, .ep = 0})) +
            experts({2, 4}, {0.3F, 0.2F}, 0),
        experts({9}, {weight}, 1), experts({}, {}, 2)};
  };
  const Comparison comparison = compare_run(ref, ranks(0.5));
  EXPECT_TRUE(comparison.pass);
  EXPECT_EQ(comparison.compared, 5);
  EXPECT_FALSE(compare_run(ref, ranks(0.6F)).pass);
}

// Breaks if parts of experts in the order of the ranks were held to ids that each rank has whole: a
// right run would be wrong.
TEST_F(RanksTest, PartsOfExpertsNeedIdsThatAreCutAlike) {
  const std::vector<float> ids = {9, 2, 4};
  const std::string ref = line("layer_1_experts", 0, ids) +
                          line("layer_1_expert_weights", 0, {0.5, 0.3F, 0.2F}) +
                          line("layer_1_output", 0, waves(8, 1));
  const auto rank = [&](const std::vector<float>& weights, int64_t ep) {
    return text(part("layer_1_experts", 0, ids, {3}, "", {.ep = ep})) +
           text(part("layer_1_expert_weights", 0, weights, {std::ssize(weights)}, "e[ep]",
                     {.ep = ep})) +
           text(part("layer_1_output", 0, waves(8, 1), {8}, "", {.ep = ep}));
  };
  const Comparison comparison = compare_run(ref, {rank({0.3F, 0.2F}, 0), rank({0.5F}, 1)});
  EXPECT_EQ(comparison.failed, 0);
  EXPECT_EQ(comparison.evidence.whole, 2);
  EXPECT_EQ(comparison.evidence.unproven, 1);
  EXPECT_FALSE(comparison.pass);
  ASSERT_FALSE(comparison.warnings.empty());
  EXPECT_NE(comparison.warnings[0].find("cut both by ep"), std::string::npos);
}

// Breaks if parts of which only heads and sketches are logged were not held to the whole, each to
// its own elements.
TEST_F(RanksTest, SketchesOfPartsAreHeldToTheirPartOfTheWhole) {
  const std::vector<float> whole = random_values(400, 3);
  const auto ranks = [&](const std::vector<float>& values) {
    std::vector<std::string> texts;
    for (int64_t i = 0; i < 2; ++i) {
      const Record all = part(piece(values, static_cast<size_t>(i), 2), "h[tp]", {.tp = i});
      texts.push_back(text(head_of(all, 3, true, true)));
    }
    return texts;
  };
  const std::string ref = line("layer_0_q", 0, whole);
  const Comparison good = compare_run(ref, ranks(whole));
  EXPECT_TRUE(good.pass);
  EXPECT_EQ(good.evidence.whole, 1);
  std::vector<float> wrong = whole;
  for (size_t i = 300; i < 400; ++i) wrong[i] = -wrong[i];  // the summary hardly changes
  EXPECT_FALSE(compare_run(ref, ranks(wrong)).pass);
  // Two runs that are cut alike.
  for (const bool same : {true, false}) {
    std::filesystem::create_directories(path("other"));
    const std::vector<std::string> texts = ranks(same ? whole : wrong);
    for (size_t i = 0; i < texts.size(); ++i) put(fmt::format("other/{}.jsonl", i), texts[i]);
    const Comparison alike = compare_logs(run_of(ranks(whole)), path("other"), options_);
    EXPECT_EQ(alike.pass, same);
    EXPECT_EQ(alike.evidence.whole, same ? 1 : 0);
  }
}

// Breaks if a part that contradicts itself passed because the whole does not show it.
TEST_F(RanksTest, APartThatContradictsItselfFails) {
  const std::vector<float> whole = random_values(40, 4);
  Record first = part(piece(whole, 0, 2), "h[tp]", {.tp = 0});
  Record second = part(piece(whole, 1, 2), "h[tp]", {.tp = 1});
  second.sketch = compute_sketch(first.values);
  const Comparison found = compare_run(line("layer_0_q", 0, whole), {text(first), text(second)});
  EXPECT_FALSE(found.pass);
  EXPECT_EQ(found.first_divergence->metric, Metric::kContradiction);
  EXPECT_EQ(found.first_divergence->ranks, "tp 1");
}

// Breaks if files of different runs were taken for one.
TEST_F(RanksTest, HeadersOfOneRunMustAgree) {
  const std::vector<float> whole = waves(64);
  std::vector<std::string> ranks = cut(whole, 2);
  ranks[0] = R"({"assay":1,"model":{"name":"a"},"engine":"x"})"
             "\n" +
             ranks[0];
  ranks[1] = R"({"assay":1,"model":{"name":"b"},"engine":"x"})"
             "\n" +
             ranks[1];
  const std::string error = error_of_run(line("layer_0_q", 0, whole), ranks);
  EXPECT_NE(error.find("run/1.jsonl:1: the model is 'b', but 'a' in"), std::string::npos) << error;
}

// Breaks if what only a later file states was lost: another model's, or experts that were replayed.
TEST_F(RanksTest, WhatALaterHeaderAloneStatesIsOfTheRun) {
  const std::vector<float> whole = waves(66);
  const std::string ref = line("layer_0_q", 0, whole);
  const auto run_with = [&](const std::vector<std::string>& members) {
    std::vector<std::string> ranks = cut(whole, 3);
    for (size_t i = 0; i < ranks.size(); ++i) {
      ranks[i].insert(0, R"({"assay":1)" + members[i] + "}\n");
    }
    return ranks;
  };
  const std::string error =
      error_of_run(ref, run_with({"", R"(,"model":{"name":"a"})", R"(,"model":{"name":"b"})"}));
  EXPECT_NE(error.find("run/2.jsonl:1: the model is 'b', but 'a' in"), std::string::npos) << error;
  EXPECT_NE(error.find("run/1.jsonl"), std::string::npos) << error;
  run_of(run_with({"", R"(,"model":{"name":"a"})", ""}));
  EXPECT_EQ(read_log_header(path("run"))->model.name, "a");
  const Comparison found = compare_run(ref, run_with({"", R"(,"routing":"replayed")", ""}));
  EXPECT_TRUE(found.pass);
  ASSERT_EQ(found.warnings.size(), 1U);
  EXPECT_NE(found.warnings[0].find("not the engine's own choice"), std::string::npos);
}

}  // namespace
}  // namespace assay
