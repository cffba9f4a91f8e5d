#include "assay/compare/forensics.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "assay/compare/analysis.h"
#include "assay/log/log_reader.h"
#include "tests/compare/log_files.h"
#include "tests/support/paths.h"
#include "tests/support/python.h"

namespace assay {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ForensicsTest : public LogFiles {
 protected:
  static std::vector<SuspicionKind> kinds(const Analysis& analysis) {
    std::vector<SuspicionKind> all;
    for (const Suspicion& suspicion : analysis.suspicions) all.push_back(suspicion.kind);
    return all;
  }
  static std::vector<float> normal_values(size_t n, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 3);
    std::vector<float> values(n);
    for (float& value : values) value = normal(random);
    return values;
  }
  static std::map<int64_t, std::vector<float>> records_of(const std::string& path) {
    std::map<int64_t, std::vector<float>> records;
    LogReader log(path);
    while (const Record* record = log.next()) records[record->token_idx] = record->values;
    return records;
  }
};

// Real freed memory, each run at other addresses. `n`: values a record; `exact`: all their digits.
class FaultyLogger : public ForensicsTest,
                     public testing::WithParamInterface<std::tuple<int, bool>> {};

// Breaks if a value were called garbage that is the engine's own, or if a record that the allocator
// wrote into went unnoticed.
TEST_P(FaultyLogger, FindsItsWordsAndNothingElse) {
  const auto [n, exact] = GetParam();
  const std::string log = folder_ + "/faulty.jsonl";
  const std::string truth = folder_ + "/truth.jsonl";
  int damaged_records = 0;
  int noticed_records = 0;
  int listed_values = 0;
  int misnamed_values = 0;
  for (int run = 0; run < 20; ++run) {
    ASSERT_EQ(run_program({program_path("faulty_logger"), log, truth, "14", std::to_string(n),
                           exact ? "exact" : "fixed", std::to_string(run)})
                  .first,
              0);
    const auto wrong = records_of(log);
    const auto right = records_of(truth);
    ASSERT_EQ(wrong.size(), 14U);
    const Analysis analysis = analyze_log(log);
    std::set<int64_t> noticed;
    for (const ListedGarbage& listed : analysis.garbage) {
      noticed.insert(listed.token_idx);
      const auto index = static_cast<size_t>(listed.garbage.index);
      EXPECT_NE(wrong.at(listed.token_idx)[index], right.at(listed.token_idx)[index])
          << "run " << run << ", token " << listed.token_idx << ", index " << index;
      ++listed_values;
      misnamed_values += listed.garbage.reason == GarbageReason::kHeapMetadata ? 0 : 1;
    }
    for (const Suspicion& suspicion : analysis.suspicions) noticed.insert(suspicion.token_idx);
    for (const auto& [token, values] : wrong) {
      if (values == right.at(token)) continue;
      ++damaged_records;
      noticed_records += noticed.contains(token) ? 1 : 0;
    }
    EXPECT_EQ(analyze_log(truth).garbage_values, 0);
    EXPECT_THAT(analyze_log(truth).suspicions, IsEmpty());
  }
  EXPECT_GE(damaged_records, 20 * 13) << "the allocator should write into each block";
  RecordProperty("noticed", noticed_records);
  RecordProperty("damaged", damaged_records);
  EXPECT_GE(noticed_records, damaged_records * 95 / 100);
  EXPECT_LE(misnamed_values, listed_values / 100) << "of " << listed_values;
}

INSTANTIATE_TEST_SUITE_P(Sizes, FaultyLogger,
                         testing::Combine(testing::Values(10, 14, 16, 24), testing::Bool()));

TEST_F(ForensicsTest, DeadUnitsAreNoPointers) {
  std::string log;
  for (int token = 0; token < 100; ++token) {
    std::vector<float> values = normal_values(64, static_cast<unsigned>(token));
    values[1] = 0;
    log += line("layer_3_ffn_norm", token, values);
  }
  const Analysis analysis = analyze_log(put("a.jsonl", log));
  EXPECT_EQ(analysis.garbage_values, 0);
  EXPECT_THAT(analysis.suspicions, IsEmpty());
}

