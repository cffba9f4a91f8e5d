#pragma once

#include <cstdint>
#include <functional>

#include "assay/mistakes/mistake.h"

// Edits of norms, of q and k and of others.
namespace assay::mistakes {

// The norm with another weight for each element.
KernelHooks weighted_norm(std::function<float(float weight, int64_t width)> edit);

void run_without_norm(const OpContext& context, const NormCall& call, Kernels& kernels);

// Whether the model is known, and the norm is one of q or k.
bool is_of_qk(const Network& network, Op op);

std::vector<Mistake> qk_norm_mistakes();

}  // namespace assay::mistakes
