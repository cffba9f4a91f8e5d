#pragma once

#include <cstdint>

#include "assay/log/record.h"

namespace assay {

// How a record of another engine becomes one of Assay's.
struct RecordTransform {
  // [part_begin, part_end) of part_count equal parts of the tensor; all of it if part_count is 0.
  int64_t part_begin = 0;
  int64_t part_end = 0;
  int64_t part_count = 0;
  // Rows of a rotary projection: pairs that lie half a head apart (i, i + head_dim / 2), as
  // transformers keeps them, become neighbours (2i, 2i + 1), as a `llama` GGUF file has them.
  int64_t halves_to_adjacent = 0;  // head_dim, or 0

  bool is_identity() const { return part_count == 0 && halves_to_adjacent == 0; }
  bool operator==(const RecordTransform&) const = default;
};

// Applies `transform`. What can no longer be known of the tensor is taken out of the record: the
// sketch and argmax of a head whose elements move, the summary of a part. Throws Error (what is
// wrong, without a place) if the tensor cannot be taken apart so.
void apply_transform(const RecordTransform& transform, Record& record);

}  // namespace assay
