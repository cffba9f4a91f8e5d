#pragma once

#include <string>
#include <string_view>

#include "engine/gguf.h"

namespace assay {

// How the sentence of a tensor begins that is off by a factor.
inline constexpr std::string_view kIsTimes = "is the reference's times";

// The known way of storing a tensor wrongly that explains what `got` has in place of `ref`, as a
// sentence; empty where none does. `ref_file` has the other tensors that it may have been mistaken
// for. The shapes may differ. `limit` is what the explanation may leave, relative to the reference.
// Looks at some rows only.
std::string stored_wrong(const Gguf& ref_file, const GgufTensor& ref, const GgufTensor& got,
                         double limit);

}  // namespace assay
