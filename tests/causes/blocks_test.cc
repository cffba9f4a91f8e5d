// Blocks of quantised weights that are read wrongly, or damaged, where the edit here knows nothing
// of the catalogue's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/half.h"
#include "kernels/reference/dequantize.h"
#include "tests/causes/faulty_logs.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

// The blocks of a kind of matrix, where it has this type, in another form.
class EditedBlocks : public WrongKernels {
 public:
  using Edit = std::function<void(std::byte* block, int64_t row, int64_t column)>;

  explicit EditedBlocks(Edit edit, Checkpoint at = Checkpoint::kAttnOut,
                        TensorType type = TensorType::kQ8_0)
      : edit_(std::move(edit)), at_(at), type_(type) {}

 protected:
  void matmul(const MatmulCall& call) override {
    const WeightMatrix& w = call.w;
    if (call.site.checkpoint != at_ || w.type != type_) return right_->run(call);
    const TensorTypeInfo& info = tensor_type_info(w.type);
    const auto* stored = static_cast<const std::byte*>(w.data);
    const size_t size = row_bytes(w.type, w.columns);
    std::vector<std::byte> bytes(stored, stored + static_cast<size_t>(w.rows) * size);
    const auto blocks = w.columns / static_cast<int64_t>(info.block_elements);
    for (int64_t i = 0; i < w.rows * blocks; ++i) {
      edit_(bytes.data() + i * static_cast<int64_t>(info.block_bytes), i / blocks, i % blocks);
    }
    MatmulCall edited = call;
    edited.w.data = bytes.data();
    right_->run(edited);
  }

 private:
  Edit edit_;
  Checkpoint at_;
  TensorType type_;
};

// Codes of Q8_0 that are all too high by one: each block adds its scale to each weight.
class CodesTooHigh : public WrongKernels {
 protected:
  void matmul(const MatmulCall& call) override {
    right_->run(call);
    if (call.site.checkpoint != Checkpoint::kAttnOut) return;
    constexpr int64_t kBlock = 32;
    const WeightMatrix& w = call.w;
    std::vector<float> row(static_cast<size_t>(w.columns));
    for (int64_t r = 0; r < w.rows; ++r) {
      const auto* codes = static_cast<const int8_t*>(w.slice(r, 1).data);
      dequantize_row(w.type, codes, w.columns, row.data());
      for (int64_t b = 0; b < w.columns / kBlock; ++b) {
        const int8_t* own = codes + b * 34 + 2;
        const auto large = std::max_element(own, own + kBlock) - own;
        const float scale = row[static_cast<size_t>(b * kBlock + large)] / own[large];
        for (int64_t t = 0; t < call.n_tokens; ++t) {
          for (int64_t c = b * kBlock; c < (b + 1) * kBlock; ++c) {
            call.out[t * w.rows + r] += scale * call.x[t * w.columns + c];
          }
        }
      }
    }
  }
};

// A reading of Q4_K by the format's description, whose parts the functions choose. By itself it is
// right.
struct PartsOfQ4K {
  std::function<int(int part)> scale_of = [](int part) { return part; };
  std::function<int(int part)> min_of = [](int part) { return part; };
  bool upper_bits = true;  // of the last four scales
  bool neighbours = false;

  static int six_bits(const uint8_t* packed, int part, bool min, bool upper) {
    if (part < 4) return packed[part + (min ? 4 : 0)] % 64;
    const int low = min ? packed[part + 4] / 16 : packed[part + 4] % 16;
    return low + (upper ? packed[part - (min ? 0 : 4)] / 64 * 16 : 0);
  }

  void dequantize(const uint8_t* block, float* out) const {
    uint16_t halves[2];
    std::memcpy(halves, block, sizeof(halves));
    for (int i = 0; i < 256; ++i) {
      const int part = i / 32;
      const auto scale = static_cast<float>(six_bits(block + 4, scale_of(part), false, upper_bits));
      const auto min = static_cast<float>(six_bits(block + 4, min_of(part), true, true));
      const uint8_t* run = block + 16 + i / 64 * 32;
      const int code = neighbours      ? (i % 2 == 0 ? run[i % 64 / 2] % 16 : run[i % 64 / 2] / 16)
                       : part % 2 == 0 ? run[i % 32] % 16
                                       : run[i % 32] / 16;
      out[i] = float_from_f16(halves[0]) * scale * static_cast<float>(code) -
               float_from_f16(halves[1]) * min;
    }
  }
};

