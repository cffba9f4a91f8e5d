// What an engine keeps of keys and values, and which of them a token after the prompt reads, where
// the kernels here know nothing of the catalogue's own edits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "kernels/half.h"
#include "tests/causes/faulty_logs.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr size_t kPrompt = 8;

// Reads a copy of the cache.
class EditedCache : public WrongKernels {
 public:
  // The slots that a query reads, its newest last; all up to its own where empty.
  std::function<std::vector<int64_t>(int64_t query)> slots = {};
  // What the cache makes of a position's [heads, head_dim].
  std::function<void(std::span<float> row, size_t head_dim)> round = {};
  bool of_keys = true;
  bool of_values = true;

 protected:
  void attention(AttentionCall call) override {
    const AttentionShape& shape = call.shape;
    for (int64_t t = 0; t < call.n_tokens; ++t) {
      const int64_t query = call.first_position + t;
      std::vector<int64_t> read(static_cast<size_t>(query + 1));
      std::iota(read.begin(), read.end(), int64_t{0});
      if (slots) read = slots(query);
      const auto keys = copy(call.kv.k, read, shape, of_keys);
      const auto values = copy(call.kv.v, read, shape, of_values);
      AttentionCall one = call;
      one.kv = {KvType::kF32, keys.data(), values.data()};
      one.q += t * shape.n_heads * shape.head_dim;
      one.out += t * shape.n_heads * shape.head_dim;
      one.n_tokens = 1;
      one.first_position = std::ssize(read) - 1;
      right_->run(one);
    }
  }

 private:
  std::vector<float> copy(const void* all, const std::vector<int64_t>& read,
                          const AttentionShape& shape, bool is_rounded) const {
    const int64_t width = shape.n_kv_heads * shape.head_dim;
    std::vector<float> rows;
    for (const int64_t slot : read) {
      const float* row = static_cast<const float*>(all) + slot * width;
      rows.insert(rows.end(), row, row + width);
      if (round && is_rounded) {
        round(std::span(rows).last(static_cast<size_t>(width)),
              static_cast<size_t>(shape.head_dim));
      }
    }
    return rows;
  }
};

// The nearest of all numbers of an 8-bit float, ties to the one with the even code.
float nearest_fp8(float x, int mantissa_bits, int bias, int n_codes) {
  float best = 0;
  float distance = std::numeric_limits<float>::infinity();
  bool is_even = true;
  for (int code = 0; code < n_codes; ++code) {
    const int mantissa = code & ((1 << mantissa_bits) - 1);
    const int exponent = code >> mantissa_bits;
    const auto value =
        static_cast<float>(std::ldexp((exponent > 0 ? 1 << mantissa_bits : 0) + mantissa,
                                      std::max(exponent, 1) - bias - mantissa_bits));
    const float d = std::abs(std::abs(x) - value);
    if (d < distance || (d == distance && !is_even)) {
      best = value;
      distance = d;
      is_even = code % 2 == 0;
    }
  }
  return std::copysign(best, x);
}

// Whole numbers of 8 bits, `count` with a scale.
void round_to_int8(std::span<float> row, size_t count, bool f16_scale) {
  for (size_t first = 0; first < row.size(); first += count) {
    const auto part = row.subspan(first, count);
    float most = 0;
    for (const float x : part) most = std::max(most, std::abs(x));
    const float scale = most / 127;
    const float kept = f16_scale ? float_from_f16(f16_from_float(scale)) : scale;
    for (float& x : part) x = std::round(x / scale) * kept;
  }
}

class CausesOfCaches : public FaultyLogs {
 protected:
  // The cause's sentence; empty without a cause. Of a model without windows.
  std::string named(const std::string& name, EditedCache& wrong, const char* checkpoints,
                    const char* cause) {
    n_named_ = kPrompt;
    const auto model = load(name);
    const auto right = make_reference_kernels();
    const std::string ref =
        log(*model, *right, "ref", checkpoints, kAllValues, KvType::kF32, kPrompt);
    const std::string got =
        log(*model, wrong, "got", checkpoints, kAllValues, KvType::kF32, kPrompt);
    const Comparison comparison = compare(model.get(), ref, got);
    EXPECT_FALSE(comparison.pass);
    if (comparison.causes.empty()) return comparison.cause_hint;
    EXPECT_EQ(comparison.causes[0].name, cause) << comparison.causes[0].sentence;
    return comparison.causes[0].sentence;
  }
};

