#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/compare/compare_options.h"
#include "assay/report/text_sink.h"

namespace assay {

// Two logs of a fleet: the path of the reference and of the log that is held to it.
struct LogPair {
  std::string ref;
  std::string got;
};

// Of how many pairs a record failed, and how many others are not in parity or could not be
// compared.
struct NotInParity {
  int64_t diverged = 0;
  int64_t not_proved = 0;
};

// The most records of a pair that its row lists as differing.
inline constexpr int64_t kMostDiffering = 4096;

// The pairs of a list with one pair a line, REF, a tab, GOT. `name` is for errors. Throws Error
// with the line that is no pair.
std::vector<LogPair> parse_log_pairs(std::string_view list, const std::string& name);

// The tolerances for one pair of logs. Throws Error where there are none.
using PolicyFor = std::function<Policy(const std::string& ref_path, const std::string& got_path)>;

// Whether what each record of a log says of its tensor agrees, and no value is garbage. Then its
// sketches stand for its values, and a comparison needs no values where the sketches agree. Throws
// Error if the log cannot be read.
bool is_sound(const std::string& path);

// Compares each pair by compare_logs(), options.n_threads pairs at a time, and passes one line of
// JSON a pair to `sink`, in the order of the pairs: {"ref","got"} as given, then either what
// docs/fleets.md lists, or {"problem"}, why the pair could not be compared. "warnings" calls the
// two logs "the reference" and "the run". "differ" has the records that failed or are unproven,
// [checkpoint, token_idx of ref, token_idx of got], in the order in which the network computes,
// kMostDiffering at most. A line depends on the two logs and the options alone.
NotInParity judge_pairs(const std::vector<LogPair>& pairs, const CompareOptions& options,
                        const PolicyFor& policy_for, const TextSink& sink);

}  // namespace assay
