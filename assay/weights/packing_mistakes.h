#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/tensor_type.h"

namespace assay {

// A way in which a quantiser gets the bytes of a type wrong, whatever the codes are.
struct PackingMistake {
  std::string sentence;  // of the tensor: "has the two codes of each byte exchanged"
  std::function<void(uint8_t* block)> edit;
};

// Those that are known of a type; none of types that are not packed.
std::vector<PackingMistake> packing_mistakes(TensorType type);

// Types whose blocks are of the same size, so that one's bytes can stand under the other's name.
std::vector<TensorType> types_as_large(TensorType type);

}  // namespace assay
