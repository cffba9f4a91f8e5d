#pragma once

#include "assay/record/injected_run.h"

namespace assay {

// Runs, and shows each layer's own error as a table or, with `json`, as one JSON object.
void show_injected_run(const InjectOptions& options, bool json);

}  // namespace assay
