#include "kernels/arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "base/error.h"

namespace assay {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr size_t kMiB = size_t{1} << 20;

// A device of `limit` bytes that writes down what it is asked for.
class ArenaTest : public ::testing::Test {
 protected:
  std::unique_ptr<Arena> arena(size_t limit, size_t gap = 0) {
    limit_ = limit;
    const auto take = [this](size_t bytes) {
      asked_.push_back(bytes);
      if (bytes > limit_ - taken_) throw Error("no memory for " + std::to_string(bytes));
      taken_ += bytes;
      void* block = operator new (bytes, std::align_val_t{Arena::kAlignment});
      sizes_[block] = bytes;
      return block;
    };
    const auto give_back = [this](void* block) {
      taken_ -= sizes_.at(block);
      sizes_.erase(block);
      operator delete (block, std::align_val_t{Arena::kAlignment});
    };
    return std::make_unique<Arena>(Arena::Source{take, give_back}, gap);
  }

  size_t limit_ = 0;
  size_t taken_ = 0;
  std::vector<size_t> asked_;
  std::map<void*, size_t> sizes_;
};

// One call of the device for each tensor is what an arena is there to avoid.
TEST_F(ArenaTest, ManyPiecesComeFromOneBlock) {
  const auto pieces = arena(1024 * kMiB);
  for (int i = 0; i < 1000; ++i) EXPECT_NE(pieces->allocate(5000), nullptr);
  EXPECT_THAT(asked_, ElementsAre(Arena::kBlockBytes));
}

// Weights of a model are asked for in one go, so that too little memory is reported at once.
TEST_F(ArenaTest, ReservedPiecesComeFromOneBlockOfThatSize) {
  const auto pieces = arena(1024 * kMiB);
  pieces->reserve(pieces->rounded(100 * kMiB) + pieces->rounded(1) + pieces->rounded(70 * kMiB));
  pieces->allocate(100 * kMiB);
  pieces->allocate(1);
  pieces->allocate(70 * kMiB);
  EXPECT_THAT(asked_, ElementsAre(170 * kMiB + Arena::kAlignment));
}

// Pieces that overlap would change each other's contents.
TEST_F(ArenaTest, PiecesAreAlignedAndApartWhateverIsReleased) {
  const auto pieces = arena(1024 * kMiB, 256);
  std::mt19937 random(1);
  std::vector<std::pair<unsigned char*, size_t>> held;
  for (int i = 0; i < 4000; ++i) {
    if (held.size() < 40 || random() % 2 == 0) {
      const size_t bytes = 1 + random() % 300000;
      auto* piece = static_cast<unsigned char*>(pieces->allocate(bytes));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(piece) % Arena::kAlignment, 0U);
      std::memset(piece, static_cast<int>(bytes % 251), bytes);
      held.emplace_back(piece, bytes);
    } else {
      std::swap(held[random() % held.size()], held.back());
      const auto [piece, bytes] = held.back();
      held.pop_back();
      for (size_t at = 0; at < bytes; at += 97) ASSERT_EQ(piece[at], bytes % 251);
      EXPECT_EQ(piece[bytes - 1], bytes % 251);
      pieces->release(piece);
    }
  }
  for (const auto& [piece, bytes] : held) pieces->release(piece);
  // All is one piece again.
  EXPECT_EQ(pieces->n_blocks(), asked_.size());
  const size_t n_asked = asked_.size();
  for (size_t i = 0; i < n_asked; ++i) pieces->allocate(Arena::kBlockBytes - 256);
  EXPECT_EQ(asked_.size(), n_asked);
}

// A device that has room for what is needed, but not for a whole block.
TEST_F(ArenaTest, ReservedSizeSuffices) {
  const auto pieces = arena(10 * kMiB);
  EXPECT_NE(pieces->allocate(3 * kMiB), nullptr);
  EXPECT_THAT(asked_, ElementsAre(Arena::kBlockBytes, 3 * kMiB));
}

TEST_F(ArenaTest, OutOfMemoryThrowsAndChangesNothing) {
  const auto pieces = arena(100 * kMiB);
  pieces->allocate(60 * kMiB);
  EXPECT_THAT([&] { pieces->allocate(90 * kMiB); },
              ThrowsMessage<Error>(HasSubstr("no memory for 94371840")));
  EXPECT_THAT([&] { pieces->reserve(90 * kMiB); },
              ThrowsMessage<Error>(HasSubstr("no memory for 94371840")));
  EXPECT_THROW(pieces->allocate(static_cast<size_t>(-1)), Error);
  EXPECT_THROW(pieces->reserve(static_cast<size_t>(-1)), Error);
  EXPECT_NE(pieces->allocate(3 * kMiB), nullptr);
}

// A buffer that grows is released before the larger one is asked for: both do not fit.
TEST_F(ArenaTest, ReleasesAnEmptyBlockBeforeTakingAnother) {
  const auto pieces = arena(100 * kMiB);
  pieces->release(pieces->allocate(70 * kMiB));
  EXPECT_NE(pieces->allocate(90 * kMiB), nullptr);
}

TEST_F(ArenaTest, ZeroBytesAreNullAndForeignPiecesIgnored) {
  const auto pieces = arena(100 * kMiB);
  EXPECT_EQ(pieces->allocate(0), nullptr);
  EXPECT_TRUE(asked_.empty());
  int stranger = 0;
  pieces->release(&stranger);
  pieces->release(nullptr);
  EXPECT_NE(pieces->allocate(1), nullptr);
}

}  // namespace
}  // namespace assay
