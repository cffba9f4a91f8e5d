#include "kernels/cuda/staged_copies.h"

#include <algorithm>
#include <cstring>

#include "kernels/cuda/check.h"

namespace assay::cuda {

StagedCopies::StagedCopies(cudaStream_t stream)
    : stream_(stream), halves_{make_half(), make_half()} {}

StagedCopies::Half StagedCopies::make_half() {
  Half half;
  void* bytes = nullptr;
  ASSAY_CUDA_CHECK(cudaMallocHost(&bytes, kBytes));
  half.bytes.reset(bytes);
  cudaEvent_t done = nullptr;
  ASSAY_CUDA_CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
  half.done.reset(done);
  return half;
}

const StagedCopies::Half& StagedCopies::next() {
  const Half& half = halves_[turn_];
  turn_ = 1 - turn_;
  ASSAY_CUDA_CHECK(cudaEventSynchronize(half.done.get()));  // at once where none was recorded
  return half;
}

void StagedCopies::upload(const void* from, size_t bytes, void* to) {
  for (size_t at = 0; at < bytes; at += kBytes) {
    const size_t count = std::min(kBytes, bytes - at);
    const Half& half = next();
    std::memcpy(half.bytes.get(), static_cast<const unsigned char*>(from) + at, count);
    ASSAY_CUDA_CHECK(cudaMemcpyAsync(static_cast<unsigned char*>(to) + at, half.bytes.get(), count,
                                     cudaMemcpyHostToDevice, stream_));
    ASSAY_CUDA_CHECK(cudaEventRecord(half.done.get(), stream_));
  }
}

void StagedCopies::download(const void* from, size_t bytes, void* to) {
  for (size_t at = 0; at < bytes; at += kBytes) {
    const size_t count = std::min(kBytes, bytes - at);
    const Half& half = next();
    ASSAY_CUDA_CHECK(cudaMemcpyAsync(half.bytes.get(), static_cast<const unsigned char*>(from) + at,
                                     count, cudaMemcpyDeviceToHost, stream_));
    ASSAY_CUDA_CHECK(cudaStreamSynchronize(stream_));
    std::memcpy(static_cast<unsigned char*>(to) + at, half.bytes.get(), count);
  }
}

}  // namespace assay::cuda
