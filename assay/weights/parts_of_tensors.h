#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gguf.h"

// Tensors that files have whole or in two: attn_kv_b of latent attention, for engines that compute
// with the latent vectors themselves of each head attn_k_b, transposed, and attn_v_b; and of each
// expert its gate and up.
namespace assay {

// The name of the whole tensor that a part is of; empty of all others.
std::string whole_of(std::string_view part);

// Whether the tensor is a whole one that the file has in parts.
bool is_in_parts(const Gguf& file, std::string_view name);

// A part, and the same rows of the whole tensor, both in rows of one order.
struct PartOfTensor {
  GgufTensor of_whole;
  GgufTensor part;
  // The two are rounded to blocks, along rows of different order: their types do not say by how
  // much they may differ.
  bool both_rounded = false;
  std::deque<std::vector<std::byte>> made = {};  // what the tensors point to
};

// Of the file that has the whole tensor; nothing where this cannot be divided into the two parts.
std::optional<PartOfTensor> part_of(const Gguf& file, const GgufTensor& whole,
                                    const GgufTensor& part);

}  // namespace assay
