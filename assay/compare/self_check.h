#pragma once

#include <span>
#include <string_view>

#include "assay/log/record.h"

namespace assay {

// A record's statements about its tensor must agree: values, most probable tokens, summary and
// sketch. Returns the two
// statements that contradict each other ("its sketch and its values"), or nothing. `set_aside`:
// indices of garbage, whose values are not held to anything; nothing can be computed from the rest
// then.
//
// Statements may be rounded: they agree within 1 % of the norm (of an element: of the largest
// magnitude), and what "%.6f" rounds away from the values. What all values show is held to
// `held_to`, the rel_l2 that is allowed, where that is less, but not below 1e-4, as engines sum by
// 32-bit floats. `is_piece`: of a tensor that is cut over ranks, so that probabilities may add up
// to less than 1.
std::string_view contradiction_in(const Record& record, std::span<const int64_t> set_aside,
                                  double held_to = 1, bool is_piece = false);

// The same, with the record's own garbage set aside.
std::string_view contradiction_of(const Record& record, bool is_piece = false);

}  // namespace assay
