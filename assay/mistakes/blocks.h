#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "assay/mistakes/mistake.h"

namespace assay::mistakes {

using BlockEdit = std::function<void(std::span<std::byte> block)>;

// A wrong reading of the blocks of a type, which reads the edited bytes of each rightly.
Mistake misread_blocks(TensorType type, const char* text, const BlockEdit& edit);

// Of the parts of a block: their scales and minimums, and the order of their codes.
std::vector<Mistake> block_part_mistakes();

}  // namespace assay::mistakes
