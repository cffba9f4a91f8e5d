#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "assay/mistakes/blocks.h"
#include "assay/weights/compare_weights.h"
#include "tests/support/paths.h"
#include "tests/weights/edited_model.h"

namespace assay {
namespace {

using testing::HasSubstr;
using Values = EditedModel::Values;
using Edit = std::function<void(uint8_t* block)>;

constexpr const char* kDown = "blk.1.ffn_down.weight";  // rows of whole blocks of 256

class PackingMistakes : public testing::Test {
 protected:
  // What is said of a tensor that is stored as `type`, its blocks edited, and called `called`.
  std::string said_of(TensorType type, const Edit& edit, TensorType called) {
    EditedModel got = right_;
    got.put(kDown, got.values(kDown), type);
    got.edit_blocks(kDown, edit, called);
    const WeightsComparison comparison = compare_weights(ref_, got.gguf(), {});
    EXPECT_EQ(comparison.verdict, WeightsVerdict::kMismatch) << tensor_type_info(type).name;
    return std::ranges::find(comparison.tensors, kDown, &TensorResult::name)->reason;
  }
  std::string said_of(TensorType type, const Edit& edit) { return said_of(type, edit, type); }

  const std::string path_ = source_path("golden/llama3/llama3-f32.gguf");
  const Gguf ref_{path_};
  EditedModel right_{path_};
};

void set_zero(uint8_t* begin, int n) {
  std::fill_n(begin, n, uint8_t{0});
}

// What would break: a layout in the table that is not the type's, or a name for another mistake.
TEST_F(PackingMistakes, OfBytesThatAreWrittenHereAreNamed) {
  EXPECT_THAT(said_of(TensorType::kQ4_1, [](uint8_t* b) { set_zero(b + 2, 2); }),
              HasSubstr("lacks the minimum of each block"));
  EXPECT_THAT(said_of(TensorType::kQ4_K, [](uint8_t* b) { set_zero(b + 2, 2); }),
              HasSubstr("lacks the minimum of each block"));
  EXPECT_THAT(said_of(TensorType::kQ2_K, [](uint8_t* b) { b[83] ^= 0x80; }),
              HasSubstr("minimum of each block with the other sign"));
  EXPECT_THAT(said_of(TensorType::kQ5_K, [](uint8_t* b) { set_zero(b + 16, 32); }),
              HasSubstr("lacks the high bits"));
  EXPECT_THAT(said_of(TensorType::kQ5_0, [](uint8_t* b) { set_zero(b + 2, 4); }),
              HasSubstr("lacks the high bits"));
  EXPECT_THAT(
      said_of(TensorType::kQ6_K, [](uint8_t* b) { std::rotate(b + 192, b + 207, b + 208); }),
      HasSubstr("has in each part of a block the scale of the one before"));
  const Edit exchange = [](uint8_t* b) {
    for (int i = 16; i < 144; ++i) b[i] = static_cast<uint8_t>(b[i] >> 4 | b[i] << 4);
  };
  EXPECT_THAT(said_of(TensorType::kQ4_K, exchange),
              HasSubstr("codes of each byte in the other order"));
  // Codes of -8 to 7 in four bits, without the 8 that is added to them.
  const Edit without_offset = [](uint8_t* b) {
    for (int i = 2; i < 18; ++i) b[i] ^= 0x88;
  };
  EXPECT_THAT(said_of(TensorType::kQ4_0, without_offset), HasSubstr("codes with a sign"));
}

// What would break: a quantiser whose table is no known one, called wrong without a reason.
TEST_F(PackingMistakes, ACodeOfAnotherValueIsNamed) {
  EditedModel got = right_;
  got.put(kDown, got.values(kDown), TensorType::kIQ4_NL);
  EditedModel ref = right_;
  Values values = got.values_now(kDown);
  const std::byte* blocks = got.at(kDown).data.data();
  for (size_t i = 0; i < values.size(); ++i) {
    const auto byte = std::to_integer<int>(blocks[i / 32 * 18 + 2 + i % 16]);
    const int code = i % 32 < 16 ? byte & 15 : byte >> 4;
    if (code == 15) values[i] *= 150.0F / 113.0F;
  }
  ref.put(kDown, values, TensorType::kF32);
  const WeightsComparison comparison = compare_weights(ref.gguf(), got.gguf(), {});
  EXPECT_THAT(std::ranges::find(comparison.tensors, kDown, &TensorResult::name)->reason,
              HasSubstr("stand for other values than those of IQ4_NL: 15 for 150, not 113"));
}

TEST_F(PackingMistakes, BytesOfAnotherTypeAreNamed) {
  const Edit none = [](uint8_t*) {};
  EXPECT_THAT(said_of(TensorType::kF16, none, TensorType::kBF16), HasSubstr("the bytes of F16"));
  EXPECT_THAT(said_of(TensorType::kBF16, none, TensorType::kF16), HasSubstr("the bytes of BF16"));
  EXPECT_THAT(said_of(TensorType::kIQ4_NL, none, TensorType::kQ4_0),
              HasSubstr("the bytes of IQ4_NL, which are read as Q4_0"));
}

// What would break: two mistakes of a type that are the same bytes, so that one has no name.
TEST_F(PackingMistakes, EachThatIsKnownIsNamed) {
  size_t n = 0;
  for (const mistakes::BlockMistake& mistake : mistakes::block_edits()) {
    // One part of 16, where two bits leave room for the error.
    const bool is_of_last = mistake.packing.find("the last part") != std::string::npos;
    if (is_of_last && mistake.type == TensorType::kQ2_K) continue;
    ++n;
    const size_t size = tensor_type_info(mistake.type).block_bytes;
    const std::string said = said_of(mistake.type, [&](uint8_t* block) {
      mistake.edit({reinterpret_cast<std::byte*>(block), size});
    });
    const bool is_named = said.find(mistake.packing) != std::string::npos ||
                          said.find("elements exchanged with the next") != std::string::npos;
    EXPECT_TRUE(is_named) << tensor_type_info(mistake.type).name << " " << mistake.packing << ": "
                          << said;
  }
  EXPECT_GT(n, 150U);
}

}  // namespace
}  // namespace assay
