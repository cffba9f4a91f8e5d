#include "assay/weights/parts_of_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "assay/weights/compare_weights.h"
#include "tests/support/paths.h"
#include "tests/weights/edited_model.h"

namespace assay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Values = EditedModel::Values;

constexpr const char* kKeysPart = "blk.1.attn_k_b.weight";
constexpr const char* kValuesPart = "blk.1.attn_v_b.weight";
constexpr const char* kWholeOne = "blk.1.attn_kv_b.weight";

// A model that has attn_kv_b in two, and the same one with the whole tensor.
class LatentParts : public testing::Test {
 protected:
  LatentParts() {
    const std::string prefix = "deepseek2.attention.";
    for (const std::string block : {"blk.0.", "blk.1."}) {
      const std::string name = block + "attn_kv_b.weight";
      whole_.tensors.push_back({name, TensorType::kF32, {kRank, kHeads * (kOfK + kOfV)}, {}});
      whole_.put(name,
                 joined(parts_.values(block + "attn_k_b.weight"),
                        parts_.values(block + "attn_v_b.weight")),
                 TensorType::kF32);
      whole_.remove(block + "attn_k_b.weight");
      whole_.remove(block + "attn_v_b.weight");
    }
    whole_.metadata.erase(prefix + "key_length_mla");
    whole_.metadata.erase(prefix + "value_length_mla");
    whole_.metadata[prefix + "head_count_kv"] = int64_t{kHeads};
    whole_.metadata[prefix + "key_length"] = int64_t{48};
    whole_.metadata[prefix + "value_length"] = int64_t{kOfV};
  }

  // Rows of the keys of a head, of which the part has columns, and then those of its values.
  static Values joined(const Values& k, const Values& v) {
    Values all;
    for (size_t head = 0; head < kHeads; ++head) {
      for (size_t i = 0; i < kOfK; ++i) {
        for (size_t j = 0; j < kRank; ++j) all.push_back(k[(head * kRank + j) * kOfK + i]);
      }
      for (size_t i = 0; i < kOfV * kRank; ++i) all.push_back(v[head * kOfV * kRank + i]);
    }
    return all;
  }

  static const TensorResult& of(const WeightsComparison& comparison, const std::string& name) {
    return *std::ranges::find(comparison.tensors, name, &TensorResult::name);
  }

  static std::vector<std::string> wrong(const WeightsComparison& comparison) {
    std::vector<std::string> names;
    for (const TensorResult& tensor : comparison.tensors) {
      if (tensor.status != TensorStatus::kSame && tensor.status != TensorStatus::kRounded) {
        names.push_back(tensor.name);
      }
    }
    return names;
  }

  static std::vector<std::string> counting(const WeightsComparison& comparison) {
    std::vector<std::string> keys;
    for (const KeyDifference& key : comparison.keys) {
      if (key.counts) keys.push_back(key.key);
    }
    return keys;
  }

  // Either of the two may be the reference.
  static void expect(WeightsVerdict verdict, const EditedModel& whole, const EditedModel& parts,
                     const std::vector<std::string>& names, const WeightsOptions& options = {}) {
    for (const bool is_turned : {false, true}) {
      const Gguf a = whole.gguf();
      const Gguf b = parts.gguf();
      const auto found =
          is_turned ? compare_weights(b, a, options) : compare_weights(a, b, options);
      EXPECT_EQ(found.verdict, verdict);
      EXPECT_EQ(wrong(found), names);
    }
  }

  static constexpr int64_t kHeads = 4;
  static constexpr int64_t kOfK = 32;
  static constexpr int64_t kOfV = 24;
  static constexpr int64_t kRank = 32;
  const std::string path_ = source_path("golden/deepseek2/deepseek2-f32.gguf");
  EditedModel parts_{path_};
  EditedModel whole_{path_};
};

// What would break: right files of latent attention called wrong, for tensors and keys that they
// have in another form.
TEST_F(LatentParts, TheWholeTensorAndItsPartsAreTheSame) {
  expect(WeightsVerdict::kMatch, whole_, parts_, {});
  const WeightsComparison found = compare_weights(whole_.gguf(), parts_.gguf(), {});
  EXPECT_EQ(found.count(TensorStatus::kSame), std::ssize(found.tensors));
  EXPECT_THAT(counting(found), ElementsAre());
  EXPECT_EQ(of(found, kKeysPart).ref_dims, (std::vector<int64_t>{kOfK, kRank, kHeads}));
  EXPECT_EQ(of(found, kValuesPart).ref_dims, (std::vector<int64_t>{kRank, kOfV, kHeads}));
}

