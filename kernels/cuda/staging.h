#pragma once

#include "kernels/cuda/lanes.h"
#include "kernels/cuda/weights.h"

// How a row of weights comes from device memory: a group of threads copies 256 elements of it at a
// time, as words of 16 bytes, to shared memory, where each thread finds its codes. While these are
// multiplied, the next ones are under way, as many as there is room for: that is what keeps memory
// busy.
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

// How far behind a multiple of 16 bytes a chunk may begin.
template <class Type>
constexpr uint32_t kMostBehind = Type::kBytes % 16 == 0 ? 0 : 16 - (Type::kBytes % 2 == 0 ? 2 : 1);

// Words of 16 bytes in which a chunk lies, wherever it begins.
template <class Type>
constexpr int kChunkWords = (kChunkBytes<Type> + kMostBehind<Type> + 15) / 16;

// The shared memory of a block: for each group room for some chunks, of which one is read and the
// others are under way, and for the factors of two. One more of each stands behind those of a
// group, so that the same place of several groups is in several banks.
constexpr int kRoomWords = 72;
constexpr int kGroupWords = kRoomWords + 1;
constexpr int kGroupFactors = 2 * kLanes + 1;

// Chunks that have room.
template <class Type>
constexpr int kSlots = kRoomWords / kChunkWords<Type>;

struct Stage {
  Shared<uint4> words;     // [groups, kGroupWords]
  Shared<Factor> factors;  // [groups, kGroupFactors]
};

// `factor_groups`: 0 where no factors are shared.
#define ASSAY_STAGE(name, groups, factor_groups)                           \
  ASSAY_SHARED(uint4, name##_words, (groups)*kGroupWords);                 \
  ASSAY_SHARED(Factor, name##_factors, (factor_groups)*kGroupFactors + 1); \
  Stage name = {Shared<uint4>(name##_words), Shared<Factor>(name##_factors)}

// Lets a row, and its bias, come from memory to the second-level cache, while something else is
// done. A group of kGroupThreads calls it.
template <int kGroupThreads>
__device__ void prefetch_row(const Rows& rows, int64_t row) {
  constexpr int kLine = 128;
  const int own = static_cast<int>(threadIdx.x) % kGroupThreads;
  for (int at = own * kLine; at < rows.stride; at += kGroupThreads * kLine) {
    prefetch(rows.data, row * rows.stride + at);
  }
  if (own == 0 && rows.bias) prefetch(rows.bias, row);
}

// A row on its way through the stage of a group of kGroupThreads. All threads of a warp must go
// through the same steps, and so through rows of one type and length.
template <class Type, int kGroupThreads>
class RowReader {
 public:
  __device__ RowReader(const Rows& rows, int64_t row, Stage& stage)
      : stage_(stage),
        group_(static_cast<int>(threadIdx.x) / kGroupThreads),
        own_(static_cast<int>(threadIdx.x) % kGroupThreads),
        row_(rows.data.from(row * rows.stride / 16 * 16)),
        at_(static_cast<uint32_t>(row * rows.stride % 16)),
        requested_(at_),
        end_(at_ + static_cast<uint32_t>(rows.stride)) {
    __syncwarp();  // the row before this one is no longer read
    ASSAY_UNROLL
    for (int i = 0; i < kSlots<Type> - 1; ++i) request(i);
  }

  // Where the next chunk of the row is, in shared memory.
  __device__ const uint8_t* next() {
    const uint8_t* chunk = await();
    request_another();
    return chunk;
  }

  // The two parts of next(). await() returns once the chunk has come, and once no lane of the warp
  // still reads the chunk before it, whose slot is then filled again.
  __device__ const uint8_t* await() {
    slot_ = slot_ + 1 == kSlots<Type> ? 0 : slot_ + 1;
    wait_for_copies<kSlots<Type> - 2>();
    __syncwarp();
    const uint32_t offset = at_ % 16;
    const uint32_t n_words = (chunk_end(at_) + 15) / 16 - at_ / 16;
    at_ = chunk_end(at_);
    return reinterpret_cast<const uint8_t*>(range_of(stage_.words, words_of(slot_), n_words)) +
           offset;
  }

  __device__ void request_another() { request(slot_ == 0 ? kSlots<Type> - 1 : slot_ - 1); }

  // Of the chunk that next() gave, of `n` elements: scale and shift of each Type::kGroup, from the
  // index on that is returned. `turn` is 0 or 1.
  __device__ int share_factors(const uint8_t* chunk, uint32_t n, int turn) {
    const int at = group_ * kGroupFactors + turn * kLanes;
    ASSAY_UNROLL
    for (int i = own_; i < kLanes; i += kGroupThreads) {
      const auto element = static_cast<uint32_t>(i * Type::kGroup);
      if (element >= n) break;
      const uint8_t* block = chunk + element / Type::kElements * Type::kBytes;
      stage_.factors[at + i] = Type::factor(block, element % Type::kElements / Type::kGroup);
    }
    __syncwarp();
    return at;
  }

  // The slot of the chunk that next() gave.
  __device__ int slot() const { return slot_; }

 private:
  // Chunks begin and end at multiples of 16, and all are of one size.
  static constexpr bool kWhole = Type::kBytes % 16 == 0;

  __device__ uint32_t chunk_end(uint32_t at) const {
    return end_ - at < kChunkBytes<Type> ? end_ : at + kChunkBytes<Type>;
  }
  __device__ int words_of(int slot) const {
    return group_ * kGroupWords + slot * kChunkWords<Type>;
  }

  // Begins to copy the chunk at requested_, if there is one.
  __device__ void request(int slot) {
    const uint32_t last = chunk_end(requested_);
    ASSAY_UNROLL
    for (int first = 0; first < kChunkWords<Type>; first += kGroupThreads) {
      const int word = first + own_;
      const uint32_t at = (requested_ / 16 + static_cast<uint32_t>(word)) * 16;
      if (requested_ != end_ && (kWhole ? word < kChunkWords<Type> : at < last)) {
        copy_to_shared(stage_.words, words_of(slot) + word, row_, at);
      }
    }
    close_copies();
    requested_ = last;
  }

  Stage& stage_;
  int group_;
  int own_;                    // of the group's threads
  Global<const uint8_t> row_;  // from the multiple of 16 at or before it
  int slot_ = kSlots<Type> - 1;
  uint32_t at_;         // where the next chunk begins
  uint32_t requested_;  // and the next one that is not under way
  uint32_t end_;
};

}  // namespace assay::ASSAY_DEVICE
