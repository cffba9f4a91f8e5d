#pragma once

#include "kernels/cuda/packed.h"

// How a warp comes by the packed blocks that it multiplies, by way of shared memory.
namespace assay::ASSAY_DEVICE {

struct FourWords {
  uint32_t of[4];
  __device__ void load(const Shared<uint4>& words, int at) {
    const uint4 four = words[at];
    of[0] = four.x;
    of[1] = four.y;
    of[2] = four.z;
    of[3] = four.w;
  }
};

struct FourFloats {
  float of[4];
  __device__ void load(const Shared<uint4>& words, int at) {
    FourWords four;
    four.load(words, at);
    ASSAY_UNROLL
    for (int i = 0; i < 4; ++i) of[i] = float_from_bits(four.of[i]);
  }
};

// What a thread multiplies of a tile's block.
template <class Form>
struct BlockOfRows {
  FourWords codes[2];
  FourFloats scales[Form::kUnits];
  FourFloats shifts[Form::kUnits];
};
template <class Form>
struct BlockOfTokens {
  FourWords codes[2];
  FourFloats scales[2];
  FourFloats sums[Form::kUnits][2];
};

// Which floats of a block are needed, in their order in shared memory.
template <class Form>
struct FloatsOfRows {
  static constexpr int kCount = Form::kUnits * (Form::kHasShifts ? 2 : 1);
  __device__ static constexpr int which(int i) {
    return i < Form::kUnits ? kScales + i : kShifts + i - Form::kUnits;
  }
};
template <class Form>
struct FloatsOfTokens {
  static constexpr int kCount = 1 + (Form::kHasShifts ? Form::kUnits : 0);
  __device__ static constexpr int which(int i) {
    return i == 0 ? kXScales : Form::kUnits == 1 ? kXSums : kXHalfSums + i - 1;
  }
};

// Packed blocks on a warp's way through kTiles tiles: one is copied while the one before it is
// multiplied.
template <class PackedForm, class Floats, int kTiles>
class PackedBlocks {
 public:
  using Form = PackedForm;
  // Of shared memory: a slot for either block.
  static constexpr int kSlotWords = kTiles * (kTileWords + Floats::kCount * kFloatWords);
  static constexpr int kWarpWords = 2 * kSlotWords;

  // The blocks of the tiles from `tile` on, with room for kWarpWords from words[room] on.
  __device__ PackedBlocks(const Global<const uint8_t>& blocks, int64_t tile, int n_blocks,
                          const Shared<uint4>& words, int room)
      : blocks_(blocks.from(tile / kPackedTiles * n_blocks * kPackedBlockBytes)),
        first_(kTiles == kPackedTiles ? 0 : static_cast<int>(tile % kPackedTiles)),
        n_blocks_(n_blocks),
        words_(words),
        next_(room),
        own_(room + kSlotWords) {}

  // Begins to copy block `block`, if there is one.
  __device__ void request(int block) {
    if (block >= n_blocks_) return;
    const Global<const uint8_t> from = blocks_.from(block * kPackedBlockBytes);
    const auto copy = [&](int word, int to) {
      copy_to_shared(words_, next_ + to, from, word * static_cast<int>(sizeof(uint4)));
    };
    ASSAY_UNROLL
    for (int i = 0; i < 2 * kTiles; ++i) {
      const int own = i * kTileWarp + thread_.lane;
      copy(first_ * kTileWords + own, own);
    }
    if (thread_.lane >= kFloats) return;
    ASSAY_UNROLL
    for (int i = 0; i < Floats::kCount; ++i) {
      const int own = first_ * kFloatWords + thread_.lane;
      copy(float_at(Floats::which(i), 0, 0) / 4 + own,
           kTiles * kTileWords + i * kFloats + thread_.lane);
    }
  }

  // The block that was requested, and has come, is the one to load.
  __device__ void take() {
    const int next = own_;
    own_ = next_;
    next_ = next;
  }

  __device__ void load(int tile, BlockOfRows<Form>& block) const {
    load_codes(tile, block.codes);
    const int word = thread_.lane / 4;
    ASSAY_UNROLL
    for (int unit = 0; unit < Form::kUnits; ++unit) {
      load_floats(unit, tile, word, block.scales[unit]);
      if constexpr (Form::kHasShifts) {
        load_floats(Form::kUnits + unit, tile, word, block.shifts[unit]);
      }
    }
  }
  __device__ void load(int tile, BlockOfTokens<Form>& block) const {
    load_codes(tile, block.codes);
    ASSAY_UNROLL
    for (int i = 0; i < 2; ++i) {
      const int word = thread_.lane % 4 + 4 * i;
      load_floats(0, tile, word, block.scales[i]);
      if constexpr (Form::kHasShifts) {
        ASSAY_UNROLL
        for (int unit = 0; unit < Form::kUnits; ++unit) {
          load_floats(1 + unit, tile, word, block.sums[unit][i]);
        }
      }
    }
  }

 private:
  static constexpr int kFloats = kTiles * kFloatWords;

  __device__ void load_codes(int tile, FourWords (&codes)[2]) const {
    ASSAY_UNROLL
    for (int i = 0; i < 2; ++i) {
      codes[i].load(words_, own_ + tile * kTileWords + i * kTileWarp + thread_.lane);
    }
  }
  __device__ void load_floats(int i, int tile, int word, FourFloats& four) const {
    four.load(words_, own_ + kTiles * kTileWords + i * kFloats + tile * kFloatWords + word);
  }

  const ThreadInTile thread_;
  Global<const uint8_t> blocks_;
  int first_;
  int n_blocks_;
  const Shared<uint4>& words_;
  int next_;
  int own_;
};

}  // namespace assay::ASSAY_DEVICE
