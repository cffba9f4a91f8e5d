#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/emulated/source_place.h"

namespace assay::emulated {

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

  // The array declared at `place`; made by the first thread that gets there. Throws Error if the
  // block then takes more than every device gives.
  Array& array(const char* name, size_t element_bytes, size_t count, const Place& place,
               bool is_dynamic = false);
  // That of all dynamic shared memory.
  Array& dynamic_array(const char* name, size_t element_bytes, const Place& place);

  // These return what is wrong, or nothing.
  std::string read(Array& array, int64_t index, const Accessor& who, const Place& place);
  std::string write(Array& array, int64_t index, const Accessor& who, const Place& place);

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
  struct History {
    Access write;
    Access reads[2];  // of different threads
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

  std::vector<std::unique_ptr<Array>> arrays_;
  size_t static_bytes_ = 0;
  size_t dynamic_bytes_ = 0;
  uint32_t barriers_ = 0;
  std::vector<WarpSyncs> warps_;
};

}  // namespace assay::emulated