TEST_F(CausesOfCaches, NamesTypesOf8Bits) {
  EditedCache wrong;
  const auto expect = [&](const std::string& words) {
    EXPECT_THAT(named("qwen2.5", wrong, "ops", "rounding"), HasSubstr("attn keeps " + words + ":"));
  };
  wrong.round = [](std::span<float> row, size_t) {
    for (float& x : row) x = nearest_fp8(x, 3, 7, 127);
  };
  expect("keys and values in 8-bit floats (e4m3)");
  wrong.round = [](std::span<float> row, size_t) {
    for (float& x : row) x = nearest_fp8(x, 2, 15, 124);
  };
  expect("keys and values in 8-bit floats (e5m2)");
  wrong.round = [](std::span<float> row, size_t head_dim) { round_to_int8(row, head_dim, false); };
  expect("keys and values in int8 with a scale for each head");
  EXPECT_THAT(named("tinyllama", wrong, "layers", "rounding"), HasSubstr("for each head:"));
  wrong.of_keys = false;
  expect("values in int8 with a scale for each head");
  std::swap(wrong.of_keys, wrong.of_values);
  wrong.round = [](std::span<float> row, size_t) { round_to_int8(row, row.size(), false); };
  expect("keys in int8 with a scale for each token");
  wrong.of_values = true;
  wrong.round = [](std::span<float> row, size_t) { round_to_int8(row, 32, true); };
  expect("keys and values in Q8_0");
}

// What a token after the prompt reads, as numbers of slots.
std::vector<int64_t> from_to(int64_t first, int64_t last) {
  std::vector<int64_t> all(static_cast<size_t>(last - first + 1));
  std::iota(all.begin(), all.end(), first);
  return all;
}

TEST_F(CausesOfCaches, NamesWhatIsReadAfterThePrompt) {
  constexpr auto kFirst = static_cast<int64_t>(kPrompt);
  struct Read {
    const char* cause;
    const char* words;
    std::function<std::vector<int64_t>(int64_t query)> slots;
  };
  const Read reads[] = {
      {"attention_mask", "does not let a token after the prompt attend to itself",
       [](int64_t query) { return from_to(0, query - 1); }},
      {"attention_mask", "does not let a token after the prompt attend to the prompt",
       [](int64_t query) { return from_to(kFirst, query); }},
      {"attention_mask", "lets a token after the prompt attend to the prompt and itself alone",
       [](int64_t query) {
         std::vector<int64_t> read = from_to(0, kFirst - 1);
         read.push_back(query);
         return read;
       }},
      {"kv_shift", "reads the keys and values after the prompt one position late",
       [](int64_t query) {
         std::vector<int64_t> read = from_to(0, kFirst - 1);
         for (int64_t slot = kFirst; slot <= query; ++slot) read.push_back(slot - 1);
         return read;
       }}};
  for (const Read& read : reads) {
    EditedCache wrong;
    wrong.slots = [&](int64_t query) {
      return query < kFirst ? from_to(0, query) : read.slots(query);
    };
    for (const char* set : {"ops", "layers"}) {
      EXPECT_THAT(named("tinyllama", wrong, set, read.cause), HasSubstr(read.words)) << set;
    }
  }
}

// What is in the slots of a cache with room for `room` positions after each was written: as a ring,
// or with all that comes too late in the last one. Then slots are read as if there were no end.
std::vector<int64_t> read_from_slots(int64_t query, int64_t room, bool ring) {
  std::vector<int64_t> slots(static_cast<size_t>(room), 0);
  const auto slot = [&](int64_t position) {
    return static_cast<size_t>(ring ? position % room : std::min(position, room - 1));
  };
  for (int64_t position = 0; position <= query; ++position) slots[slot(position)] = position;
  std::vector<int64_t> read;
  const int64_t count = ring ? query + 1 : std::min(query + 1, room);
  for (int64_t i = 0; i < count; ++i) read.push_back(slots[slot(i)]);
  return read;
}