// Breaks if a token whose stored embedding has a zero there were garbage where it comes again.
TEST_F(ForensicsTest, RecordsOfEqualTokensAreNoPointersOfOneHeap) {
  std::vector<float> again = normal_values(64, 1000);
  again[1] = 0;
  std::string log;
  for (int token = 0; token < 60; ++token) {
    log += line("embedding", token,
                token % 17 == 13 ? again : normal_values(64, static_cast<unsigned>(token)));
  }
  const Analysis analysis = analyze_log(put("a.jsonl", log));
  EXPECT_EQ(analysis.garbage_values, 0);
  EXPECT_THAT(analysis.suspicions, IsEmpty());
}

TEST_F(ForensicsTest, TensorsOfManyZerosOrDenormalsHaveNoPointers) {
  std::string log;
  for (int token = 0; token < 40; ++token) {
    std::vector<float> relu = normal_values(64, static_cast<unsigned>(token));
    for (float& value : relu) value = std::max(value, 0.0F);
    log += line("layer_0_ffn_act", token, relu);
    std::vector<float> weights = normal_values(64, static_cast<unsigned>(token));
    for (size_t i = 1; i < weights.size(); i += 7) weights[i] = 3e-41F;
    log += line("layer_0_softmax", token, weights);
  }
  const Analysis analysis = analyze_log(put("a.jsonl", log));
  EXPECT_EQ(analysis.garbage_values, 0);
  EXPECT_THAT(analysis.suspicions, IsEmpty());
}

TEST_F(ForensicsTest, FindsRepeatsUnlessTheTokenIsTheSame) {
  const std::vector<float> a = normal_values(16, 1);
  const std::vector<float> b = normal_values(16, 2);
  const std::string header = "{\"assay\":1,\"tokens\":[5,6,5]}\n";
  // The same token gives the same layer, as far as is known; another one does not.
  const Analysis analysis = analyze_log(
      put("a.jsonl", header + line("layer_1_output", 0, a) + line("layer_1_output", 1, a) +
                         line("layer_1_output", 2, a) + line("layer_1_output", 3, b)));
  ASSERT_THAT(kinds(analysis), ElementsAre(SuspicionKind::kRepeat));
  EXPECT_EQ(analysis.suspicions[0].token_idx, 1);
  EXPECT_EQ(analysis.suspicions[0].of_token_idx, 0);
  // Embeddings of a generated token may repeat; outputs of layers may not.
  EXPECT_THAT(
      analyze_log(put("b.jsonl", line("embedding", 0, a) + line("embedding", 9, a))).suspicions,
      IsEmpty());
  EXPECT_THAT(kinds(analyze_log(put("c.jsonl", line("logits", 0, a) + line("logits", 9, a)))),
              ElementsAre(SuspicionKind::kRepeat));
  // The same of names of other tools.
  for (const std::string name : {"model.embed_tokens", "model.layers.0.input_layernorm"}) {
    EXPECT_THAT(analyze_log(put("f.jsonl", line(name, 4, a) + line(name, 5, a))).suspicions,
                IsEmpty());
  }
  EXPECT_THAT(kinds(analyze_log(
                  put("g.jsonl", line("model.layers.10", 4, a) + line("model.layers.10", 5, a)))),
              ElementsAre(SuspicionKind::kRepeat));
  // One layer's buffer in the place of another's; but rotation by nothing gives what it is given.
  EXPECT_THAT(kinds(analyze_log(
                  put("d.jsonl", line("layer_3_output", 4, a) + line("layer_4_output", 4, a)))),
              ElementsAre(SuspicionKind::kRepeat));
  EXPECT_THAT(analyze_log(put("e.jsonl", line("layer_3_q", 0, a) + line("layer_3_q_rope", 0, a)))
                  .suspicions,
              IsEmpty());
}

