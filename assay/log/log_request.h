#pragma once

#include <string>

#include "assay/log/checkpoint_set.h"
#include "assay/log/log_writer.h"

namespace assay {

// What to log, and where.
struct LogRequest {
  std::string path;
  LogOptions options;
  CheckpointSet checkpoints;
};

}  // namespace assay
