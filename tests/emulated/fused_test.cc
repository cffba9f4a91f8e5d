// The fused kernels, on a device and run by the CPU, against the CPU's single ops: bit for bit, and
// what they hold in between too.

#include "kernels/fused.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "kernels/coded_types.h"
#include "tests/emulated/fused_steps.h"
#include "tests/kernels/support.h"

namespace assay {
namespace {

using kernel_testing::Random;
using kernel_testing::TestMatrix;

class FusedTest : public testing_support::FusedSteps {};
INSTANTIATE_TEST_SUITE_P(Emulated, FusedTest, testing::ValuesIn(testing_support::emulated_setups()),
                         testing_support::tested_name);
INSTANTIATE_TEST_SUITE_P(Gpu, FusedTest, testing::ValuesIn(testing_support::cuda_setups()),
                         testing_support::tested_name);

// Columns of a type that end within a chunk of 256 and begin rows at odd multiples of its bytes.
std::vector<int64_t> widths_of(TensorType type) {
  const int64_t block = tensor_type_info(type).block_elements;
  if (block == 1) return {16, 33, 100, 544};
  return block == 32 ? std::vector<int64_t>{32, 288, 544} : std::vector<int64_t>{256, 768};
}

// The types that the fused kernels have; a model with others is decoded by single ops.
std::vector<TensorType> fused_types() {
  std::vector<TensorType> types(std::begin(kAllTensorTypes), std::end(kAllTensorTypes));
#define ASSAY_ERASE(name) std::erase(types, TensorType::k##name);
  ASSAY_CODED_TYPES(ASSAY_ERASE)
#undef ASSAY_ERASE
  return types;
}

// A product would be of nothing: the fused kernels have no code for it.
TEST_P(FusedTest, TakesNoneOfTheOtherTypes) {
  const std::vector<TensorType> own = fused_types();
  for (const TensorType type : kAllTensorTypes) {
    const bool is_own = std::ranges::find(own, type) != own.end();
    EXPECT_EQ(fused().takes(256, true, {&type, 1}), is_own) << tensor_type_info(type).name;
    const TensorType mixed[] = {TensorType::kQ4_0, type};
    EXPECT_FALSE(!is_own && fused().takes(256, true, mixed)) << tensor_type_info(type).name;
  }
}

// A wrong row, code, scale or order of sums in one of the types; a residual that is added twice.
TEST_P(FusedTest, ResidualIsAMatmulAndAnAdd) {
  for (const TensorType type : fused_types()) {
    for (const int64_t width : widths_of(type)) {
      for (const int64_t rows : {1, 16, 53}) {
        SCOPED_TRACE(std::string(tensor_type_info(type).name) + ", " + std::to_string(rows) +
                     " rows of " + std::to_string(width));
        const TestMatrix w(type, rows, width);
        const auto x = Random(1).floats(width);
        const auto bias = Random(2).floats(rows % 2 == 1 ? rows : 0);
        const auto residual = Random(3).floats(rows);
        float* sum = device_->place(residual);
        float* product = room(rows);
        fused().residual({device_->place(x), place(w, bias), sum, product});
        const std::vector<float> want = multiply(w, bias, x);
        std::vector<float> want_sum(want.size());
        cpu_->run(AddCall{residual.data(), want.data(), rows, want_sum.data()});
        expect(want, product, "product");
        expect(want_sum, sum, "sum");
      }
    }
  }
}

// In fast math a launch rounds its input in one way.
TEST_P(FusedTest, AStepTakesTypesThatRoundTheirInputAlike) {
  const bool exact = GetParam().math == Math::kExact;
  const auto takes = [&](TensorType first, TensorType second) {
    const TensorType types[] = {first, second};
    return fused().takes(544, true, types);
  };
  EXPECT_TRUE(takes(TensorType::kF16, TensorType::kBF16));
  EXPECT_TRUE(takes(TensorType::kF32, TensorType::kF32));
  EXPECT_TRUE(takes(TensorType::kQ4_0, TensorType::kQ8_0));
  EXPECT_EQ(takes(TensorType::kF32, TensorType::kF16), exact);
  EXPECT_EQ(takes(TensorType::kBF16, TensorType::kF32), exact);
  EXPECT_EQ(takes(TensorType::kF16, TensorType::kQ8_0), exact);
  EXPECT_EQ(takes(TensorType::kQ8_0, TensorType::kBF16), exact);
}

// A plain row that is summed as those in blocks are, or the other way round, or whose bias is added
// before or after the wrong rounding: in exact math, one launch has rows of both.
TEST_P(FusedTest, AStepMixesPlainRowsAndBlocksInExactMath) {
  const bool exact = GetParam().math == Math::kExact;
  const int64_t width = 544;
  const int64_t rows = 37;
  for (const TensorType plain : {TensorType::kF32, TensorType::kF16, TensorType::kBF16}) {
    for (const TensorType blocks : {TensorType::kQ8_0, TensorType::kQ4_0}) {
      for (const bool plain_gate : {true, false}) {
        SCOPED_TRACE(std::string(tensor_type_info(plain).name) + ", " +
                     std::string(tensor_type_info(blocks).name) +
                     (plain_gate ? ", gate first" : ""));
        const TensorType types[] = {plain_gate ? plain : blocks, plain_gate ? blocks : plain};
        ASSERT_EQ(fused().takes(width, true, types), exact);
        if (!exact) continue;
        const TestMatrix gate(types[0], rows, width, 1);
        const TestMatrix up(types[1], rows, width, 2);
        const auto gate_bias = Random(3).floats(rows);
        const auto up_bias = Random(4).floats(rows);
        const auto x = Random(5).floats(width, 3.0F);
        const auto weight = Random(6).floats(width);
        FusedActivation step;
        step.x = device_->place(x);
        step.norm = place(NormKind::kRms, weight, {});
        step.gate = place(gate, gate_bias);
        step.up = place(up, up_bias);
        step.act = room(rows);
        step.gate_seen = room(rows);
        step.up_seen = room(rows);
        fused().activation(step);
        const auto normed = norm(NormKind::kRms, x, weight, {});
        expect(multiply(gate, gate_bias, normed), step.gate_seen, "gate");
        expect(multiply(up, up_bias, normed), step.up_seen, "up");
      }
    }
  }
}

TEST_P(FusedTest, ActivationIsNormGateUpAndTheirProduct) {
  for (const bool gated : {true, false}) {
    for (const TensorType type :
         {TensorType::kQ4_K, TensorType::kQ8_0, TensorType::kF32, TensorType::kF16}) {
      SCOPED_TRACE(std::string(tensor_type_info(type).name) + (gated ? " gated" : ""));
      const int64_t width = type == TensorType::kF16 ? 770 : 768;
      const int64_t rows = 71;
      const NormKind op = gated ? NormKind::kRms : NormKind::kLayer;
      const auto x = Random(1).floats(width, 3.0F);
      const auto weight = Random(2).floats(width);
      const auto norm_bias = Random(3).floats(gated ? 0 : width);
      const TestMatrix gate(type, rows, width, 4);
      const TestMatrix up(type == TensorType::kQ4_K ? TensorType::kQ6_K : type, rows, width, 5);
      const auto bias = Random(6).floats(gated ? 0 : rows);
      FusedActivation step;
      step.x = device_->place(x);
      step.norm = place(op, weight, norm_bias);
      if (gated) step.gate = place(gate, {});
      step.up = place(up, bias);
      step.act = room(rows);
      step.normed_seen = room(width);
      step.up_seen = room(rows);
      if (gated) step.gate_seen = room(rows);
      fused().activation(step);
      const auto normed = norm(op, x, weight, norm_bias);
      const auto want_up = multiply(up, bias, normed);
      std::vector<float> act(want_up.size());
      if (gated) {
        const auto want_gate = multiply(gate, {}, normed);
        expect(want_gate, step.gate_seen, "gate");
        cpu_->run(ActivateCall{ActivationKind::kSilu, want_gate.data(), want_up.data(), rows,
                               act.data()});
      } else {
        cpu_->run(
            ActivateCall{ActivationKind::kGeluTanh, want_up.data(), nullptr, rows, act.data()});
      }
      expect(normed, step.normed_seen, "norm");
      expect(want_up, step.up_seen, "up");
      expect(act, step.act, "activation");
      const auto seen = device_->read(step.act, act.size());
      step.normed_seen = step.gate_seen = step.up_seen = nullptr;
      step.act = room(rows);
      fused().activation(step);
      expect(seen, step.act, "activation that nobody looks into");
    }
  }
}

// What takes() says yes to must fit in a block's shared memory, with all that a norm keeps there.
TEST_P(FusedTest, TheWidestInputThatIsTakenRuns) {
  for (const TensorType type : {TensorType::kF32, TensorType::kF16, TensorType::kQ8_0}) {
    const TensorType types[] = {type};
    int64_t width = 256;
    while (fused().takes(width + 256, true, types)) width += 256;
    SCOPED_TRACE(std::string(tensor_type_info(type).name) + ", " + std::to_string(width));
    EXPECT_GE(width, 8192);
    const TestMatrix up(type, 2, width, 1);
    const auto x = Random(2).floats(width, 3.0F);
    const auto weight = Random(3).floats(width);
    const auto norm_bias = Random(4).floats(width);
    FusedActivation step;
    step.x = device_->place(x);
    step.norm = place(NormKind::kLayer, weight, norm_bias);
    step.up = place(up, {});
    step.act = room(2);
    step.up_seen = room(2);
    fused().activation(step);
    expect(multiply(up, {}, norm(NormKind::kLayer, x, weight, norm_bias)), step.up_seen, "up");
  }
}

struct Heads {
  int64_t n_heads;
  int64_t n_kv_heads;
  int64_t head_dim;
  int64_t rotary_dim;
};

// A pair that is turned the wrong way, or with another head's or token's angle; a key that is
// stored at another position or before it is turned.
TEST_P(FusedTest, QkvTurnsAndStores) {
  const int64_t width = 288;
  using Types = std::array<TensorType, 3>;
  for (const Types& types : {Types{TensorType::kQ4_0, TensorType::kQ5_1, TensorType::kQ8_0},
                             Types{TensorType::kF16, TensorType::kBF16, TensorType::kF16},
                             Types{TensorType::kF32, TensorType::kQ5_1, TensorType::kF16}}) {
    if (!fused().takes(width, true, types)) continue;  // a mixture, in fast math
    for (const Heads& h : {Heads{4, 2, 16, 16}, Heads{3, 1, 20, 12}, Heads{2, 2, 7, 0}}) {
      for (const RopePairing pairing : {RopePairing::kAdjacent, RopePairing::kHalves}) {
        for (const KvType kv_type : {KvType::kF32, KvType::kF16}) {
          SCOPED_TRACE(testing::Message() << h.n_heads << " heads of " << h.head_dim);
          const int64_t q_rows = h.n_heads * h.head_dim;
          const int64_t kv_rows = h.n_kv_heads * h.head_dim;
          const int64_t position = 3;
          const TestMatrix q(types[0], q_rows, width, 1);
          const TestMatrix k(types[1], kv_rows, width, 2);
          const TestMatrix v(types[2], kv_rows, width, 3);
          const auto bias = Random(4).floats(h.n_heads == 3 ? kv_rows : 0);
          const auto x = Random(5).floats(width);
          const auto weight = Random(6).floats(width);
          const auto cos_sin = Random(7).floats(2 * h.rotary_dim + 2);  // of two positions
          const auto cache = std::vector<float>(static_cast<size_t>(kv_rows * 5), 7.0F);

          FusedQkv step;
          step.x = device_->place(x);
          step.norm = place(NormKind::kRms, weight, {});
          step.q = place(q, {});
          step.k = place(k, bias);
          step.v = place(v, {});
          step.head_dim = h.head_dim;
          step.rotary_dim = h.rotary_dim;
          step.pairing = pairing;
          step.token.position =
              device_->place(std::vector<int32_t>{static_cast<int32_t>(position)});
          step.token.cos_sin = device_->place(cos_sin);
          step.token.n_angles = 2;
          step.kv_type = kv_type;
          step.k_cache = device_->place(cache);
          step.v_cache = device_->place(cache);
          step.q_out = room(q_rows);
          step.normed_seen = room(width);
          step.q_seen = room(q_rows);
          step.k_seen = room(kv_rows);
          step.v_seen = room(kv_rows);
          step.k_rope_seen = room(kv_rows);
          fused().qkv(step);

          const auto normed = norm(NormKind::kRms, x, weight, {});
          const auto want_q = multiply(q, {}, normed);
          const auto want_k = multiply(k, bias, normed);
          const auto want_v = multiply(v, {}, normed);
          auto q_rope = want_q;
          auto k_rope = want_k;
          if (h.rotary_dim > 0) {
            const float* angles = cos_sin.data() + position % 2 * h.rotary_dim;
            cpu_->run(RopeCall{want_q.data(), angles, pairing, 1, h.n_heads, h.head_dim,
                               h.rotary_dim, q_rope.data()});
            cpu_->run(RopeCall{want_k.data(), angles, pairing, 1, h.n_kv_heads, h.head_dim,
                               h.rotary_dim, k_rope.data()});
          }
          expect(normed, step.normed_seen, "norm");
          expect(want_q, step.q_seen, "q");
          expect(want_k, step.k_seen, "k");
          expect(want_v, step.v_seen, "v");
          expect(q_rope, step.q_out, "q, turned");
          expect(k_rope, step.k_rope_seen, "k, turned");
          auto k_cache = cache;
          auto v_cache = cache;
          const size_t at = static_cast<size_t>(position * kv_rows) * kv_element_bytes(kv_type) / 4;
          cpu_->run(StoreKvCall{k_rope.data(), kv_type, kv_rows, k_cache.data() + at});
          cpu_->run(StoreKvCall{want_v.data(), kv_type, kv_rows, v_cache.data() + at});
          expect(k_cache, static_cast<const float*>(step.k_cache), "stored keys");
          expect(v_cache, static_cast<const float*>(step.v_cache), "stored values");
        }
      }
    }
  }
}

struct AttentionCase {
  Heads heads;
  int64_t window;
  int64_t position;
  int64_t most_keys;
};

// Few keys in one block, many, and heads too wide for it, split over several; both with runs that
// begin within a window.
TEST_P(FusedTest, AttentionIsThatOfSingleOps) {
  for (const AttentionCase& c :
       {AttentionCase{{1, 1, 1, 0}, 0, 0, 1}, AttentionCase{{4, 2, 17, 0}, 0, 40, 64},
        AttentionCase{{2, 1, 16, 0}, 300, 700, 300}, AttentionCase{{2, 2, 8, 0}, 0, 900, 1024},
        AttentionCase{{2, 1, 16, 0}, 0, 1500, 2048}, AttentionCase{{1, 1, 8, 0}, 1100, 1900, 1100},
        AttentionCase{{2, 1, 8, 0}, 0, 3, 4096},
        // The widest head that a block's shared memory has room for, and wider ones.
        AttentionCase{{1, 1, 2240, 0}, 0, 4, 1024}, AttentionCase{{1, 1, 2241, 0}, 0, 4, 1024},
        AttentionCase{{1, 1, 8192, 0}, 8, 258, 8}}) {
    for (const KvType type : {KvType::kF32, KvType::kF16}) {
      const auto& [n_heads, n_kv_heads, head_dim, unused] = c.heads;
      SCOPED_TRACE(testing::Message() << n_heads << " heads of " << head_dim << ", window "
                                      << c.window << ", position " << c.position);
      const int64_t kv_count = (c.position + 1) * n_kv_heads * head_dim;
      const auto q = Random(1).floats(n_heads * head_dim);
      const auto k = Random(2).floats(kv_count, 3.0F);
      const auto v = Random(3).floats(kv_count);
      std::vector<float> stored_k(k.size());
      std::vector<float> stored_v(v.size());
      cpu_->run(StoreKvCall{k.data(), type, kv_count, stored_k.data()});
      cpu_->run(StoreKvCall{v.data(), type, kv_count, stored_v.data()});
      const AttentionShape shape{n_heads, n_kv_heads, head_dim, 0.7F, c.window};
      std::vector<float> want(q.size());
      cpu_->run(AttentionCall{
          q.data(), {type, stored_k.data(), stored_v.data()}, shape, c.position, 1, want.data()});
      FusedToken token;
      token.position = device_->place(std::vector<int32_t>{static_cast<int32_t>(c.position)});
      void* scratch =
          device_->place(std::vector<uint8_t>(fused().attention_scratch(shape, c.most_keys), 0xFF));
      float* out = room(n_heads * head_dim);
      fused().attention({device_->place(q),
                         {type, device_->place(stored_k), device_->place(stored_v)},
                         shape,
                         token,
                         c.most_keys,
                         scratch,
                         out});
      expect(want, out, "attention");
    }
  }
}

TEST_P(FusedTest, EmbeddingAndLogits) {
  const TestMatrix positions(TensorType::kF32, 9, 512, 2);
  for (const bool learned : {false, true}) {
    const TestMatrix table(learned ? TensorType::kBF16 : TensorType::kQ6_K, 70, 512, 1);
    FusedEmbedding step;
    step.table = device_->place(table);
    if (learned) step.positions = device_->place(positions);
    step.token.id = device_->place(std::vector<int32_t>{69});
    step.token.position = device_->place(std::vector<int32_t>{8});
    step.x = room(512);
    fused().embed(step);
    std::vector<float> want(512);
    std::vector<float> at(512);
    const int32_t ids[] = {69, 8};
    cpu_->run(GetRowsCall{table.matrix(), ids, 1, want.data()});
    if (learned) {
      cpu_->run(GetRowsCall{positions.matrix(), ids + 1, 1, at.data()});
      cpu_->run(AddCall{want.data(), at.data(), 512, want.data()});
    }
    expect(want, step.x, "embedding");
    const auto weight = Random(3).floats(512);
    float* logits = room(70);
    float* normed = room(512);
    fused().logits({step.x, place(NormKind::kRms, weight, {}), step.table, logits, normed});
    const auto want_normed = norm(NormKind::kRms, want, weight, {});
    expect(want_normed, normed, "norm");
    expect(multiply(table, {}, want_normed), logits, "logits");
  }
}

// A block comes to several rows one after the other, some of its groups to one more than others.
TEST_P(FusedTest, MoreRowsThanBlocksHaveAtOnce) {
  for (const TensorType type : {TensorType::kF16, TensorType::kQ8_0}) {
    const int64_t rows = 8192 + 16 + 3;
    const TestMatrix w(type, rows, 32);
    const auto x = Random(1).floats(32);
    float* sum = device_->place(std::vector<float>(static_cast<size_t>(rows)));
    fused().residual({device_->place(x), place(w, {}), sum, nullptr});
    expect(multiply(w, {}, x), sum, tensor_type_info(type).name.data());
  }
}

// Ties, padding, and what is no number: as the greedy Sampler has it (tests/engine).
TEST_P(FusedTest, TheChoiceIsTheLowestOfTheHighestThatMayBeChosen) {
  const auto chosen = [&](const std::vector<float>& logits, const std::vector<uint8_t>& choosable) {
    const auto count = static_cast<int64_t>(logits.size());
    FusedChoice step;
    step.logits = device_->place(logits);
    step.choosable = device_->place(choosable);
    step.count = count;
    step.scratch = device_->place(std::vector<uint8_t>(fused().choice_scratch(count), 1));
    step.ids = device_->place(std::vector<int32_t>{-7, -7});
    step.id = device_->place(std::vector<int32_t>{-8});
    step.position = device_->place(std::vector<int32_t>{4 * kChoices + 1});
    fused().choose(step);
    const std::vector<int32_t> ids = device_->read(step.ids, kChoices);
    EXPECT_EQ(ids[0], -7) << "the choice of the token before";
    EXPECT_EQ(device_->read(step.id, 1)[0], std::max(ids[1], 0)) << "an id that can be looked up";
    EXPECT_EQ(device_->read(step.position, 1)[0], 4 * kChoices + 2);
    return ids[1];
  };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const size_t count : {1U, 31U, 4096U, 10007U}) {
    SCOPED_TRACE(count);
    std::vector<float> logits = Random(1).floats(static_cast<int64_t>(count));
    std::vector<uint8_t> all(count, 1);
    const size_t last = count - 1;
    logits[last] = 2.0F;
    EXPECT_EQ(chosen(logits, all), static_cast<int32_t>(last));
    logits[last / 2] = 2.0F;
    EXPECT_EQ(chosen(logits, all), static_cast<int32_t>(last / 2));
    all[last / 2] = 0;
    EXPECT_EQ(chosen(logits, all), last == 0 ? -1 : static_cast<int32_t>(last));
    logits[last / 2] = kNaN;  // padding may be anything
    EXPECT_EQ(chosen(logits, all), last == 0 ? -1 : static_cast<int32_t>(last));
    all[last / 2] = 1;
    EXPECT_EQ(chosen(logits, all), -1);
    logits[last / 2] = kInfinity;
    EXPECT_EQ(chosen(logits, all), -1);
    EXPECT_EQ(chosen(std::vector<float>(count, -kInfinity), all), 0);
    EXPECT_EQ(chosen(std::vector<float>(count, 1.0F), std::vector<uint8_t>(count)), -1);
    EXPECT_EQ(chosen(std::vector<float>(count, -0.0F), all), 0);
  }
}

}  // namespace
}  // namespace assay