// Breaks if one token again and again, a prompt's or the model's own, were called a stale buffer.
TEST_F(ForensicsTest, OneTokenAgainAndAgainRepeatsEachLayer) {
  const std::vector<float> layer = normal_values(16, 1);
  const auto of = [&](const char* arch, int chosen) {
    std::string log = fmt::format(R"({{"assay":1,"model":{{"name":"m","sha256":"","arch":"{}",)"
                                  R"("type":"F32"}},"tokens":[5]}})",
                                  arch) +
                      "\n";
    for (int token = 0; token < 3; ++token) {
      log += line("layer_1_output", token, layer);
      log +=
          fmt::format(R"({{"checkpoint":"logits","token_idx":{},"dtype":"f32","shape":[1,96],)"
                      R"("values":[],"summary":{{"min":-1,"max":2,"mean":0.1,"l2":3,"argmax":{},)"
                      R"("nonfinite":0}}}})",
                      token, chosen) +
          "\n";
    }
    return kinds(analyze_log(put("a.jsonl", log)));
  };
  const auto repeats = ElementsAre(SuspicionKind::kRepeat, SuspicionKind::kRepeat);
  EXPECT_THAT(of("qwen2", 5), IsEmpty());
  EXPECT_THAT(of("qwen2", 6), repeats);
  EXPECT_THAT(of("gpt2", 5), repeats);  // each position adds a row of its own
}

// Breaks if generated tokens that are equal were accused where nothing but the token counts; the
// header says which network that is.
TEST_F(ForensicsTest, RepeatsOfEqualTokensFollowTheNetwork) {
  const std::vector<float> a = normal_values(16, 1);
  const auto repeats = [&](const char* arch, const std::string& name) {
    const std::string header =
        *arch == 0 ? std::string()
                   : fmt::format("{{\"assay\":1,\"model\":{{\"arch\":\"{}\"}}}}\n", arch);
    const std::string log = header + line(name, 23, a) + line(name, 24, a);
    return !analyze_log(put("a.jsonl", log)).suspicions.empty();
  };
  for (const char* arch : {"", "qwen3", "an-unknown-one"}) {
    for (const char* name : {"embedding", "layer_0_attn_norm", "layer_0_q", "layer_0_k",
                             "layer_0_v", "layer_0_q_norm", "layer_0_k_norm"}) {
      EXPECT_FALSE(repeats(arch, name)) << arch << " " << name;
    }
    for (const char* name : {"layer_0_q_rope", "layer_0_attn", "layer_0_ffn_norm", "layer_1_q_norm",
                             "layer_0_ffn_out", "final_norm", "logits"}) {
      EXPECT_TRUE(repeats(arch, name)) << arch << " " << name;
    }
  }
  EXPECT_FALSE(repeats("falcon", "layer_0_ffn_out"));
  EXPECT_FALSE(repeats("gemma4", "layer_1_ple_input")) << "each layer has an embedding of its own";
  EXPECT_TRUE(repeats("gemma4", "layer_1_ple_gate"));
  EXPECT_FALSE(repeats("qwen35", "layer_0_linear_conv")) << "of four equal tokens";
  EXPECT_TRUE(repeats("qwen35", "layer_1_linear_conv"));
  EXPECT_TRUE(repeats("gpt2", "embedding")) << "of two positions";
}

// Breaks if an engine that counts tokens from 1 were accused at its first, where the rotation is by
// nothing; a later one, and other checkpoints, are reported.
TEST_F(ForensicsTest, AcceptsPositionsCountedFromOne) {
  const std::vector<float> a = normal_values(100, 1);
  const std::vector<float> b = normal_values(100, 2);
  const std::vector<float> c = normal_values(100, 3);
  const std::string first = line("layer_3_q", 1, a) + line("layer_3_k", 1, b) +
                            line("layer_3_v", 1, c) + line("layer_3_q_rope", 1, a) +
                            line("layer_3_k_rope", 1, b) + line("layer_3_attn", 1, c);
  EXPECT_THAT(analyze_log(put("a.jsonl", first)).suspicions, IsEmpty());
  const std::vector<float> d = normal_values(100, 4);
  const Analysis later =
      analyze_log(put("b.jsonl", first + line("layer_3_q", 2, d) + line("layer_3_q_rope", 2, d)));
  ASSERT_THAT(kinds(later), ElementsAre(SuspicionKind::kRepeat));
  EXPECT_EQ(later.suspicions[0].token_idx, 2);
  EXPECT_THAT(kinds(analyze_log(put("c.jsonl", first + line("layer_4_q_rope", 1, a)))),
              ElementsAre(SuspicionKind::kRepeat));
  // A log that begins later is no such engine's.
  EXPECT_THAT(
      kinds(analyze_log(put("d.jsonl", line("layer_3_q", 2, d) + line("layer_3_q_rope", 2, d)))),
      ElementsAre(SuspicionKind::kRepeat));
}

