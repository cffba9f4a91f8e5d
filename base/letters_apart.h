#pragma once

#include <cstddef>
#include <string_view>

namespace assay {

// Letters to add, to drop or to change so that one becomes the other (Levenshtein).
size_t letters_apart(std::string_view a, std::string_view b);

}  // namespace assay
