#pragma once

#include <cstdint>

namespace assay {

// What kernels have asked of an emulated device, before any cache.
struct EmulatedCounts {
  uint64_t launches = 0;
  uint64_t replays = 0;       // of recordings, whose launches count too
  uint64_t copied_bytes = 0;  // of weights: to shared memory, or by load_weights()
  uint64_t read_bytes = 0;    // by loads from what the reading kernel does not write
};

}  // namespace assay
