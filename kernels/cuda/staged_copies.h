#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>

#include "kernels/cuda/handles.h"

namespace assay::cuda {

// Copies between the host and a device by way of two pinned buffers, in a stream: while one buffer
// is under way, the other is filled. Uploads are not waited for.
class StagedCopies {
 public:
  // Throws Error if the host has no pinned memory left.
  explicit StagedCopies(cudaStream_t stream);

  // `from` may change as soon as it returns.
  void upload(const void* from, size_t bytes, void* to);
  // Returns when the stream has done all that came before and the copy.
  void download(const void* from, size_t bytes, void* to);

 private:
  static constexpr size_t kBytes = size_t{8} << 20;

  struct Half {
    PinnedMemory bytes;
    Event done;  // after the last copy out of it
  };

  static Half make_half();
  // The half whose turn it is, with no copy under way.
  const Half& next();

  cudaStream_t stream_;
  std::array<Half, 2> halves_;
  size_t turn_ = 0;
};

}  // namespace assay::cuda
