#pragma once

#include <string>

#include "assay/log/record.h"

namespace assay {

// The SHA-256 of a record's statements about its tensor: shape, values, most probable tokens,
// summary and sketch, not where it was logged. Zeros of either sign are one, and so are all NaN and
// shapes that differ in ones.
std::string content_digest(const Record& record);

// The first thing in which two records of other content differ, such as "value 1 was 2 and is 3".
std::string content_difference(const Record& before, const Record& now);

}  // namespace assay