// Breaks if heads of ten values were accused of what their step leaves as it was: the dimensions
// that are not rotated, and the value of the one token that is attended to.
TEST_F(ForensicsTest, AcceptsHeadsThatAStepLeavesAsTheyWere) {
  const std::vector<float> a = normal_values(10, 1);
  const std::string head = R"(,"n":100)";
  const auto kinds_of = [&](const std::string& input, int64_t token_idx, const std::string& output,
                            const std::string& more) {
    return kinds(analyze_log(put("a", line(input, token_idx, a, more) + line(output, 5, a, more))));
  };
  EXPECT_THAT(kinds_of("layer_3_q", 5, "layer_3_q_rope", head), IsEmpty());
  EXPECT_THAT(kinds_of("layer_3_kv_b", 5, "layer_3_k_rope", head), IsEmpty());
  EXPECT_THAT(kinds_of("layer_3_v", 2, "layer_3_attn", head), IsEmpty());
  EXPECT_THAT(kinds_of("layer_3_q_and_gate", 5, "layer_3_q", head), IsEmpty());
  const auto repeat = ElementsAre(SuspicionKind::kRepeat);
  EXPECT_THAT(kinds_of("layer_3_v", 2, "layer_3_attn", ""), repeat);
  EXPECT_THAT(kinds_of("layer_3_q", 2, "layer_3_q_rope", head), repeat);
  EXPECT_THAT(kinds_of("layer_2_q", 5, "layer_3_q_rope", head), repeat);
  EXPECT_THAT(kinds_of("layer_3_attn_out", 5, "layer_3_ffn_out", head), repeat);
}

// Breaks if zeros were called odd where no other record says what is usual.
TEST_F(ForensicsTest, ZerosAreOddBesideOtherRecordsAlone) {
  std::vector<float> zeros = normal_values(10, 1);
  zeros[0] = zeros[1] = 0;
  std::string log = line("layer_3_k", 0, zeros);
  EXPECT_THAT(kinds(analyze_log(put("a", log))), IsEmpty());
  for (unsigned i = 1; i < 3; ++i) log += line("layer_3_k", i, normal_values(10, i + 1));
  EXPECT_THAT(kinds(analyze_log(put("a", log))), ElementsAre(SuspicionKind::kNullWords));
}

// Breaks if a row of a quantised table were taken for freed memory, or one of floats were not.
TEST_F(ForensicsTest, RowsOfQuantisedTablesMayBeginWithZeros) {
  std::vector<float> zeros = normal_values(10, 1);
  zeros[0] = zeros[1] = 0;
  const auto kinds_of = [&](const std::string& type, const std::string& checkpoint) {
    std::string log = "{\"assay\":1,\"model\":{\"type\":\"" + type + "\"}}\n";
    for (unsigned i = 0; i < 3; ++i) {
      log += line(checkpoint, i, i == 1 ? zeros : normal_values(10, i + 2));
    }
    return kinds(analyze_log(put("a", log)));
  };
  for (const char* type : {"Q8_0", "IQ4_XS", "MXFP4"}) {
    EXPECT_THAT(kinds_of(type, "embedding"), IsEmpty()) << type;
  }
  EXPECT_THAT(kinds_of("Q8_0", "layer_0_output"), ElementsAre(SuspicionKind::kNullWords));
  for (const char* type : {"F32", "bf16", "float32", ""}) {
    EXPECT_THAT(kinds_of(type, "embedding"), ElementsAre(SuspicionKind::kNullWords)) << type;
  }
}

