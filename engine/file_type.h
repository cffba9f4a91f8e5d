#pragma once

#include <string>

#include "engine/gguf.h"

namespace assay {

// How the file's weights are stored, as its maker names the mix ("Q4_K_M"): general.file_type, or
// where that is missing or unknown the tensor type that most elements have.
std::string file_type_name(const Gguf& gguf);

}  // namespace assay
