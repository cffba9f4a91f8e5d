#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "assay/dump/dump_log.h"

namespace assay {

// Of a text, what is searched for a printed tensor: its first bytes.
inline constexpr size_t kPrintedSearched = size_t{4} << 20;

// Whether a tensor is printed in that beginning of a text: by llama.cpp's llama-eval-callback, or
// by the hooks of its examples/model-conversion, of what modules of PyTorch computed.
bool begins_printed(std::string_view text);
// Whether the file is such a text.
bool is_printed(const std::string& path);

// Passes the text to `sink` as a log, by the names that it has: the first values of each row, which
// is all that a log can say of rows whose middle is not printed; no values where the decimals that
// are printed would be more than half of the built-in tolerance off. Throws Error where a tensor is
// not as its header says.
ImportedDump printed_to_log(const std::string& path, const DumpOptions& options,
                            const std::function<void(std::string_view)>& sink);

}  // namespace assay
