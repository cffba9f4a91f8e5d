#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "assay/convert/array_file.h"

namespace assay {

// Gives the next `count` bytes of an .npy file; false if there are not as many.
using NpyBytes = std::function<bool(char* to, size_t count)>;

// The dictionary at the start of an .npy file (numpy.lib.format, versions 1 to 3); nothing if it is
// not such a file. The data follows.
std::optional<std::string> read_npy_header(const NpyBytes& bytes);

// What that dictionary says; kOther for a type that is not read, columns first among them. Throws
// Error naming `where` and `name` if it is no such dictionary, and for an array of Python objects,
// which is a pickle.
ArrayInfo parse_npy_header(const std::string& header, const std::string& where,
                           const std::string& name);

// The one array of an .npy file, under the file's name without its ending. Throws Error if it is
// not such a file or shorter than its header says.
std::unique_ptr<ArrayReader> open_npy(const std::string& path);

}  // namespace assay