// Breaks if the last rows of a product, which nothing computed, passed as values; or if zeros of a
// sparse activation, rows beyond the vocabulary or a short run did not.
TEST_F(ForensicsTest, FindsLongRunsOfOneValue) {
  const auto kinds_with = [&](const std::string& checkpoint, size_t begin, size_t end,
                              float value) {
    std::vector<float> values = normal_values(200, 1);
    std::fill(values.begin() + std::ptrdiff_t(begin), values.begin() + std::ptrdiff_t(end), value);
    return kinds(analyze_log(put("a", line(checkpoint, 5, values))));
  };
  const auto flat = ElementsAre(SuspicionKind::kFlat);
  EXPECT_THAT(kinds_with("logits", 128, 200, 0), flat);
  EXPECT_THAT(kinds_with("logits", 192, 200, 0), IsEmpty());
  EXPECT_THAT(kinds_with("logits", 180, 190, 0.5F), flat);
  EXPECT_THAT(kinds_with("layer_3_ffn_out", 192, 200, 0), flat);
  EXPECT_THAT(kinds_with("layer_3_ffn_out", 100, 164, 0.25F), flat);
  EXPECT_THAT(kinds_with("layer_3_ffn_out", 100, 107, 0), IsEmpty());
  std::vector<float> sparse = normal_values(4096, 1);
  for (float& value : sparse) value = std::max(value, 0.0F);
  EXPECT_THAT(kinds(analyze_log(put("a", line("layer_3_ffn_act", 5, sparse)))), IsEmpty());
  std::fill(sparse.begin() + 512, sparse.begin() + 640, 0.0F);
  EXPECT_THAT(kinds(analyze_log(put("a", line("layer_3_ffn_act", 5, sparse)))), flat);
}

TEST_F(ForensicsTest, FindsPartlyWrittenBuffers) {
  const std::vector<float> before = normal_values(100, 1);
  std::vector<float> after = normal_values(100, 2);
  std::copy(before.begin() + 60, before.end(), after.begin() + 60);
  const Analysis analysis =
      analyze_log(put("a.jsonl", line("logits", 0, before) + line("logits", 1, after)));
  ASSERT_THAT(kinds(analysis), ElementsAre(SuspicionKind::kStale));
  EXPECT_EQ(analysis.suspicions[0].index, 60);
  EXPECT_EQ(analysis.suspicions[0].count, 40);
}

// Breaks if the rest of heads that are rotated in part, which equal tokens share in the first
// layer, were called a buffer that was written in part.
TEST_F(ForensicsTest, UnrotatedRestOfEqualTokensIsNoStaleBuffer) {
  const std::vector<float> before = normal_values(100, 1);
  std::vector<float> after = normal_values(100, 2);
  std::copy(before.begin() + 60, before.end(), after.begin() + 60);
  const auto kinds_of = [&](const std::string& checkpoint, const std::string& header) {
    const std::string records = line(checkpoint, 2, before) + line(checkpoint, 3, after);
    return kinds(analyze_log(put("a.jsonl", header + records)));
  };
  const std::string equal = R"({"assay":1,"model":{"arch":"gptneox"},"tokens":[1,5,9,9]})"
                            "\n";
  const std::string unlike = R"({"assay":1,"model":{"arch":"gptneox"},"tokens":[1,5,9,8]})"
                             "\n";
  const std::string learned = R"({"assay":1,"model":{"arch":"gpt2"},"tokens":[1,5,9,9]})"
                              "\n";
  for (const std::string checkpoint : {"layer_0_q_rope", "layer_0_k_rope"}) {
    EXPECT_THAT(kinds_of(checkpoint, equal), IsEmpty());
    EXPECT_THAT(kinds_of(checkpoint, ""), IsEmpty()) << "tokens that the model generated";
    EXPECT_THAT(kinds_of(checkpoint, unlike), ElementsAre(SuspicionKind::kStale));
    EXPECT_THAT(kinds_of(checkpoint, learned), ElementsAre(SuspicionKind::kStale));
  }
  EXPECT_THAT(kinds_of("layer_1_q_rope", equal), ElementsAre(SuspicionKind::kStale));
  EXPECT_THAT(kinds_of("layer_0_delta", ""), IsEmpty()) << "a state that no longer changes";
  EXPECT_THAT(kinds_of("layer_0_delta", unlike), ElementsAre(SuspicionKind::kStale));
  const auto of_heads = [&](const std::string& checkpoint) {  // of 200 elements each
    const std::string more = R"(,"n":200)";
    const std::string records =
        line(checkpoint, 2, before, more) + line(checkpoint, 9, before, more);
    return kinds(analyze_log(put("a.jsonl", equal + records)));
  };
  EXPECT_THAT(of_heads("layer_0_k_rope"), IsEmpty());
  EXPECT_THAT(of_heads("layer_1_k_rope"), ElementsAre(SuspicionKind::kRepeat));
  EXPECT_THAT(kinds_of("layer_0_attn", equal), IsEmpty()) << "heads that look at one position";
  std::copy(before.begin() + 40, before.end(), after.begin() + 40);
  EXPECT_THAT(kinds_of("layer_0_attn", equal), ElementsAre(SuspicionKind::kStale));
}

