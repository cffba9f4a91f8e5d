#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "assay/log/record.h"

namespace assay {

// Where the judged log lists each of the reference's experts, by its place in the reference's list.
using ExpertSlots = std::vector<int64_t>;

// Nothing unless both records hold all ids, and these are the same experts, each once.
std::optional<ExpertSlots> slots_by_id(const Record& ref_ids, const Record& got_ids);

struct RecordsInOneOrder {
  Record ref;
  Record got;
};

// Two records of as many elements, the same number for each expert, as if both logs listed the
// experts in one order; none if n is no multiple of the experts. Where one record has all values,
// that is the other one's order, and what the latter states of its tensor is kept. Otherwise it is
// an order in which the elements that both log come first: sketches, whose signs depend on places,
// are dropped, and so that each one's other values are held to what the other states, there are two
// pairs, of which each keeps the values of one.
std::vector<RecordsInOneOrder> in_one_order(const Record& ref, const Record& got,
                                            const ExpertSlots& slots);

}  // namespace assay
