#pragma once

#include <functional>

#include "assay/weights/weights_comparison.h"
#include "engine/gguf.h"

namespace assay {

// Whether `got` is the same model as `ref`, perhaps stored in other types.
//
// A tensor is right if it is as near to the reference as its types allow: the reference's values
// are stored as the other file's type by Assay's own quantiser, and the other file's as the
// reference's, and the error may be `k` times what that costs, in the whole tensor, and kBlockK
// times in each block. So nothing has to be known of how good a type is. Where both files have
// rounded, Assay cannot store the type, or storing leaves next to nothing, the difference is not
// judged, and the verdict is kIncomplete.
//
// `progress` gets the elements compared and those to compare. Throws Error if the two have no
// architecture in common, or no tensor is asked for that the reference has.
WeightsComparison compare_weights(
    const Gguf& ref, const Gguf& got, const WeightsOptions& options,
    const std::function<void(int64_t done, int64_t total)>& progress = {});

}  // namespace assay
