#include "assay/conform/logged_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "assay/compare/log_index.h"
#include "assay/compare/log_probabilities.h"
#include "assay/log/log_reader.h"
#include "assay/log/run_files.h"
#include "base/error.h"

namespace assay {
namespace {

// At each token the numbers that stand for a whole tensor: its values, or its sketch. Empty where
// the log has neither.
struct Output {
  std::string checkpoint;  // empty where the log has none
  std::vector<std::vector<double>> tensors;
};

// A relative L2, of sketches as of values: a sketch's numbers estimate both norms. Infinities that
// both have, as padded logits do, are equal; one that a single log has is infinitely far.
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double difference = 0.0;
  double norm = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] && std::isinf(a[i])) continue;
    if (std::isinf(a[i]) || std::isinf(b[i])) return std::numeric_limits<double>::infinity();
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += a[i] * a[i];
  }
  return difference == 0.0 ? 0.0 : std::sqrt(difference / norm);
}

Output output_named(const LogIndex& log, std::string_view checkpoint, size_t tokens) {
  Output output{std::string(checkpoint), std::vector<std::vector<double>>(tokens)};
  IndexLoader loader = log.loader();
  const int32_t id = log.names().find(output.checkpoint);
  for (size_t token = 0; id >= 0 && token < tokens; ++token) {
    const int64_t place = log.find(id, static_cast<int64_t>(token));
    if (place < 0) continue;
    const Record& record = log.load(log.entry(place), loader);
    if (record.has_all_values()) {
      output.tensors[token].assign(record.values.begin(), record.values.end());
    } else if (record.sketch) {
      output.tensors[token].assign(record.sketch->begin(), record.sketch->end());
    }
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

bool has_nan(const Output& output) {
  return std::ranges::any_of(output.tensors, [](const std::vector<double>& tensor) {
    return std::ranges::any_of(tensor, [](double value) { return std::isnan(value); });
  });
}

// Why the log shows too little, whatever other tokens give; empty where it does not.
std::string too_little_of(const Output& output, const std::string& last_layer) {
  if (output.checkpoint.empty()) {
    return fmt::format("logs no output: give logits, logprobs{} of all positions",
                       last_layer.empty() ? "" : " or " + last_layer);
  }
  const auto whole =
      std::ranges::count_if(output.tensors, [](const auto& one) { return !one.empty(); });
  if (whole == std::ssize(output.tensors)) return "";
  return fmt::format(
      "logs all {} of {} of {} positions: give all values of all positions, or their sketches",
      output.checkpoint, whole, output.tensors.size());
}

}  // namespace

OutputShown output_shown(const std::string& log, const std::vector<int32_t>& tokens,
                         const std::string& other_log, const std::vector<int32_t>& other_tokens,
                         const std::string& last_layer) {
  const Output output = output_of(LogIndex(log), last_layer, tokens.size());
  OutputShown shown{.too_little = too_little_of(output, last_layer),
                    .checkpoint = output.checkpoint};
  if (!shown.too_little.empty()) return shown;
  const Output other = output_named(LogIndex(other_log), output.checkpoint, other_tokens.size());
  if (has_nan(output) || has_nan(other)) {
    shown.too_little = fmt::format("logs values of {} that are no numbers", output.checkpoint);
    return shown;
  }
  double sum = 0.0;
  int64_t n = 0;
  for (size_t i = 0; i < std::min(tokens.size(), other_tokens.size()); ++i) {
    if (tokens[i] == other_tokens[i] || other.tensors[i].empty()) continue;
    const double of_others = distance(output.tensors[i], other.tensors[i]);
    sum += of_others * of_others;
    ++n;
  }
  if (n == 0) {
    shown.too_little = fmt::format("logs no {} for another prompt", output.checkpoint);
  } else if (sum == 0.0) {
    shown.too_little = fmt::format("logs the same {} for other tokens", output.checkpoint);
  } else {
    shown.of_others = std::sqrt(sum / static_cast<double>(n));
  }
  return shown;
}

std::string other_tokens_of(const std::string& log, const std::vector<int32_t>& tokens) {
  try {
    const auto sequences = LogIndex::read_run(log, {});
    if (sequences.size() != 1 || !sequences[0]->header()) return "";
    const std::vector<int64_t>& named = sequences[0]->header()->tokens;
    for (size_t i = 0; i < std::min(named.size(), tokens.size()); ++i) {
      if (named[i] == tokens[i]) continue;
      return fmt::format(
          "its header names other tokens than it was given: {} at position {}, not "
          "{}",
          named[i], i, tokens[i]);
    }
  } catch (const Error&) {  // which the judge of the log throws, too
  }
  return "";
}

std::string cut_line_of(const std::string& log) {
  try {
    for (const std::string& file : run_files(log)) {
      LogReader reader(file, Depth::kKeys);
      while (reader.next() != nullptr) {
      }
      if (!reader.warnings().empty()) return reader.warnings().front();
    }
  } catch (const Error&) {  // which the judge of the log throws, too
  }
  return "";
}

}  // namespace assay
