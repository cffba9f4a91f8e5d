#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "assay/record/log_probe.h"

namespace assay {

// The flags that say what is logged and where; the defaults are the caller's.
struct LogFlags {
  std::optional<std::string> path = {};
  std::string checkpoints = "layers";
  std::string values = "10";
  std::string team = {};
  bool sketch = false;

  // Throws Error. `path` must be set.
  LogRequest request() const;
};

// Adds them to a command; all but --log, which is returned, need it. `flags` must outlive the
// command.
CLI::Option* add_log_flags(CLI::App& command, LogFlags& flags, const std::string& log_help);

}  // namespace assay
