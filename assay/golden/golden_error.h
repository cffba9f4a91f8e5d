#pragma once

#include <span>

#include "assay/log/record.h"

namespace assay {

// The relative L2 error of a whole tensor against a golden's record, ‖got - want‖ / ‖want‖: by the
// sketch, whose estimate is within 18 % of the true one (two deviations of sqrt(2 / 64) / 2), or by
// the recorded head, relative to the whole, whichever is greater.
//
// NaN, which no tolerance allows, if `got` has another length than recorded or holds a NaN or
// infinity anywhere, and if the record is insufficient: it has no summary or sketch, is all zero or
// holds such values itself.
double golden_error(const Record& want, std::span<const float> got);

}  // namespace assay
