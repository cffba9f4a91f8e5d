#pragma once

#include <string>

namespace assay {

// `argument` as a shell takes it.
std::string shell_quoted(const std::string& argument);

}  // namespace assay
