#pragma once

#include <string>
#include <string_view>

namespace assay {

// Puts `bytes` at `path`, which has either its old content or all of the new one, on the disk, when
// this returns or if it is cut off. Throws Error, and leaves `path` as it was.
void replace_file(std::string_view bytes, const std::string& path);

// rename(2), and the name is on the disk when it returns. Throws Error.
void move_file(const std::string& from, const std::string& to);

}  // namespace assay
