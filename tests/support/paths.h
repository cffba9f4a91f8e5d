#pragma once

#include <string>

namespace assay {

// The absolute path of a file or folder of the sources, from their root: "golden/tinyllama".
//
// Only paths.cc knows where the sources and the build are: what is compiled with such a path
// cannot be taken from the cache of a compiler in another clone.
std::string source_path(const std::string& file);

// The absolute path of a program that was built, by its name.
std::string program_path(const std::string& name);

}  // namespace assay
