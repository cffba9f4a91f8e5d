#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "assay/compare/checkpoint_order.h"
#include "assay/compare/garbage.h"
#include "assay/compare/metrics.h"
#include "assay/compare/name_map.h"
#include "assay/compare/policy.h"
#include "assay/compare/selection.h"

namespace assay {

class LogIndex;

// What a comparison says, of one record or of two logs. Best first but for the last.
enum class Verdict : uint8_t {
  kMatch,    // everything that was compared is equal
  kNoise,    // within the tolerance
  kTieFlip,  // within it, and the argmax differs by less than the error: two candidates are level
  kDrift,    // beyond it, by an error that grew little by little
  kWrong,    // beyond it at one step, by more than half of the reference, or not a number
  kInconclusive,  // all zeros on both sides, or nothing to hold together: nothing is proved
};

std::string_view verdict_name(Verdict verdict);

enum class AlignMode : uint8_t { kAuto, kIndex, kFixed };
enum class QuarantineMode : uint8_t {
  kExclude,  // garbage is listed and left out of the metrics; NaN and infinities still fail
  kFail,     // a record with garbage fails
  kOff,      // garbage is not looked for
};

struct CompareOptions {
  Policy policy;
  AlignMode align = AlignMode::kAuto;
  int64_t offset = 0;  // for kFixed: token_idx in the second log minus that in the reference
  QuarantineMode quarantine = QuarantineMode::kExclude;
  bool strict_argmax = false;
  Selection selection;  // what is compared of what both logs have
  NameMap ref_map;      // names of the logs' tensors where they are not Assay's
  NameMap got_map;
  int n_threads = 0;  // 0: one per processor
  // Called from one thread with the bytes done of all that will be read.
  std::function<void(int64_t done, int64_t total)> progress;
};

struct RecordResult {
  int32_t checkpoint = 0;  // in Comparison::checkpoints
  int32_t ref_team = -1;   // in Comparison::teams, -1 where the record has none
  int32_t got_team = -1;
  int64_t token_idx = 0;  // in the reference
  Metrics metrics;
  Verdict status = Verdict::kMatch;
  bool pass = true;
  bool held = true;  // at least one limit of the policy could be held, or it fails
  std::string_view why_unheld;
  double tolerance = 0;  // of rel_l2; of max_abs or kl where the policy has no rel_l2
  std::optional<double> rel_l2_limit;
  // The rel_l2 that honest computations have between them, where the policy knows it.
  std::optional<double> floor;
  // Where pass is false, what failed: rel_l2, max_abs, kl, argmax (whose value is the regret),
  // nonfinite or quarantine (whose values are counts).
  std::string_view failing_metric;
  double failing_value = 0;
  double failing_tolerance = 0;

