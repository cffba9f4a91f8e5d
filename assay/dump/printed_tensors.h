#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "assay/dump/dump_log.h"

namespace assay {

// Whether the file is text in which llama.cpp's llama-eval-callback printed tensors, or the hooks
// of its examples/model-conversion printed what modules of PyTorch computed. Only the first 4 MiB
// are searched.
bool is_printed(const std::string& path);

// Passes the text to `sink` as a log, by the names that it has: the first values of each row, which
// is all that a log can say of rows whose middle is not printed; no values where the decimals that
// are printed would be more than half of the built-in tolerance off. Throws Error where a tensor is
// not as its header says.
ImportedDump printed_to_log(const std::string& path, const DumpOptions& options,
                            const std::function<void(std::string_view)>& sink);

}  // namespace assay