TEST_F(LatentParts, EitherMayBeStoredAsAnotherType) {
  for (const TensorType type : {TensorType::kF16, TensorType::kBF16, TensorType::kQ8_0}) {
    EditedModel parts = parts_;
    parts.put(kKeysPart, parts_.values(kKeysPart), type);
    parts.put(kValuesPart, parts_.values(kValuesPart), type);
    expect(WeightsVerdict::kMatch, whole_, parts, {});
    EditedModel whole = whole_;
    whole.put(kWholeOne, joined(parts_.values(kKeysPart), parts_.values(kValuesPart)), type);
    expect(WeightsVerdict::kMatch, whole, parts_, {});
    const WeightsComparison found = compare_weights(whole.gguf(), parts_.gguf(), {});
    EXPECT_EQ(of(found, kKeysPart).status, TensorStatus::kRounded);
    EXPECT_EQ(of(found, kKeysPart).ref_type, type);
    // Rounded along rows of another order, and of the same one.
    if (type != TensorType::kQ8_0) {
      expect(WeightsVerdict::kMatch, whole, parts, {});
      continue;
    }
    expect(WeightsVerdict::kIncomplete, whole, parts, {kKeysPart});
    expect(WeightsVerdict::kMatch, whole, parts, {}, {.max_rel_l2 = 0.02});
    expect(WeightsVerdict::kMismatch, whole, parts, {kKeysPart}, {.max_rel_l2 = 1e-6});
  }
}

// What would break: a wrong weight that is lost where one file has another form than the other.
TEST_F(LatentParts, AWrongWeightOfAPartIsNamed) {
  for (const char* name : {kKeysPart, kValuesPart}) {
    EditedModel parts = parts_;
    parts.edit(name, [](Values& w) { w[77] *= 1.01F; });
    expect(WeightsVerdict::kMismatch, whole_, parts, {name});
    parts.edit(name, [](Values& w) { w[77] = NAN; });
    expect(WeightsVerdict::kMismatch, whole_, parts, {name});
    Values values = parts_.values(name);
    for (size_t i = 0; i < 32; ++i) values[i + 32] = 0.0F;
    parts.put(name, values, TensorType::kQ8_0);
    expect(WeightsVerdict::kMismatch, whole_, parts, {name});
  }
  EditedModel whole = whole_;
  Values values = joined(parts_.values(kKeysPart), parts_.values(kValuesPart));
  values.back() *= 1.01F;
  whole.put(kWholeOne, values, TensorType::kF32);
  expect(WeightsVerdict::kMismatch, whole, parts_, {kValuesPart});
}

// What would break: heads that are not transposed, or are those of another head, and fit.
TEST_F(LatentParts, KeysInAnotherOrderAreWrong) {
  EditedModel straight = parts_;
  straight.edit(kKeysPart, [](Values& w) {
    const Values right = w;
    for (size_t i = 0; i < w.size(); ++i) {
      w[i] = right[i / 1024 * 1024 + i % 32 * 32 + i / 32 % 32];
    }
  });
  expect(WeightsVerdict::kMismatch, whole_, straight, {kKeysPart});
  EditedModel moved = parts_;
  moved.edit(kKeysPart, [](Values& w) { std::rotate(w.begin(), w.begin() + 1024, w.end()); });
  expect(WeightsVerdict::kMismatch, whole_, moved, {kKeysPart});
}

// What would break: half of a tensor, taken for all of it.
TEST_F(LatentParts, OnePartWithoutTheOtherIsNotTheWhole) {
  EditedModel parts = parts_;
  parts.remove(kValuesPart);
  const WeightsComparison found = compare_weights(whole_.gguf(), parts.gguf(), {});
  EXPECT_EQ(found.verdict, WeightsVerdict::kMismatch);
  EXPECT_EQ(of(found, kWholeOne).status, TensorStatus::kMissing);
}

TEST_F(LatentParts, AnotherShapeIsWrong) {
  EditedModel parts = parts_;
  parts.at(kKeysPart).dims = {kOfK, kRank * kHeads};
  expect(WeightsVerdict::kMismatch, whole_, parts, {kKeysPart});
  EditedModel whole = whole_;
  whole.metadata["deepseek2.attention.value_length"] = int64_t{56};
  const WeightsComparison found = compare_weights(whole.gguf(), parts_.gguf(), {});
  EXPECT_EQ(found.verdict, WeightsVerdict::kMismatch);
  EXPECT_THAT(of(found, kKeysPart).reason, HasSubstr("cannot be divided in two"));
}

