#include "assay/log/log_environment.h"

#include <charconv>
#include <utility>

#include "base/environment.h"
#include "base/error.h"

namespace assay {

int64_t parse_head_values(std::string_view text, const std::string& where) {
  if (text == "all") return kAllValues;
  int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < 0) {
    throw Error("'" + std::string(text) + "' is not a count of values", where,
                "give a number of 0 or more, or all");
  }
  return count;
}

std::optional<LogRequest> log_request_from_environment(LogRequest defaults) {
  LogRequest request = std::move(defaults);
  if (request.path.empty()) request.path = environment("ORCH_LOG_FILE");
  if (request.path.empty()) return std::nullopt;
  const std::string team = environment("ORCH_LOG_TEAM");
  const std::string values = environment("ORCH_LOG_VALUES");
  const std::string checkpoints = environment("ASSAY_LOG_CHECKPOINTS");
  const std::string times = environment("ASSAY_LOG_TS");
  if (!times.empty() && times != "on" && times != "off") {
    throw Error("'" + times + "' is neither on nor off", "ASSAY_LOG_TS", "give one of them");
  }
  request.options.times = times != "off";
  if (!team.empty()) request.options.team = team;
  if (!values.empty()) request.options.head_values = parse_head_values(values, "ORCH_LOG_VALUES");
  if (!checkpoints.empty()) {
    request.checkpoints = CheckpointSet(checkpoints, "ASSAY_LOG_CHECKPOINTS");
  }
  return request;
}

}  // namespace assay
