#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace assay {

inline constexpr size_t kMaxMarkdownBytes = 200;  // of a name

// Text that no Markdown sees: what could mean something is a reference.
std::string markdown(std::string_view text, size_t max_bytes = kMaxMarkdownBytes);

// Appends the rows of a table as long as `out` stays within `max_bytes`, and says how many were
// left out, where `one` of them is a "checkpoint".
void append_markdown_rows(size_t count, std::string_view one, size_t max_bytes, std::string& out,
                          const std::function<std::string(size_t)>& row);

}  // namespace assay