TEST_F(CausesOfCaches, NamesARingThatWrapsTooEarly) {
  EditedCache wrong;
  const std::string words = "keeps the last 6 keys and values, and reads those in the place of ";
  for (const char* set : {"ops", "layers"}) {
    wrong.slots = [](int64_t query) { return read_from_slots(query, 6, true); };
    EXPECT_THAT(named("tinyllama", wrong, set, "kv_ring"), HasSubstr(words + "the ones before them,"
                                                                             " too: "))
        << set;
    wrong.slots = [](int64_t query) {
      return query < static_cast<int64_t>(kPrompt) ? from_to(0, query)
                                                   : read_from_slots(query, 6, true);
    };
    EXPECT_THAT(named("tinyllama", wrong, set, "kv_ring"), HasSubstr("too, after the prompt: "))
        << set;
    wrong.slots = [](int64_t query) { return read_from_slots(query, 10, false); };
    EXPECT_THAT(named("tinyllama", wrong, set, "kv_ring"),
                HasSubstr("keeps the first 9 keys and values, and of those after them the newest"))
        << set;
  }
}

// Breaks if a window were taken for a ring that is read beyond its end, or the reverse.
TEST_F(CausesOfCaches, AWindowIsNoRing) {
  EditedCache wrong;
  wrong.slots = [](int64_t query) { return from_to(std::max<int64_t>(0, query - 5), query); };
  for (const char* set : {"ops", "layers"}) {
    EXPECT_THAT(named("tinyllama", wrong, set, "attention_window"),
                HasSubstr("attends to a window of 6 tokens"))
        << set;
  }
}

// Breaks if the first tokens that differ, which chunks of 4 and of 8 explain alike, decided.
TEST_F(CausesOfCaches, LaterTokensTellTheLengthOfAChunk) {
  const auto model = load("tinyllama");
  for (int32_t id = 100; prompt_.size() < 24; ++id) prompt_.push_back(id);
  const auto right = make_reference_kernels();
  EditedCache wrong;
  wrong.slots = [](int64_t query) { return from_to(query / 8 * 8, query); };
  const std::string ref = log(*model, *right, "ref", "logits", kAllValues, KvType::kF32, 24);
  const std::string got = log(*model, wrong, "got", "logits", kAllValues, KvType::kF32, 24);
  const Comparison comparison = compare(model.get(), ref, got);
  ASSERT_THAT(comparison.causes, SizeIs(1)) << comparison.cause_hint;
  EXPECT_THAT(comparison.causes[0].sentence,
              HasSubstr("attends to nothing before its own chunk of 8 positions"));
}

// Breaks if a mistake were tried at tokens that are right alone, because those that are wrong are
// not known: there everything is what it should be.
TEST_F(CausesOfCaches, TokensThatNoHeaderNamesAreNotLeftOutAll) {
  EditedCache wrong;
  wrong.slots = [](int64_t query) {
    return from_to(0, query < static_cast<int64_t>(kPrompt) ? query : query - 1);
  };
  EXPECT_THAT(named("tinyllama", wrong, "layer_0_output", ""),
              Not(HasSubstr("is what the model gives")));
}

// All of a softmax's weight on the highest score, as with a scale beyond all bounds.
class HardAttention : public WrongKernels {
 protected:
  void attention(AttentionCall call) override {
    call.shape.scale *= 1e6F;
    right_->run(call);
  }
};

// Breaks if a tensor were said to be multiplied by 100 where any larger factor gives the same.
TEST_F(CausesOfCaches, NoFactorIsNamedWhereALargerOneGivesTheSame) {
  for (const char* set : {"layers", "ops"}) {
    HardAttention wrong;
    const Comparison comparison = compare("tinyllama", wrong, set, true);
    EXPECT_FALSE(comparison.pass);
    for (const Cause& cause : comparison.causes) {
      EXPECT_THAT(cause.sentence, Not(HasSubstr("is multiplied by"))) << set;
    }
    EXPECT_THAT(comparison.cause_hint, Not(HasSubstr("is multiplied by"))) << set;
  }
}

}  // namespace
}  // namespace assay
