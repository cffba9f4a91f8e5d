#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "assay/record/log_probe.h"

namespace assay {

// The flags that say what is logged and where.
struct LogFlags {
  // What holds where a flag is not given: the command's choice.
  struct Defaults {
    std::string checkpoints = "layers";
    std::string values = "10";
    std::string team = {};
    bool environment = false;  // whether ORCH_LOG_FILE and its like stand in for the flags
  };
  Defaults defaults = {};
  std::optional<std::string> path = {};
  std::optional<std::string> checkpoints = {};
  std::optional<std::string> values = {};
  std::optional<std::string> team = {};
  bool sketch = false;

  // Nothing if no log is asked for. Throws Error.
  std::optional<LogRequest> request() const;
};

// Adds them to a command; all but --log, which is returned, need it or what stands in for it.
// `flags` must outlive the command.
CLI::Option* add_log_flags(CLI::App& command, LogFlags& flags, const std::string& log_help);

}  // namespace assay
