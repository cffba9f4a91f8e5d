#pragma once

#include <string>

namespace assay {

// The bytes of a file as they are. Throws Error if it cannot be read.
std::string read_text_file(const std::string& path);

}  // namespace assay