// Breaks if a log whose own numbers are not of one tensor were called in order.
TEST_F(ForensicsTest, FindsRecordsThatContradictThemselves) {
  const std::string head = R"({"checkpoint":"embedding","token_idx":0,"dtype":"f32","shape":[4],)";
  const auto kinds = [&](const std::string& rest) {
    std::vector<SuspicionKind> all;
    for (const Suspicion& one : analyze_log(put("a.jsonl", head + rest + "}\n")).suspicions) {
      all.push_back(one.kind);
    }
    return all;
  };
  const std::string summary = R"(,"summary":{"min":1,"max":4,"mean":2.5,"l2":5.4772256,"argmax":3,)"
                              R"("top":[[3,4],[2,3],[1,2],[0,1]],"nonfinite":0})";
  EXPECT_THAT(kinds(R"("values":[1,2,3,4])" + summary), IsEmpty());
  EXPECT_THAT(kinds(R"("values":[1,2,3,9])" + summary),
              testing::ElementsAre(SuspicionKind::kContradiction));
  // Garbage says nothing of the tensor.
  EXPECT_THAT(kinds(R"("values":[1,2,3,"NaN"])" + summary), IsEmpty());
}

// Breaks if a log that has two values for one record were called in order.
TEST_F(ForensicsTest, FindsRecordsThatAreThereTwiceWithOtherValues) {
  const std::string first = line("layer_0_q", 0, {1, 2, 3});
  const std::string other = line("layer_0_q", 0, {1, 2, 4});
  const auto kinds_of = [&](const std::string& log) { return kinds(analyze_log(put("a", log))); };
  EXPECT_THAT(kinds_of(first + other + other),
              ElementsAre(SuspicionKind::kConflict, SuspicionKind::kConflict));
  EXPECT_THAT(kinds_of(first + first), IsEmpty());
  EXPECT_THAT(kinds_of(first + line("layer_0_q", 0, {1, 2, 4}, R"(,"sequence":1)")), IsEmpty());
  const std::string piece = R"(,"rank":{"tp":1},"dims":"h[tp]")";
  EXPECT_THAT(kinds_of(first + line("layer_0_q", 0, {1, 2, 4}, piece)), IsEmpty());
  EXPECT_THAT(kinds_of(first + line("layer_0_q", 0, {1, 2, 4}, R"(,"rank":{"tp":1})")),
              ElementsAre(SuspicionKind::kReplica));
  EXPECT_THAT(kinds_of(line("module", 0, {1, 2, 3}) + line("module", 0, {1, 2, 4})), IsEmpty());
}

// What would break: a log of names alone, whose logger copied nothing, that looks clean.
TEST_F(ForensicsTest, ReportsRecordsThatSayNothing) {
  const auto kinds_of = [&](const std::string& more) {
    const std::string record =
        R"({"checkpoint":"layer_0_q","token_idx":0,"dtype":"f32","shape":[4],"values":[])";
    return kinds(analyze_log(put("a", record + more + "}\n")));
  };
  EXPECT_THAT(kinds_of(""), ElementsAre(SuspicionKind::kEmpty));
  EXPECT_THAT(kinds_of(R"(,"summary":{"l2":1})"), IsEmpty());
  EXPECT_THAT(kinds_of(R"(,"top":[[1,-1]])"), IsEmpty());
}

TEST_F(ForensicsTest, ReportsConstantsAndZeros) {
  const Analysis analysis =
      analyze_log(put("a.jsonl", line("q", 0, {0, 0, 0, 0}) + line("k", 0, {2, 2, 2, 2}) +
                                     line("v", 0, {1, 2, 3, 4}) + line("scalar", 0, {7})));
  EXPECT_THAT(kinds(analysis),
              testing::UnorderedElementsAre(SuspicionKind::kAllZero, SuspicionKind::kConstant));
}

