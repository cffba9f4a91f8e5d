#pragma once

#include "base/error.h"

namespace assay {

// What compare_logs() throws for two good logs that hold no record of the same checkpoint and
// token, or not of a checkpoint that was asked for by its name.
struct NothingInCommon : Error {
  using Error::Error;
  explicit NothingInCommon(const Error& error) : Error(error) {}
};

}  // namespace assay
