#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/thread_pool.h"
#include "kernels/kernels.h"

namespace assay {

// "exact", "fast" or "library". Throws Error for anything else.
Math math_of(const std::string& name);

// The backend that `auto` selects on this machine; other names unchanged.
std::string chosen_backend(const std::string& wanted);

// `pool` must outlive the kernels. Throws Error if this build or this machine has no such backend.
std::unique_ptr<Kernels> make_kernels(std::string_view backend, Math math, ThreadPool& pool);

}  // namespace assay
