#include "assay/conform/logged_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "assay/compare/log_index.h"
#include "assay/compare/log_probabilities.h"

namespace assay {
namespace {

// At each token the bytes that stand for a whole tensor: its values, or its sketch. Empty where the
// log has neither.
struct Output {
  std::string checkpoint;  // empty where the log has none
  std::vector<std::string> tensors;
};

template <typename Numbers>
std::string bytes_of(const Numbers& numbers) {
  const auto* first = reinterpret_cast<const char*>(numbers.data());
  return {first, numbers.size() * sizeof(numbers[0])};
}

Output output_named(const LogIndex& log, std::string_view checkpoint, size_t tokens) {
  Output output{std::string(checkpoint), std::vector<std::string>(tokens)};
  IndexLoader loader = log.loader();
  const int32_t id = log.names().find(output.checkpoint);
  for (size_t token = 0; id >= 0 && token < tokens; ++token) {
    const int64_t place = log.find(id, static_cast<int64_t>(token));
    if (place < 0) continue;
    const Record& record = log.load(log.entry(place), loader);
    output.tensors[token] = record.has_all_values() ? bytes_of(record.values)
                            : record.sketch         ? bytes_of(*record.sketch)
                                                    : "";
  }
  return output;
}

Output output_of(const LogIndex& log, const std::string& last_layer, size_t tokens) {
  for (const std::string_view name :
       {kLogitsName, kLogProbabilitiesName, std::string_view(last_layer)}) {
    if (log.names().find(std::string(name)) >= 0) return output_named(log, name, tokens);
  }
  return {};
}

}  // namespace

std::string too_little_logged(const std::string& log, const std::vector<int32_t>& tokens,
                              const std::string& other_log,
                              const std::vector<int32_t>& other_tokens,
                              const std::string& last_layer) {
  const Output output = output_of(LogIndex(log), last_layer, tokens.size());
  if (output.checkpoint.empty()) {
    return fmt::format("logs no output: give logits, logprobs{} of all positions",
                       last_layer.empty() ? "" : " or " + last_layer);
  }
  const auto whole =
      std::ranges::count_if(output.tensors, [](const std::string& one) { return !one.empty(); });
  if (whole < std::ssize(tokens)) {
    return fmt::format(
        "logs all {} of {} of {} positions: give all values of all positions, or their sketches",
        output.checkpoint, whole, tokens.size());
  }
  const Output other = output_named(LogIndex(other_log), output.checkpoint, other_tokens.size());
  bool is_there = false;
  for (size_t i = 0; i < std::min(tokens.size(), other_tokens.size()); ++i) {
    if (tokens[i] == other_tokens[i] || other.tensors[i].empty()) continue;
    if (output.tensors[i] != other.tensors[i]) return "";
    is_there = true;
  }
  if (!is_there) return fmt::format("logs no {} for another prompt", output.checkpoint);
  return fmt::format("logs the same {} for other tokens", output.checkpoint);
}

}  // namespace assay
