#include <algorithm>
#include <cstring>

#include "kernels/cuda/staged_copies.h"

namespace assay::cuda {

StagedCopies::StagedCopies(cudaStream_t stream) : stream_(stream) {
  for (Half& half : halves_) {
    ASSAY_CUDA_CHECK(cudaMallocHost(&half.bytes, kBytes));
    ASSAY_CUDA_CHECK(cudaEventCreateWithFlags(&half.done, cudaEventDisableTiming));
  }
}

StagedCopies::~StagedCopies() {
  for (const Half& half : halves_) {
    if (half.done != nullptr) cudaEventDestroy(half.done);
    cudaFreeHost(half.bytes);
  }
}

StagedCopies::Half& StagedCopies::next() {
  Half& half = halves_[turn_];
  turn_ = 1 - turn_;
  ASSAY_CUDA_CHECK(cudaEventSynchronize(half.done));  // at once where none was recorded
  return half;
}

void StagedCopies::upload(const void* from, size_t bytes, void* to) {
  for (size_t at = 0; at < bytes; at += kBytes) {
    const size_t count = std::min(kBytes, bytes - at);
    const Half& half = next();
    std::memcpy(half.bytes, static_cast<const unsigned char*>(from) + at, count);
    ASSAY_CUDA_CHECK(cudaMemcpyAsync(static_cast<unsigned char*>(to) + at, half.bytes, count,
                                     cudaMemcpyHostToDevice, stream_));
    ASSAY_CUDA_CHECK(cudaEventRecord(half.done, stream_));
  }
}

void StagedCopies::download(const void* from, size_t bytes, void* to) {
  for (size_t at = 0; at < bytes; at += kBytes) {
    const size_t count = std::min(kBytes, bytes - at);
    const Half& half = next();
    ASSAY_CUDA_CHECK(cudaMemcpyAsync(half.bytes, static_cast<const unsigned char*>(from) + at,
                                     count, cudaMemcpyDeviceToHost, stream_));
    ASSAY_CUDA_CHECK(cudaStreamSynchronize(stream_));
    std::memcpy(static_cast<unsigned char*>(to) + at, half.bytes, count);
  }
}

}  // namespace assay::cuda
