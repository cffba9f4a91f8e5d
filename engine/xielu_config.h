#pragma once

#include "engine/gguf.h"
#include "engine/model_config.h"

namespace assay {

// The numbers of xIELU into each of config.layers. Throws Error that names the key if one is
// missing, of another number of layers, or not finite.
void read_xielu(const Gguf& gguf, ModelConfig& config);

}  // namespace assay
