// What llama-perplexity --kl-divergence-base writes. The fixture is what that of llama.cpp (as
// vendored by llama_cpp_python 0.3.36) wrote of golden/tinyllama/tinyllama-f32.gguf, which adds
// BOS:
//   llama-perplexity -m tinyllama-f32.gguf -f text.txt -c 16 -b 16 --chunks 3 -t 1 -fa off
//     -ctk f32 -ctv f32 --kl-divergence-base tinyllama-f32.kld
// of the text "The quick brown fox jumps over the lazy dog. It was a bright cold day in April, and
// the clocks were striking thirteen.\n".
#include "assay/dump/base_logprobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "assay/dump/dump_files.h"
#include "assay/log/log_reader.h"
#include "tests/compare/log_files.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

const std::string kFixture = source_path("tests/data/base_logprobs/tinyllama-f32.kld");

template <class T>
void put_number(std::string& out, T number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

struct Row {
  float scale = 0;
  float least = 0;
  std::vector<uint16_t> codes;
};

// A file of these counts, tokens and rows, whatever they are.
std::string file_of(int32_t n_ctx, int32_t n_vocab, int32_t n_chunks,
                    const std::vector<int32_t>& tokens, const std::vector<Row>& rows) {
  std::string out = "_logits_";
  for (const int32_t count : {n_ctx, n_vocab, n_chunks}) put_number(out, count);
  for (const int32_t token : tokens) put_number(out, token);
  for (const Row& row : rows) {
    put_number(out, row.scale);
    put_number(out, row.least);
    for (const uint16_t code : row.codes) put_number(out, code);
  }
  return out;
}

const float kStep = std::log(2.0F) / 65535;
const float kQuarter = std::log(0.25F);
const Row kHalf{kStep, kQuarter, {0, 65535, 0, 9999}};  // of three tokens, and the padding of one
const float kWidest = 16.0F / 65535;

class BaseLogprobs : public LogFiles {
 protected:
  struct Read {
    std::optional<LogHeader> header;
    std::vector<Record> records;
    std::vector<std::string> warnings;
  };

  Read read(const std::string& file, const DumpOptions& options = {}) {
    std::string text;
    Read result;
    result.warnings =
        base_logprobs_to_log(file, options, [&](std::string_view part) { text += part; }).warnings;
    LogReader log(put("log.jsonl", text));
    while (const Record* record = log.next()) result.records.push_back(*record);
    result.header = log.header();
    return result;
  }
  // Of one chunk of four tokens: a row, of position 2, and three tokens.
  std::string one_row(const Row& row, int32_t n_vocab = 3) {
    return put("one.kld", file_of(4, n_vocab, 1, {0, 1, 2, 0}, {row}));
  }
  std::string failure(const std::string& bytes) {
    const std::string file = put("bad.kld", bytes);
    return error_of([&] { read(file); });
  }
};

// Breaks if a row were held to another position, a chunk to another's tokens, or the token that
// llama.cpp puts in the place of a chunk's first one were not.
TEST_F(BaseLogprobs, ARowIsOfThePositionThatGaveIt) {
  const Read base = read(kFixture);
  ASSERT_TRUE(base.header);
  EXPECT_EQ(base.header->engine, "llama.cpp");
  ASSERT_THAT(base.header->sequences, SizeIs(3));
  for (const LogHeader::Sequence& sequence : base.header->sequences) {
    EXPECT_THAT(sequence.tokens, SizeIs(16));
    EXPECT_EQ(sequence.tokens[0], 1);
  }
  EXPECT_EQ(base.header->sequences[1].tokens[1], 270);
  ASSERT_THAT(base.records, SizeIs(21));
  for (size_t i = 0; i < base.records.size(); ++i) {
    const Record& record = base.records[i];
    EXPECT_EQ(record.checkpoint, "logprobs");
    EXPECT_EQ(record.sequence, std::to_string(i / 7));
    EXPECT_EQ(record.token_idx, 8 + static_cast<int64_t>(i % 7)) << "the second half, but the last";
    EXPECT_EQ(record.n, 318);
  }
}

// Breaks if a code were another value, or the padding of an odd vocabulary one.
TEST_F(BaseLogprobs, ACodeIsSoManyStepsAboveTheMinimum) {
  const Read base = read(one_row(kHalf));
  EXPECT_THAT(base.warnings, IsEmpty());
  EXPECT_THAT(base.header->tokens, ElementsAre(0, 1, 2, 0));
  ASSERT_THAT(base.records, SizeIs(1));
  EXPECT_EQ(base.records[0].token_idx, 2);
  EXPECT_THAT(base.records[0].values,
              ElementsAre(kQuarter, testing::FloatNear(std::log(0.5F), 1e-6F), kQuarter));
  EXPECT_THAT(base.records[0].top, IsEmpty());
  const Row level{0, kQuarter, {0, 0, 0, 0}};
  EXPECT_THAT(read(one_row(level, 4)).records[0].values,
              ElementsAre(kQuarter, kQuarter, kQuarter, kQuarter));
}

// Breaks if what is at least 16 nats below the largest were taken for that value.
TEST_F(BaseLogprobs, AClippedCodeIsABoundAndNoValue) {
  const Read base = read(one_row({kWidest, -16.0F, {0, 65535, 1, 0}}));
  ASSERT_THAT(base.records, SizeIs(1));
  EXPECT_THAT(base.records[0].values, IsEmpty());
  ASSERT_THAT(base.records[0].top, SizeIs(2));
  EXPECT_EQ(base.records[0].top[0].index, 1);
  EXPECT_NEAR(base.records[0].top[0].value, 0, 1e-5);
  EXPECT_EQ(base.records[0].top[1].index, 2);
  EXPECT_NEAR(base.records[0].top[1].value, -16 + kWidest, 1e-5);
  EXPECT_THAT(read(one_row({kWidest, -16.0F, {1, 65535, 1, 0}})).records[0].values, SizeIs(3))
      << "none of them is clipped";
}

// Breaks if a chunk had another first token than the model was given.
TEST_F(BaseLogprobs, BosIsASpecialFirstTokenThatIsNowhereElse) {
  const std::vector<Row> rows = {kHalf, kHalf};
  const std::string twice = put("a.kld", file_of(4, 3, 2, {0, 1, 2, 1, 2, 2, 1, 1}, rows));
  const std::string again = put("b.kld", file_of(4, 3, 2, {0, 1, 2, 0, 2, 2, 1, 1}, rows));
  using Firsts = std::pair<int64_t, int64_t>;
  const auto first = [&](const std::string& file, std::optional<int64_t> bos) {
    const Read base = read(file, {.bos = bos});
    EXPECT_EQ(base.warnings.size(), bos ? 0 : 1);
    return Firsts(base.header->sequences[0].tokens[0], base.header->sequences[1].tokens[0]);
  };
  EXPECT_EQ(first(twice, {}), Firsts(0, 0));
  EXPECT_EQ(first(again, {}), Firsts(0, 2));
  EXPECT_EQ(first(twice, -1), Firsts(0, 2));
  EXPECT_EQ(first(again, 1), Firsts(1, 1));
  EXPECT_THAT(read(twice).warnings, ElementsAre(AllOf(HasSubstr("token 0"), HasSubstr("none"))));
  EXPECT_THAT(read(again).warnings, ElementsAre(HasSubstr("--bos ID")));
  std::vector<Row> wide = rows;
  for (Row& row : wide) row.codes.resize(300);
  const std::string text = file_of(4, 300, 2, {80, 1, 2, 1, 2, 2, 1, 1}, wide);
  std::vector<std::string> warnings;
  EXPECT_EQ(base_logprobs_header(put("c.kld", text), {}, warnings).sequences[1].tokens[0], 2)
      << "80 of 300 is text, though it is there only once";
  const std::string last = file_of(4, 300, 2, {299, 1, 2, 1, 2, 2, 1, 1}, wide);
  EXPECT_EQ(base_logprobs_header(put("d.kld", last), {}, warnings).sequences[1].tokens[0], 299);
  EXPECT_THAT(error_of([&] { read(again, {.bos = 3}); }),
              HasSubstr("b.kld: has a vocabulary of 3, without the token 3; give --bos"));
}

// Breaks if a cut file passed for one of fewer chunks, or were read beyond its end.
TEST_F(BaseLogprobs, ACutFileIsRejectedWhereverItEnds) {
  const std::string whole = contents(kFixture);
  for (size_t size = 8; size < whole.size(); size += size < 300 ? 1 : 97) {
    const std::string problem = failure(whole.substr(0, size));
    EXPECT_THAT(problem, StartsWith(path("bad.kld") + ": is cut off: it has ")) << size;
  }
  EXPECT_THAT(failure(whole + "x"), HasSubstr("has 1 bytes beyond the 13736"));
}

// Breaks if a header made the program allocate, overflow or read what is not there.
TEST_F(BaseLogprobs, CountsAreHeldToTheFile) {
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  const std::vector<int32_t> tokens = {0, 1, 2, 0};
  const auto of = [&](int32_t n_ctx, int32_t n_vocab, int32_t n_chunks) {
    return failure(file_of(n_ctx, n_vocab, n_chunks, tokens, {kHalf}));
  };
  EXPECT_EQ(of(4, 3, 1), "no error");
  for (const int32_t count : {0, -1, std::numeric_limits<int32_t>::min()}) {
    EXPECT_THAT(of(count, 3, 1), HasSubstr("its header says 1 chunks of")) << count;
    EXPECT_THAT(of(4, count, 1), HasSubstr("and a vocabulary of")) << count;
    EXPECT_THAT(of(4, 3, count), HasSubstr("its header says")) << count;
  }
  EXPECT_THAT(of(2, 3, 1), HasSubstr("its header says 1 chunks of 2 tokens")) << "has no row";
  EXPECT_THAT(of(4, kMost, 1), HasSubstr("has a vocabulary of 2147483647"));
  EXPECT_THAT(of(4, 8'000'000, kMost), HasSubstr("is cut off"));
  EXPECT_THAT(of(kMost, 8'000'000, kMost), HasSubstr("more than any file"));
  EXPECT_THAT(of(kMost, 3, 1), HasSubstr("is cut off"));
  EXPECT_THAT(of(4, 3, 2), HasSubstr("is cut off"));
  EXPECT_THAT(of(4, 6, 1), HasSubstr("is cut off"));
  EXPECT_THAT(of(4, 2, 1), HasSubstr("beyond"));
}

// Breaks if numbers that are no log-probabilities became a log.
TEST_F(BaseLogprobs, WhatIsNoLogProbabilityIsRejected) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto row = [&](const Row& given) { return failure(contents(one_row(given))); };
  for (const float scale : {kNaN, kInfinity, -1.0F}) {
    EXPECT_THAT(row({scale, kQuarter, kHalf.codes}),
                HasSubstr("the row of chunk 0 at position 2 has the scale"));
  }
  for (const float least : {kNaN, kInfinity, -kInfinity}) {
    EXPECT_THAT(row({kStep, least, kHalf.codes}), HasSubstr("and the minimum"));
  }
  EXPECT_THAT(row({kStep, 0, kHalf.codes}), HasSubstr("has probabilities that add up to 4"));
  EXPECT_THAT(row({kStep, -5, kHalf.codes}), HasSubstr("add up to 0.02695"));
  EXPECT_THAT(row({1e30F, kQuarter, kHalf.codes}), HasSubstr("add up to inf"));
  EXPECT_THAT(failure(file_of(4, 3, 1, {0, 1, 3, 0}, {kHalf})),
              HasSubstr("has the token 3 in chunk 0 at position 2, and a vocabulary of 3"));
  EXPECT_THAT(failure(file_of(4, 3, 1, {0, -1, 2, 0}, {kHalf})), HasSubstr("has the token -1"));
}

// Breaks if a log or another dump were taken for one, or one with another name not.
TEST_F(BaseLogprobs, IsKnownByItsFirstBytes) {
  EXPECT_TRUE(is_dump(kFixture));
  EXPECT_TRUE(is_base_logprobs(put("any.name", "_logits_")));
  EXPECT_FALSE(is_base_logprobs(put("short", "_logits")));
  EXPECT_FALSE(is_base_logprobs(path("missing")));
  EXPECT_FALSE(is_base_logprobs(folder_));
  const DumpOptions bos{.bos = 1};
  const std::string log = put("log.jsonl", "{}\n");
  EXPECT_THAT(error_of([&] { dump_to_log(log, bos, [](std::string_view) {}); }),
              HasSubstr("leave out --bos"));
  EXPECT_THAT(error_of([&] { read(kFixture, {.skip = {"x"}}); }), HasSubstr("--skip"));
}

}  // namespace
}  // namespace assay
