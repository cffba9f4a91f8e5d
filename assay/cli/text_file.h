#pragma once

#include <string>

namespace assay {

// The bytes of a file as they are; `-` is standard input. Throws Error if they cannot be read.
std::string read_text_file(const std::string& path);

}  // namespace assay