// What would break: a key that only engines read which compute with the latent vectors.
TEST_F(LatentParts, KeysOfTheOtherFormHaveToBeRight) {
  for (const std::string name : {"head_count_kv", "key_length", "value_length"}) {
    const std::string key = "deepseek2.attention." + name;
    EditedModel parts = parts_;
    parts.metadata[key] = int64_t{40};
    EXPECT_THAT(counting(compare_weights(whole_.gguf(), parts.gguf(), {})), ElementsAre(key));
  }
  for (const std::string key : {"key_length_mla", "value_length_mla"}) {
    EditedModel parts = parts_;
    parts.metadata["deepseek2.attention." + key] = int64_t{28};
    EXPECT_THAT(counting(compare_weights(whole_.gguf(), parts.gguf(), {})),
                testing::Contains("deepseek2.attention." + key));
  }
}

// A model of experts, and the same one with the gate and up of each expert in one tensor.
class ExpertParts : public testing::Test {
 protected:
  ExpertParts() {
    for (const std::string block : {"blk.0.", "blk.1."}) {
      const std::string name = block + "ffn_gate_up_exps.weight";
      const GgufTensor gate = parts_.at(block + "ffn_gate_exps.weight");
      const Values of_gate = parts_.values(gate.name);
      const Values of_up = parts_.values(block + "ffn_up_exps.weight");
      const std::ptrdiff_t size = gate.dims[0] * gate.dims[1];
      Values both;
      for (std::ptrdiff_t expert = 0; expert < gate.dims[2]; ++expert) {
        for (const Values* half : {&of_gate, &of_up}) {
          const auto first = half->begin() + expert * size;
          both.insert(both.end(), first, first + size);
        }
      }
      whole_.tensors.push_back(
          {name, TensorType::kF32, {gate.dims[0], 2 * gate.dims[1], gate.dims[2]}, {}});
      whole_.put(name, both, TensorType::kF32);
      whole_.remove(block + "ffn_gate_exps.weight");
      whole_.remove(block + "ffn_up_exps.weight");
    }
  }

  static WeightsVerdict verdict(const EditedModel& ref, const EditedModel& got) {
    const Gguf a = ref.gguf();
    const Gguf b = got.gguf();
    return compare_weights(a, b, {}).verdict;
  }

  const std::string path_ = source_path("golden/qwen3moe/qwen3moe-f32.gguf");
  EditedModel parts_{path_};
  EditedModel whole_{path_};
};

// What would break: right files of experts called wrong, since a converter joins two tensors.
TEST_F(ExpertParts, InOneTensorAreTheSame) {
  EXPECT_EQ(verdict(parts_, whole_), WeightsVerdict::kMatch);
  EXPECT_EQ(verdict(whole_, parts_), WeightsVerdict::kMatch);
}

TEST_F(ExpertParts, InTheOtherOrderOrOfAnotherExpertAreWrong) {
  EditedModel swapped = parts_;
  const std::string gate = "blk.1.ffn_gate_exps.weight";
  const std::string up = "blk.1.ffn_up_exps.weight";
  swapped.put(gate, parts_.values(up), TensorType::kF32);
  swapped.put(up, parts_.values(gate), TensorType::kF32);
  EXPECT_EQ(verdict(whole_, swapped), WeightsVerdict::kMismatch);
  EditedModel moved = parts_;
  const GgufTensor tensor = parts_.at(up);
  const std::ptrdiff_t size = tensor.dims[0] * tensor.dims[1];
  moved.edit(up, [&](Values& w) { std::rotate(w.begin(), w.begin() + size, w.end()); });
  EXPECT_EQ(verdict(whole_, moved), WeightsVerdict::kMismatch);
  EditedModel without = parts_;
  without.remove(up);
  EXPECT_EQ(verdict(whole_, without), WeightsVerdict::kMismatch);
}

TEST_F(ExpertParts, AVectorMayBeStoredAsAMatrixOfOneColumn) {
  EditedModel matrix = parts_;
  GgufTensor& norm = matrix.at("blk.1.ffn_norm.weight");
  norm.dims = {1, norm.dims[0]};
  EXPECT_EQ(verdict(parts_, matrix), WeightsVerdict::kMatch);
  EXPECT_EQ(verdict(matrix, parts_), WeightsVerdict::kMatch);
  matrix.edit(norm.name, [](Values& w) { w[3] *= 1.01F; });
  EXPECT_EQ(verdict(parts_, matrix), WeightsVerdict::kMismatch);
}

TEST_F(LatentParts, CanBeAskedForByAnyOfTheirNames) {
  const Gguf whole = whole_.gguf();
  const Gguf parts = parts_.gguf();
  EXPECT_EQ(compare_weights(whole, parts, {.tensors = {kWholeOne}}).tensors.size(), 2);
  EXPECT_EQ(compare_weights(whole, parts, {.tensors = {kKeysPart}}).tensors.size(), 1);
  EXPECT_EQ(compare_weights(parts, whole, {.tensors = {"*.attn_v_b.*"}}).tensors.size(), 2);
}

}  // namespace
}  // namespace assay
