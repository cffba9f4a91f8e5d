#pragma once

#include "kernels/cuda/lanes.h"
#include "kernels/cuda/weights.h"

// How a row of weights comes from device memory: a group of 16 lanes reads 256 elements of it at a
// time with loads of 16 bytes, one after the other, into shared memory, where each lane finds its
// codes. The next 256 are under way while these are multiplied.
namespace assay::ASSAY_DEVICE {

// A weight matrix on the device, at a multiple of 16, and what is added to its products.
struct Rows {
  Global<const uint8_t> data;
  TensorType type;
  int stride;  // bytes from row to row
  int columns;
  int64_t n_rows;
  Global<const float> bias;  // [n_rows] or null
};

// A row is read in chunks of so many elements, fewer at its end.
template <class Type>
constexpr int kChunk = Type::kElements > 1 ? 256 : 256 / Type::kBytes;

template <class Type>
constexpr uint32_t kChunkBytes = kChunk<Type> / Type::kElements* Type::kBytes;

// Words of 16 bytes in which a chunk lies, wherever it begins.
template <class Type>
constexpr int kChunkWords = (kChunkBytes<Type> + (Type::kBytes % 16 == 0 ? 0 : 14) + 15) / 16;
constexpr int kStageWords = 18;  // the most of all types: eight blocks of Q8_0

// The shared memory of a block: for each group two chunks, one to read from and one to fill, and
// the factors of a chunk. One more of each stands behind those of a group, so that the same place
// of several groups is in several banks.
constexpr int kGroupWords = 2 * kStageWords + 1;
constexpr int kGroupFactors = 2 * kLanes + 1;

struct Stage {
  Shared<uint4> words;     // [groups, kGroupWords]
  Shared<Factor> factors;  // [groups, kGroupFactors]
  // Which of the two is filled next. It goes on from row to row: the lanes that still read the last
  // chunk of one must not find the next one's first there.
  int turn;
};

#define ASSAY_STAGE(name, groups)                               \
  ASSAY_SHARED(uint4, name##_words, (groups)*kGroupWords);      \
  ASSAY_SHARED(Factor, name##_factors, (groups)*kGroupFactors); \
  Stage name = {Shared<uint4>(name##_words), Shared<Factor>(name##_factors), 0}

// The 16 bytes at `at`, a multiple of 16, of which those from `total`, an even number, on are not
// there.
__device__ inline uint4 load_word(const Global<const uint8_t>& data, uint32_t at, uint32_t total) {
  if (at + 16 <= total) return load_wide(data, at);
  uint32_t parts[4] = {};
  ASSAY_UNROLL
  for (uint32_t i = 0; i < 16; i += 2) {
    if (at + i >= total) continue;
    const uint32_t two = load_as<uint16_t>(data.range(at + i, 2));
    parts[i / 4] |= two << (i % 4 * 8);
  }
  return {parts[0], parts[1], parts[2], parts[3]};
}

// A row on its way through a group's stage. All lanes of a warp must go through the same steps, and
// so through rows of one type and length.
template <class Type>
class RowReader {
 public:
  __device__ RowReader(const Rows& rows, int64_t row, Stage& stage)
      : stage_(stage),
        group_(static_cast<int>(threadIdx.x) / kLanes),
        row_(rows.data.from(row * rows.stride / 16 * 16)),
        at_(static_cast<uint32_t>(row * rows.stride % 16)),
        end_(at_ + static_cast<uint32_t>(rows.stride)),
        readable_(end_) {
    const int64_t behind = (rows.n_rows - row - 1) * rows.stride;
    readable_ += behind < 16 ? static_cast<uint32_t>(behind) : 16;
    load();
  }

  // Where the next chunk of the row begins, in shared memory.
  __device__ const uint8_t* next() {
    const int slot = group_ * kGroupWords + stage_.turn * kStageWords;
    const uint32_t first = at_ / 16;
    ASSAY_UNROLL
    for (int i = 0; i < kLoads; ++i) {
      const int word = i * kLanes + lane_of_group();
      if ((first + static_cast<uint32_t>(word)) * 16 < chunk_end()) {
        stage_.words[slot + word] = words_[i];
      }
    }
    const uint32_t offset = at_ % 16;
    const uint32_t n_words = (chunk_end() + 15) / 16 - first;
    at_ = chunk_end();
    load();
    __syncwarp();
    stage_.turn ^= 1;
    return reinterpret_cast<const uint8_t*>(range_of(stage_.words, slot, n_words)) + offset;
  }

  // Of the chunk that next() gave, of `n` elements: scale and shift of each Type::kGroup.
  __device__ int share_factors(const uint8_t* chunk, int n) {
    const int slot = group_ * kGroupFactors + (stage_.turn ^ 1) * kLanes;
    const int element = lane_of_group() * Type::kGroup;
    if (element < n) {
      const uint8_t* block = chunk + element / Type::kElements * Type::kBytes;
      stage_.factors[slot + lane_of_group()] =
          Type::factor(block, element % Type::kElements / Type::kGroup);
    }
    __syncwarp();
    return slot;
  }

 private:
  static constexpr int kLoads = (kChunkWords<Type> + kLanes - 1) / kLanes;
  __device__ uint32_t chunk_end() const {
    return end_ - at_ < kChunkBytes<Type> ? end_ : at_ + kChunkBytes<Type>;
  }

  // The lane's words of the chunk at at_.
  __device__ void load() {
    ASSAY_UNROLL
    for (int i = 0; i < kLoads; ++i) {
      const uint32_t at = (at_ / 16 + static_cast<uint32_t>(i * kLanes + lane_of_group())) * 16;
      if (at < chunk_end()) words_[i] = load_word(row_, at, readable_);
    }
  }

  Stage& stage_;
  int group_;
  Global<const uint8_t> row_;  // from the multiple of 16 at or before it
  uint32_t at_;                // where the next chunk begins
  uint32_t end_;
  uint32_t readable_;  // as end_, and as much of the following rows as the last word takes
  uint4 words_[kLoads] = {};
};

}  // namespace assay::ASSAY_DEVICE
