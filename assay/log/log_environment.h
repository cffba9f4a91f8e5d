#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "assay/log/log_request.h"

namespace assay {

// Reads ORCH_LOG_FILE, ORCH_LOG_TEAM, ORCH_LOG_VALUES (a count or `all`), ASSAY_LOG_CHECKPOINTS and
// ASSAY_LOG_TS (on, which is the default, or off); `defaults` applies if another is unset or empty,
// but its path overrides ORCH_LOG_FILE. Nothing, without reading the others, if there is no path.
// Throws Error, naming the variable, if a value is invalid.
std::optional<LogRequest> log_request_from_environment(LogRequest defaults = {
                                                           "", LogOptions(),
                                                           CheckpointSet("logits")});

// A count of values: `all` -> kAllValues, or a number of 0 or more. Throws Error naming `where`.
int64_t parse_head_values(std::string_view text, const std::string& where);

}  // namespace assay
