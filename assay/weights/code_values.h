#pragma once

#include <string>

#include "engine/gguf.h"

namespace assay {

// Where the codes in the blocks of `got` are the right ones, of other values than its type's:
// which, as a sentence, as where a quantiser has another table, or cuts off. Empty where other
// values of the codes do not explain what is wrong. `limit` is what they may leave, relative to the
// reference. Looks at some rows only, of two tensors of the same shape.
std::string wrong_code_values(const GgufTensor& ref, const GgufTensor& got, double limit);

}  // namespace assay
