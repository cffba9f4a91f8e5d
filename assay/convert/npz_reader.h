#pragma once

#include <memory>
#include <string>

#include "assay/convert/array_file.h"

namespace assay {

// Reads the arrays of an NPZ archive, compressed or not, through libzip. Each may be read once,
// from its beginning to its end, all at the same time. Throws Error if `path` is not such an
// archive, if two entries have the same name, or if entries share bytes, which shows in a total
// longer than the file.
std::unique_ptr<ArrayReader> open_npz(const std::string& path);

}  // namespace assay