class ReadsQ4K : public WrongKernels {
 public:
  explicit ReadsQ4K(PartsOfQ4K parts) : parts_(std::move(parts)) {}

 protected:
  void matmul(const MatmulCall& call) override {
    if (call.w.type != TensorType::kQ4_K) return right_->run(call);
    std::vector<float> weights(static_cast<size_t>(call.w.rows * call.w.columns));
    const auto* block = static_cast<const uint8_t*>(call.w.data);
    for (size_t at = 0; at < weights.size(); at += 256, block += 144) {
      parts_.dequantize(block, weights.data() + at);
    }
    MatmulCall floats = call;
    floats.w = {TensorType::kF32, call.w.rows, call.w.columns, weights.data()};
    right_->run(floats);
  }

 private:
  PartsOfQ4K parts_;
};

class CausesOfBlocks : public FaultyLogs {
 protected:
  void expect(const std::string& name, const std::string& type, Kernels& wrong,
              const std::string& checkpoints, const std::string& words) {
    const auto model = load(name, type);
    const auto right = make_reference_kernels();
    const std::string ref = log(*model, *right, "ref", checkpoints);
    const std::string got = log(*model, wrong, "got", checkpoints);
    const Comparison comparison = compare(model.get(), ref, got);
    ASSERT_THAT(comparison.causes, SizeIs(1)) << words << "; " << comparison.cause_hint;
    EXPECT_EQ(comparison.causes[0].name, "quant_block") << comparison.causes[0].sentence;
    EXPECT_THAT(comparison.causes[0].sentence, HasSubstr(words));
    EXPECT_GT(comparison.causes[0].explained, 0.999);
  }
};

TEST_F(CausesOfBlocks, NamesAMinimumOfTheWrongSign) {
  EditedBlocks wrong([](std::byte* block, int64_t, int64_t) { block[3] ^= std::byte{0x80}; },
                     Checkpoint::kFfnOut, TensorType::kQ4_K);
  for (const char* set : {"ops", "layers", "logits"}) {
    expect("qwen3", "q4_k_m", wrong, set, "takes the minimum of each block with the other sign");
  }
}

TEST_F(CausesOfBlocks, NamesPartsThatAreTakenForOthers) {
  const auto before = [](int part) { return (part + 7) % 8; };
  const auto next = [](int part) { return (part + 1) % 8; };
  const auto first = [](int part) { return part / 2 * 2; };
  const std::pair<PartsOfQ4K, const char*> slips[] = {
      {{.scale_of = before}, "gives each part of a block the scale of the one before"},
      {{.scale_of = next}, "gives each part of a block the scale of the next"},
      {{.min_of = before}, "gives each part of a block the minimum of the one before"},
      {{.scale_of = next, .min_of = next},
       "gives each part of a block the scale and minimum of the next"},
      {{.scale_of = first, .min_of = first},
       "gives every second part of a block the scale and minimum of the one before"},
      {{.min_of = [](int part) { return std::min(part, 6); }},
       "gives the last part of a block the minimum of the one before"},
      {{.upper_bits = false}, "leaves the upper two bits of the last four scales out"},
      {{.neighbours = true}, "takes the two codes of a byte for neighbours"}};
  for (const auto& [parts, words] : slips) {
    ReadsQ4K wrong(parts);
    for (const char* set : {"ops", "layers", "logits"})
      expect("qwen3", "q4_k_m", wrong, set, words);
  }
}

TEST_F(CausesOfBlocks, NamesHighBitsOfOtherElements) {
  // Q6_K: the four pairs of bits of a byte are of elements that are 32 apart.
  EditedBlocks neighbours(
      [](std::byte* block, int64_t, int64_t) {
        std::byte own[64];
        std::copy_n(block + 128, 64, own);
        std::fill_n(block + 128, 64, std::byte{0});
        for (int i = 0; i < 256; ++i) {
          const std::byte pair = own[i / 4] >> (i % 4 * 2) & std::byte{3};
          block[128 + i / 128 * 32 + i % 32] |= pair << (i % 128 / 32 * 2);
        }
      },
      Checkpoint::kFfnOut, TensorType::kQ6_K);
  // The codes without the 32 that is taken off.
  EditedBlocks with_sign(
      [](std::byte* block, int64_t, int64_t) {
        for (int i = 128; i < 192; ++i) block[i] ^= std::byte{0xAA};
      },
      Checkpoint::kFfnOut, TensorType::kQ6_K);
  for (const char* set : {"ops", "layers", "logits"}) {
    expect("qwen3", "q4_k_m", neighbours, set,
           "takes the high bits of a byte for those of neighbours");
    expect("qwen3", "q4_k_m", with_sign, set, "takes the codes for numbers with a sign");
  }
}

