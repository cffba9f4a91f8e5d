#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/emulated/source_place.h"

namespace assay::emulated {

// The most that every device of compute capability 8.0 and up gives a block: that of 8.6 and 8.9.
constexpr size_t kMaxSharedBytes = size_t{99} * 1024;

// A thread at one moment: what decides whether two accesses are ordered.
struct Accessor {
  int thread = 0;
  uint32_t barriers = 0;    // that the block has passed
  uint32_t warp_syncs = 0;  // that the warp has passed since then
};

// The shared memory of a block. It knows for each element who wrote and read it last, and finds
// elements that are read before anyone wrote them, that are beyond an array's end, or that two
// threads touch, one of them writing, with neither a barrier nor a __syncwarp of both in between.
class SharedMemory {
 public:
  struct Array;

  SharedMemory();
  ~SharedMemory();

  // Forgets the arrays: another block begins. `dynamic_bytes` is what the launch gave.
  void begin_block(size_t dynamic_bytes);

  // The array that `key` stands for, declared at `place`; made by the first thread that gets there.
  // Throws Error if the block then takes more than every device gives.
  Array& array(const void* key, const char* name, size_t element_bytes, size_t count,
               const Place& place);
  // That of all dynamic shared memory, of which a block has one. Throws Error if it was declared
  // with elements of another size.
  Array& dynamic_array(const char* name, size_t element_bytes, const Place& place);

  // These return what is wrong, or nothing.
  std::string read(Array& array, int64_t index, const Accessor& who, const Place& place);
  std::string write(Array& array, int64_t index, const Accessor& who, const Place& place);

  // By a copy that has begun, and is under way until finish_copy(); the element is not to be
  // touched meanwhile, and then was written by `who`. `bytes`: as many as an element has.
  std::string begin_copy(Array& array, int64_t index, const Accessor& who, const Place& place);
  void finish_copy(Array& array, int64_t index, const unsigned char* bytes, const Accessor& who,
                   const Place& place);

  static unsigned char* element(Array& array, int64_t index);

  void pass_barrier();
  uint32_t barriers() const { return barriers_; }  // that the block has passed
  // The lanes of `mask` of a warp passed a __syncwarp.
  void pass_warp_sync(unsigned warp, uint32_t mask);
  Accessor accessor(unsigned thread) const {
    const unsigned warp = thread / kLanes;
    return {static_cast<int>(thread), barriers_, warp < warps_.size() ? warps_[warp].count : 0};
  }

 private:
  struct Access {
    int thread = -1;
    uint32_t barriers = 0;
    uint32_t warp_syncs = 0;
    Place place;
  };
  using Pair = std::array<Access, 2>;  // of different threads
  struct History {
    Access write;
    Pair reads;
  };
  struct SyncedLanes {
    uint32_t mask;
    uint32_t last;  // number of the warp's last __syncwarp of these lanes
  };
  struct WarpSyncs {
    uint32_t count = 0;
    std::vector<SyncedLanes> lanes;
  };

  static constexpr int kLanes = 32;

  bool conflicts(const Access& earlier, const Accessor& who) const;
  static void note(Pair& pair, const Access& access);
  // Of an access to an element with earlier ones of it, or nothing.
  std::string race(const Array& array, size_t index, const Accessor& who, const char* does,
                   bool with_reads) const;

  void check_size(const Place& place) const;

  std::vector<std::unique_ptr<Array>> arrays_;
  size_t static_bytes_ = 0;
  size_t dynamic_bytes_ = 0;
  uint32_t barriers_ = 0;
  std::vector<WarpSyncs> warps_;
};

}  // namespace assay::emulated
