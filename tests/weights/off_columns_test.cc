#include "assay/weights/off_columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "assay/weights/compare_weights.h"
#include "tests/support/paths.h"
#include "tests/weights/edited_model.h"

namespace assay {
namespace {

// Columns of which `is_off` are off by `times` of what storing costs, the others by as much.
std::optional<OffColumns> off_where(int n, double times, const std::function<bool(int)>& is_off) {
  std::vector<ColumnSquares> columns;
  for (int i = 0; i < n; ++i) columns.push_back({is_off(i) ? times * times : 1.0, 1.0, 100.0});
  return off_columns(columns, 1.5);
}

// What would break: one element of each block, or a part of it, that is lost in the tensor's error.
TEST(OffColumns, FindsThePlaceInABlock) {
  auto off = off_where(512, 2.0, [](int i) { return i % 32 == 31; });
  ASSERT_TRUE(off);
  EXPECT_EQ(off->first, 31);
  EXPECT_EQ(off->last, 31);
  EXPECT_EQ(off->period, 32);
  EXPECT_DOUBLE_EQ(off->rel_l2, 0.2);
  EXPECT_DOUBLE_EQ(off->expected, 0.1);
  EXPECT_FALSE(off->is_one_of_several);
  off = off_where(512, 2.0, [](int i) { return i % 32 >= 16; });
  ASSERT_TRUE(off);
  EXPECT_EQ(off->first, 16);
  EXPECT_EQ(off->last, 31);
  EXPECT_EQ(off->period, 32);
  off = off_where(2048, 2.0, [](int i) { return i % 256 == 7 || i % 256 == 100; });
  ASSERT_TRUE(off);
  EXPECT_EQ(off->first, 7);
  EXPECT_EQ(off->period, 256);
  EXPECT_TRUE(off->is_one_of_several);
}

// What would break: an honest quantiser that is called wrong where it rounds columns worse that
// matter less: single ones, those of a head, the last ones of a row, or all of them.
TEST(OffColumns, LeavesColumnsAloneThatFollowNoBlock) {
  const auto of_two_blocks_in_three = [](int i) { return i % 32 == 31 && i % 3 != 0; };
  for (const auto& is_off : std::vector<std::function<bool(int)>>{
           [](int i) { return i % 37 == 5; }, [](int i) { return i < 64; },
           [](int i) { return i >= 384; }, [](int) { return true; }, of_two_blocks_in_three}) {
    EXPECT_FALSE(off_where(512, 4.0, is_off));
  }
  EXPECT_FALSE(off_where(512, 1.45, [](int i) { return i % 32 == 31; }));
}

// What would break: two or three columns that are far off by chance.
TEST(OffColumns, AllowsMoreWhereARowHasFewBlocks) {
  const auto last = [](int i) { return i % 32 == 31; };
  EXPECT_FALSE(off_where(128, 2.9, last));
  EXPECT_TRUE(off_where(128, 3.1, last));
  EXPECT_FALSE(off_where(96, 100.0, last));
}

// What would break: a file that is rounded by importance, or with error feedback, called wrong
// without a word about what that may be; or cut off codes taken for it.
TEST(OffColumns, ErrorsByImportanceAreSaidToBeSo) {
  const std::string path = source_path("golden/llama3/llama3-f32.gguf");
  const std::string wide = "blk.1.ffn_down.weight";
  const Gguf ref(path);
  const auto columns = static_cast<size_t>(ref.find_tensor(wide)->columns());
  const auto reason_with = [&](const std::function<float(size_t column)>& off_by) {
    EditedModel got(path);
    EditedModel::Values values = got.values(wide);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] += i * 2654435761U % 4096 < 2048 ? off_by(i % columns) : -off_by(i % columns);
    }
    got.put(wide, values, TensorType::kQ4_0);
    const WeightsComparison comparison = compare_weights(ref, got.gguf(), {});
    const TensorResult& result = *std::ranges::find(comparison.tensors, wide, &TensorResult::name);
    EXPECT_EQ(result.status, TensorStatus::kWrong);
    return result.reason;
  };
  const auto says = testing::HasSubstr("weighs columns or feeds errors back");
  EXPECT_THAT(reason_with([](size_t column) { return column % 37 < 9 ? 0.03F : 0.0F; }), says);
  EXPECT_THAT(reason_with([](size_t) { return 0.03F; }), testing::Not(says));
}

// What would break: one element of each block that is packed wrongly, which is not more for the
// whole tensor than another quantiser may lose.
TEST(OffColumns, AWrongPlaceInEachBlockIsFound) {
  const std::string path = source_path("golden/llama3/llama3-f32.gguf");
  const std::string wide = "blk.1.ffn_down.weight";
  const Gguf ref(path);
  EditedModel last(path);
  last.put(wide, last.values(wide), TensorType::kQ4_0);
  last.edit_blocks(wide, [](uint8_t* block) {
    if (block[17] < 0xF0) block[17] = static_cast<uint8_t>(block[17] + 0x10);  // element 31's code
  });
  const WeightsComparison comparison = compare_weights(ref, last.gguf(), {});
  const TensorResult& result = *std::ranges::find(comparison.tensors, wide, &TensorResult::name);
  EXPECT_EQ(result.status, TensorStatus::kWrong);
  EXPECT_LT(result.ratio(), 1.5);
  EXPECT_THAT(result.reason, testing::HasSubstr("column 31 of each 32 is off by"));
  const WeightsComparison of_more = compare_weights(ref, last.gguf(), {.k = 5.0});
  EXPECT_EQ(std::ranges::find(of_more.tensors, wide, &TensorResult::name)->status,
            TensorStatus::kRounded);
}

}  // namespace
}  // namespace assay
