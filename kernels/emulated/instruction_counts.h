#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace assay {

// What the instructions of warps in one line of a kernel asked of memory.
struct LineCounts {
  uint64_t instructions = 0;
  // Shared memory gives each of its 32 banks one word of 4 bytes at a time: a wavefront. A warp's
  // access takes as many as its worst bank has words, for each 32 lanes of 4 bytes, 16 of 8, 8
  // of 16.
  uint64_t wavefronts = 0;
  uint64_t most_wavefronts = 0;  // of an instruction
  uint64_t sectors = 0;          // of 32 bytes of device memory

  void add(const LineCounts& others);
};

// Of all launches of a kernel.
struct KernelCounts {
  uint64_t launches = 0;
  // A thread waits for memory when it comes again to a load, more often than the loop around it is
  // unrolled, when it meets others, and when it waits for copies. This is how often the thread that
  // waits most does, added over the launches.
  uint64_t load_chain = 0;
  // What its warps have asked for on average when they wait, loads and copies.
  uint64_t waited_bytes = 0;
  uint64_t waits = 0;  // of warps
  uint64_t bytes_in_flight() const { return waits == 0 ? 0 : waited_bytes / waits; }

  std::map<std::string, LineCounts> lines;  // "kernels/cuda/int8.h:95 reads shared memory"
  LineCounts total() const;
  // Those of other launches of the same kernel.
  void add(const KernelCounts& others);
};

}  // namespace assay
