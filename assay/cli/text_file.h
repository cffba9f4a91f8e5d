#pragma once

#include <string>

namespace assay {

// The bytes of a file as they are; `-` is standard input. Throws Error if they cannot be read or
// are more than 256 MiB, as of a device that has no end.
std::string read_text_file(const std::string& path);

}  // namespace assay
