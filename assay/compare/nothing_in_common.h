#pragma once

#include "base/error.h"

namespace assay {

// What compare_logs() throws for two good logs that hold no record of the same checkpoint and
// token.
struct NothingInCommon : Error {
  using Error::Error;
};

}  // namespace assay
