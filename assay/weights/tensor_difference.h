#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "assay/weights/weights_comparison.h"
#include "base/thread_pool.h"
#include "engine/gguf.h"

namespace assay {

// What a block may be off by, for each time that plain storing costs: blocks scatter more than the
// tensor that they make up.
inline constexpr double kBlockK = 4.0;

// The least that neighbouring rows, or columns at one place of blocks, are allowed together,
// whatever the whole tensor is.
inline constexpr double kPartsK = 1.5;

// No tensor that is off by so much is right: that leaves half of the squares.
inline constexpr double kMeaningless = 0.7;

// A row of a tensor as floats.
void read_row(const GgufTensor& tensor, int64_t row, std::span<float> out);

// With at least three digits, and as many as show that the factor is not 1.
std::string factor_text(double factor);

// Of a tensor that differs by more than WeightsOptions::max_rel_l2.
std::string over_limit_text(const WeightsOptions& options);

// Compares two tensors of one shape, and fills in all of `result` but its name and, where they
// differ by more than they may, what is wrong. Null `ref` or `got` is not allowed.
void measure_tensor(const GgufTensor& ref, const GgufTensor& got, const WeightsOptions& options,
                    ThreadPool& pool, TensorResult& result);

}  // namespace assay
