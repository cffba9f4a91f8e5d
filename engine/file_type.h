#pragma once

#include <span>
#include <string>
#include <string_view>

#include "engine/gguf.h"

namespace assay {

// A way to store a whole model, as makers of files name it: a tensor type for most matrices, and
// for some a larger one ("Q4_K_M").
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): rows of a table, in its order
struct FileType {
  uint32_t number;  // of general.file_type, from the GGUF specification
  std::string_view name;
  TensorType base;  // of most matrices
};

std::span<const FileType> file_types();

// Null if there is none of this name.
const FileType* find_file_type(std::string_view name);

// How the file's weights are stored, as its maker names the mix ("Q4_K_M"): general.file_type, or
// where that is missing or unknown the tensor type that most elements have.
std::string file_type_name(const Gguf& gguf);

}  // namespace assay
