#pragma once

#include <string>

#include "engine/gguf.h"

namespace assay {

bool is_folder(const std::string& path);

// A model folder of Hugging Face (config.json; model.safetensors, or model.safetensors.index.json
// and its shards) as a GGUF file of the same weights would hold it: keys and tensors have GGUF's
// names, and rows GGUF's order. Tensors that are the same in both stay mapped; the others are
// copied. Throws Error that names the file and the key or tensor at fault.
GgufContent read_hf_folder(const std::string& path);

}  // namespace assay