  // rel_l2 as a multiple of the floor.
  std::optional<double> times_floor() const {
    return floor ? std::optional<double>(metrics.rel_l2 / *floor) : std::nullopt;
  }
};

struct QuarantinedValue {
  bool in_ref = false;
  int32_t checkpoint = 0;
  int64_t token_idx = 0;  // in its own log
  Garbage garbage;
};

struct FirstDivergence {
  CheckpointName checkpoint;
  int64_t token_idx = 0;
  std::string metric;
  double value = 0;
  double tolerance = 0;
  std::optional<double> floor = std::nullopt;  // where `metric` is rel_l2 and the policy knows it
};

struct Alignment {
  AlignMode mode = AlignMode::kAuto;
  int64_t offset = 0;     // token_idx in the second log minus that in the reference
  double confidence = 1;  // 0 to 1: how much worse the next best offset is; 1 where none was tried
  // The embeddings alone are the same under it: one of the two has tokens before the other's first.
  bool by_embedding = false;
};

// Where the two went on with different tokens after the same prompt. What they computed of these
// cannot be compared, and is left out.
struct Split {
  int64_t token_idx = 0;  // of the first token that is not the same, in the reference
  std::optional<int64_t> ref_token;
  std::optional<int64_t> got_token;
  int64_t left_out = 0;  // records of the reference from there on
  bool seen = true;      // not so where neither tokens nor embeddings show it: it may be an error
};

struct Drift {
  enum class Trend : uint8_t { kIncreasing, kStable, kDecreasing };
  // One step, from a place to the next, that carries most of the growth.
  struct Jump {
    int64_t at = 0;  // the layer or token that it leads to
    double before = 0;
    double after = 0;
  };
  // The measured rel_l2, a median where a place has several, at the first and the last place.
  struct Course {
    int64_t from = 0;
    int64_t to = 0;
    double first = 0;
    double last = 0;
    std::optional<Jump> jump;
  };
  std::optional<Course> layers;  // of layer_N_output; none of fewer than two, or without any error
  std::optional<Course> tokens;  // of the last checkpoint in common
  Trend trend = Trend::kStable;
  double growth_per_layer = 1;  // the factor by which rel_l2 of layer_N_output grows with N, fitted
  Trend position_trend = Trend::kStable;
  double growth_per_token = 1;         // the same over positions, of the last checkpoint in common
  std::vector<std::string> sentences;  // the courses in words, over layers first
  std::string sentence() const;        // all of them
};

// A known mistake that explains the first divergence; find_causes() looks for them.
struct Cause {
  std::string name;
  CheckpointName checkpoint;
  int64_t token_idx = 0;
  double explained = 0;   // share of ||difference||^2 that it removes
  double confidence = 0;  // 0 to 1: holds at every token, leaves nothing, and nothing else does
  std::string sentence;
};

// Where the error of a failing checkpoint comes from, at the token where most of it is its own.
// Errors are relative to the reference's norm, as rel_l2; own and inherited need not add up, as
// they may have any directions.
struct ErrorSource {
  CheckpointName checkpoint;
  int64_t token_idx = 0;
  int64_t failed = 0;  // tokens at which the checkpoint fails
  double rel_l2 = 0;
  // The distance from what the op gives for the inputs that the judged log holds, and of that from
  // the reference. Nothing where the op cannot be computed from what is logged and known.
  std::optional<double> own;
  std::optional<double> inherited;
  std::optional<double> input_rel_l2;  // the largest of its logged inputs
};

struct Comparison {
  std::string ref_path;
  std::string got_path;
  Verdict verdict = Verdict::kInconclusive;
  bool pass = false;
  std::optional<FirstDivergence> first_divergence;
  int64_t compared = 0;
  int64_t failed = 0;
  int64_t quarantined = 0;  // values, listed below or not
  std::map<std::pair<bool, GarbageReason>, int64_t> quarantined_by_reason;  // in_ref, reason
  int64_t unmatched_ref = 0;
  int64_t unmatched_got = 0;
  int64_t argmax_agree = 0;
  int64_t argmax_total = 0;
  Alignment alignment;
  std::optional<Split> split;
  Drift drift;
  std::vector<CheckpointName> checkpoints;
  std::vector<std::string> teams;
  std::vector<RecordResult> results;       // by token_idx, then as the network computes
  std::vector<ErrorSource> error_sources;  // those that made most first
  std::vector<Cause> causes;               // best first
  std::string cause_hint;  // where there are none: what would have to be logged to tell
  std::vector<QuarantinedValue> quarantine;
  std::vector<std::string> warnings;
  // Where the records are, for those who look further.
  std::shared_ptr<const LogIndex> ref_log;
  std::shared_ptr<const LogIndex> got_log;
};

// Whether any record was held to a floor.
bool has_floors(const Comparison& comparison);

// Compares the log at `got_path` with the reference at `ref_path`. Memory grows with the number of
// records, not with their sizes. Throws Error if either cannot be read or if the two cannot be
// compared: other tokens or prompts, no record in common, tensors of other sizes.
Comparison compare_logs(const std::string& ref_path, const std::string& got_path,
                        const CompareOptions& options);

}  // namespace assay
