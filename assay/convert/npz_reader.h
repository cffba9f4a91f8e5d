#pragma once

#include <memory>
#include <string>

#include "assay/convert/array_file.h"

namespace assay {

// Reads the arrays of an NPZ archive, compressed or not, through libzip. Each may be read once,
// from its beginning to its end, all at the same time. Throws Error if `path` is no such archive,
// if two entries have one name, or if entries must share bytes: together longer than the file.
std::unique_ptr<ArrayReader> open_npz(const std::string& path);

}  // namespace assay
