#pragma once

#include <string>

namespace assay {

// A file or folder of Assay's sources, or where it was installed.
std::string data_place(const std::string& name);

// The suite that assay conform reads without --suite.
std::string default_suite();

}  // namespace assay
