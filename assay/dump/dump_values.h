#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "assay/dump/dump.h"

namespace assay {

// The next `count` elements of a tensor as 32-bit floats. Throws Error if they are missing, or a
// finite one is beyond what a 32-bit float holds: whole numbers exactly, others within its range.
void read_values(const DumpTensor& tensor, int64_t count, std::vector<float>& values);

// All elements of a tensor of whole numbers or truth values, of which there may be kMaxIds. Throws
// Error if it is not one, or they are missing.
inline constexpr int64_t kMaxIds = int64_t{1} << 24;
std::vector<int64_t> read_whole_numbers(const DumpTensor& tensor);

// A tensor [a, b, c] as b tensors [a, c], whose names end in .0 and so on. Each reads the file by a
// reader of its own, from `open`.
using ReaderSource = std::function<std::shared_ptr<ArrayReader>()>;
std::vector<DumpTensor> parts_of(const DumpTensor& tensor, const ReaderSource& open);

}  // namespace assay