// Breaks if zeros of both signs passed in a head of ten values, or if weights of 1, which experts
// may have, did not.
TEST_F(ForensicsTest, ZerosHaveEitherSign) {
  std::vector<float> zeros(10);
  zeros[3] = zeros[7] = -0.0F;
  EXPECT_THAT(kinds(analyze_log(put("a", line("layer_3_v", 0, zeros, R"(,"n":100)")))),
              ElementsAre(SuspicionKind::kAllZero));
  EXPECT_THAT(kinds(analyze_log(put("a", line("layer_3_expert_weights", 0, {1, 1})))), IsEmpty());
  EXPECT_THAT(kinds(analyze_log(put("a", line("layer_3_expert_weights", 0, {0.5F, 0.5F})))),
              ElementsAre(SuspicionKind::kConstant));
}

TEST_F(ForensicsTest, TokensMayChooseTheSameExperts) {
  const std::string log =
      line("layer_3_experts", 4, {5, 2, 7, 0}) + line("layer_3_experts", 5, {5, 2, 7, 0});
  EXPECT_THAT(kinds(analyze_log(put("a", log))), IsEmpty());
}

// Breaks if a log of sketches alone could repeat records, or hold nothing but zeros, unseen.
TEST_F(ForensicsTest, SketchesShowRepeatsAndZeros) {
  const auto sketched = [](const std::string& name, int64_t token_idx, double sum) {
    std::string sums = fmt::format("{}", sum);
    for (int i = 1; i < 64; ++i) sums += fmt::format(",{}", sum * i);
    return fmt::format(R"({{"checkpoint":"{}","token_idx":{},"dtype":"f32","shape":[100],)"
                       R"("values":[],"sketch":[{}]}})"
                       "\n",
                       name, token_idx, sums);
  };
  const auto kinds_of = [&](const std::string& log) { return kinds(analyze_log(put("a", log))); };
  const std::string first = sketched("layer_3_q", 4, 1.5);
  EXPECT_THAT(kinds_of(first + sketched("layer_3_q", 5, 1.25)), IsEmpty());
  EXPECT_THAT(kinds_of(first + sketched("layer_3_q", 5, 1.5)), ElementsAre(SuspicionKind::kRepeat));
  EXPECT_THAT(kinds_of(first + sketched("layer_3_q_rope", 4, 1.5)),
              ElementsAre(SuspicionKind::kRepeat));
  EXPECT_THAT(kinds_of(first + sketched("layer_3_q", 5, 0)), ElementsAre(SuspicionKind::kAllZero));
}

// A module of another tool's log gives what its last part does.
TEST_F(ForensicsTest, ATensorUnderTwoNamesOfModulesIsNoStaleBuffer) {
  const std::vector<float> values = normal_values(16, 3);
  const auto of = [&](const std::string& name) { return line(name, 2, values); };
  EXPECT_THAT(kinds(analyze_log(put("a.jsonl", of("model.layers.0.self_attn.o_proj") +
                                                   of("model.layers.0.self_attn")))),
              IsEmpty());
  EXPECT_THAT(kinds(analyze_log(put("b.jsonl", of("layer_0_q") + of("layer_0_k")))),
              ElementsAre(SuspicionKind::kRepeat));
}

// Breaks if numbers that were rounded when they were written pass for what an engine computes.
TEST_F(ForensicsTest, WholeNumbersAreNoResults) {
  const auto found = [&](const std::string& checkpoint, const std::vector<float>& values) {
    const std::string path = folder_ + "/log.jsonl";
    std::ofstream(path) << line(checkpoint, 0, values)
                        << line("embedding", 0, normal_values(64, 2));
    return kinds(analyze_log(path));
  };
  std::vector<float> values = normal_values(64, 1);
  for (float& value : values) value = std::round(10 * value);
  EXPECT_THAT(found("layer_0_q", values), ElementsAre(SuspicionKind::kWhole));
  EXPECT_THAT(found("my_quantised_q", values), IsEmpty());
  EXPECT_THAT(found("layer_0_experts", {3, 17, 90, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}),
              IsEmpty());
  values[5] += 0.5F;
  EXPECT_THAT(found("layer_0_q", values), IsEmpty());
}

}  // namespace
}  // namespace assay
