#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <type_traits>

// Owners of what the CUDA runtime hands out. That it takes something back with an error is ignored:
// it is one of a kernel, which was reported before, or the process ends.
namespace assay::cuda {

template <class Handle, cudaError_t (*kGiveBack)(Handle)>
struct GiveBack {
  using pointer = Handle;
  void operator()(Handle handle) const noexcept { kGiveBack(handle); }
};

template <class Handle, cudaError_t (*kGiveBack)(Handle)>
using Owner = std::unique_ptr<std::remove_pointer_t<Handle>, GiveBack<Handle, kGiveBack>>;

using Stream = Owner<cudaStream_t, cudaStreamDestroy>;
using Event = Owner<cudaEvent_t, cudaEventDestroy>;
using GraphHandle = Owner<cudaGraph_t, cudaGraphDestroy>;
using GraphExecutable = Owner<cudaGraphExec_t, cudaGraphExecDestroy>;
using PinnedMemory = Owner<void*, cudaFreeHost>;

}  // namespace assay::cuda
