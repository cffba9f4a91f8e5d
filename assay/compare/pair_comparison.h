#pragma once

#include <cstdint>
#include <vector>

#include "assay/compare/compare_options.h"
#include "assay/compare/comparison.h"
#include "assay/log/record.h"

namespace assay {

// One record held against its reference.
struct PairComparison {
  RecordResult result;  // without its checkpoint, teams and token_idx
  std::vector<Garbage> ref_garbage;
  std::vector<Garbage> got_garbage;
  int64_t ref_n = 0;  // elements of the whole tensor; logits may be padded in one of the two
  int64_t got_n = 0;
  bool longer_is_partial = false;  // where they differ, the longer one does not hold all values
};

// Compares, looks for garbage as `options` ask, and judges with `tolerance`.
//
// What counts as garbage in a comparison is what one of the two logs alone has: values that both
// hold alike are the model's own. More than a hundredth of a tensor out of scale is no garbage in
// its log but a broken tensor, which is compared as it is. So is a value of `got` that is merely
// out of scale: it is listed, but an engine whose values explode must not pass. Garbage sets its
// values aside and nothing else: the rest of the head, sketch and summary still hold. Padding is
// left out where both have it, or where the other has fewer elements: it would be most of the norm.
//
// A record of another size fails, unless one holds logits padded with -Infinity or to a multiple
// of 64. A judged record that contradicts itself fails; where it is the reference that does, the
// record is unproven.
PairComparison compare_pair(const Record& ref, const Record& got, const Tolerance& tolerance,
                            const CompareOptions& options);

// A record that the judged log alone has, or that was left out: it fails if it holds a NaN, or an
// infinity that is no padding of logits, or contradicts itself.
PairComparison check_alone(const Record& got);

// How many NaN a record holds or states. A sum of its sketch that is NaN counts where no infinity
// can have made it.
int64_t count_nan(const Record& record);

// Whether `got`, which fails by a NaN or infinity when it is checked alone, has one that the
// reference's record of the same tensor does not have.
bool has_nonfinite_beside(const Record& ref, const Record& got);

}  // namespace assay
