#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/thread_pool.h"
#include "kernels/kernels.h"

namespace assay {

// Throws Error if `backend` has no such math.
void check_math(const std::string& math, std::string_view backend);

// What `auto` stands for on this machine; other names as they are.
std::string chosen_backend(const std::string& wanted);

// `pool` must outlive the kernels. Throws Error if this build or this machine has no such backend.
std::unique_ptr<Kernels> make_kernels(std::string_view backend, ThreadPool& pool);

}  // namespace assay