// The reading that the others differ from.
TEST_F(CausesOfBlocks, NamesNothingOfARightReading) {
  ReadsQ4K right_too{PartsOfQ4K()};
  const auto model = load("qwen3", "q4_k_m");
  const auto right = make_reference_kernels();
  const std::string ref = log(*model, *right, "ref", "ops");
  const std::string got = log(*model, right_too, "got", "ops");
  const Comparison comparison = compare(model.get(), ref, got);
  EXPECT_TRUE(comparison.pass);
  EXPECT_THAT(comparison.causes, SizeIs(0));
}

TEST_F(CausesOfBlocks, NamesTheScaleOfANeighbour) {
  std::byte before[2] = {};
  bool is_first = true;
  EditedBlocks wrong([&](std::byte* block, int64_t row, int64_t column) {
    is_first = row == 0 && column == 0;
    const std::byte own[2] = {block[0], block[1]};
    if (!is_first) std::copy_n(before, 2, block);
    std::copy_n(own, 2, before);
  });
  for (const char* set : {"ops", "layers", "logits"}) {
    expect("tinyllama", "q8_0", wrong, set, "gives each block the scale of the one before");
  }
}

TEST_F(CausesOfBlocks, NamesScalesThatWrapWithinARow) {
  EditedBlocks wrong([](std::byte* block, int64_t, int64_t column) {
    constexpr int64_t kLast = 3 * 34;
    if (column > 0) return;
    const std::byte last[2] = {block[kLast], block[kLast + 1]};
    for (int64_t at = kLast; at > 0; at -= 34) std::copy_n(block + at - 34, 2, block + at);
    std::copy_n(last, 2, block);
  });
  for (const char* set : {"ops", "layers", "logits"}) {
    expect("tinyllama", "q8_0", wrong, set,
           "gives each block the scale of the one before in its row, and the first that of the "
           "last");
  }
}

TEST_F(CausesOfBlocks, NamesCodesThatAreOffByOne) {
  CodesTooHigh wrong;
  for (const char* set : {"ops", "layers", "logits"}) {
    expect("tinyllama", "q8_0", wrong, set, "adds +1 to each code of a block");
  }
}

TEST_F(CausesOfBlocks, NamesTheEndOfRowsThatIsNotRead) {
  EditedBlocks wrong([](std::byte* block, int64_t, int64_t column) {
    if (column == 3) std::fill_n(block, 34, std::byte{0});
  });
  for (const char* set : {"ops", "layers", "logits"}) {
    expect("tinyllama", "q8_0", wrong, set, "does not read the last block of each row");
  }
}

// A file with a hole: some rows of a matrix have a block of zeros, and one is all zeros.
TEST_F(CausesOfBlocks, NamesZeroedBlocksOfSomeRows) {
  EditedBlocks wrong([](std::byte* block, int64_t row, int64_t column) {
    if ((row == 3 && column == 0) || (row == 17 && column == 1) || row == 40) {
      std::fill_n(block, 34, std::byte{0});
    }
  });
  expect("tinyllama", "q8_0", wrong, "ops",
         "has blocks of its weights taken for zeros, one in each of 3 rows, in row 3: columns 0 to "
         "31, row 17: columns 32 to 63, row 40: all columns");
}

// Breaks if rows that are off in no way a block explains were called damaged blocks.
TEST_F(CausesOfBlocks, RowsOfNoiseAreNoBlocks) {
  class NoisyRows : public WrongKernels {
   protected:
    void matmul(const MatmulCall& call) override {
      right_->run(call);
      if (call.site.checkpoint != Checkpoint::kAttnOut) return;
      for (int64_t t = 0; t < call.n_tokens; ++t) {
        for (const int64_t row : {3, 17, 40}) call.out[t * call.w.rows + row] += normal_(random_);
      }
    }

   private:
    std::mt19937 random_{1};
    std::normal_distribution<float> normal_{0, 0.5F};
  } noisy;
  const auto model = load("tinyllama", "q8_0");
  const auto right = make_reference_kernels();
  const std::string ref = log(*model, *right, "ref", "ops");
  const std::string got = log(*model, noisy, "got", "ops");
  EXPECT_THAT(compare(model.get(), ref, got).causes, SizeIs(0));
}

}  // namespace
}  // namespace assay
