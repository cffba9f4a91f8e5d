// What a comparison of two logs says: types without logic. compare_logs.h fills them.
#pragma once

#include <cstdint>
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

namespace assay {

class LogIndex;

// What a comparison says, of one record or of two logs.
enum class Verdict : uint8_t {
  kMatch,         // everything that was compared is equal
  kNoise,         // within the tolerance
  kTieFlip,       // within it, and the argmax, or an expert, differs by less than the error: two
                  // candidates are level
  kDrift,         // beyond it, by an error that grew little by little
  kWrong,         // beyond it at one step, by more than half of the reference, or not a number
  kInconclusive,  // all zeros on both sides: nothing is proved
  kIncomplete,    // nothing failed, and something of the reference was not shown
};

std::string_view verdict_name(Verdict verdict);

// The state in which a record of the reference ends. Each starts as unproven; evidence.h decides.
enum class Evidence : uint8_t {
  kWhole,     // all values, or a sketch on both sides, within the tolerance
  kPartial,   // a head of the values or a summary, within the tolerance
  kExcused,   // not compared for a reason that both logs show, or a gap that was accepted by name
  kUnproven,  // missing, or nothing said that the other side could be held to
  kFailed,
};

std::string_view evidence_name(Evidence evidence);

// What a record fails by.
enum class Metric : uint8_t {
  kNone,
  kRelL2,
  kMaxAbs,
  kKl,
  kArgmax,         // the value is the regret
  kNonfinite,      // the value is a count
  kQuarantine,     // the value is a count
  kSize,           // the tensors have other numbers of elements
  kContradiction,  // the judged log contradicts itself
  kReplica,        // ranks that should hold the same do not; the value is how far they are apart
  kMargin,         // other experts; the value is how far their router's logits are apart
  kOwnError,       // not what a model gives for the inputs in the judged log; see OwnErrors
};

std::string_view metric_name(Metric metric);

struct RecordResult {
  int32_t checkpoint = 0;  // in Comparison::checkpoints
  int32_t ref_team = -1;   // in Comparison::teams, -1 where the record has none
  int32_t got_team = -1;
  int64_t token_idx = 0;  // in the reference
  Metrics metrics;
  Verdict status = Verdict::kMatch;
  Evidence evidence = Evidence::kUnproven;
  std::string_view reason;          // why it is unproven, or what contradicts itself
  bool contradicts_itself = false;  // the judged record
  bool of_ref = true;  // false: a record that the judged log alone has, which fails by itself
  // False: one that --checkpoints, --tokens or the map leaves out, which has a NaN or, unless the
  // map does, an infinity of its own.
  bool selected = true;
  double tolerance = 0;  // of rel_l2; of max_abs or kl where the policy has no rel_l2
  std::optional<double> rel_l2_limit;
  // The rel_l2 that honest computations have between them, where the policy knows it.
  std::optional<double> floor;
  Metric failing_metric = Metric::kNone;
  double failing_value = 0;
  double failing_tolerance = 0;
  std::string ranks;  // "tp 2": of a record that fails, those whose parts hold the difference
  std::optional<double> own_error;  // of the judged record, where it was held to a model

  bool failed() const { return evidence == Evidence::kFailed; }
  // rel_l2 as a multiple of the floor.
  std::optional<double> times_floor() const {
    return floor ? std::optional<double>(metrics.rel_l2 / *floor) : std::nullopt;
  }
};

// A record of the reference that was held to nothing.
struct Gap {
  int32_t checkpoint = 0;  // in Comparison::checkpoints
  int64_t token_idx = 0;
  Evidence evidence = Evidence::kUnproven;  // or kExcused
  std::string_view reason;
};

// How many records of the reference ended in which state; those that failed are
// Comparison::failed.
struct EvidenceCounts {
  struct Place {
    CheckpointName checkpoint;
    int64_t token_idx = 0;
    std::string reason;
  };
  int64_t whole = 0;
  int64_t partial = 0;
  int64_t excused = 0;
  int64_t unproven = 0;
  int64_t argmax_known = 0;  // records of logits of which both sides tell the argmax
  int64_t argmax_total = 0;  // records of logits that were not excused
  std::optional<Place> first_unproven;
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
  Metric metric = Metric::kNone;
  double value = 0;
  double tolerance = 0;
  std::string ranks = {};                      // as of its record
  std::optional<double> floor = std::nullopt;  // where `metric` is rel_l2 and the policy knows it
};

enum class AlignMode : uint8_t { kAuto, kIndex, kFixed };

struct Alignment {
  AlignMode mode = AlignMode::kAuto;
  int64_t offset = 0;     // token_idx in the second log minus that in the reference
  double confidence = 1;  // 0 to 1: how much worse the next best offset is; 1 where none was tried
  // What shows that one of the two has tokens before the other's first.
  enum class Shift : uint8_t { kNone, kByTokens, kByEmbedding };
  Shift shift = Shift::kNone;
  // Each prompt of the judged log begins without the reference's first token, which is BOS.
  bool lacks_bos = false;
};

// Where the two went on with different tokens after the same prompt. What they computed of these
// cannot be compared, and is excused.
struct Split {
  int64_t token_idx = 0;  // of the first token that is not the same, in the reference
  std::optional<int64_t> ref_token;
  std::optional<int64_t> got_token;
  int64_t left_out = 0;  // records of the reference from there on
  bool seen = true;      // false where neither header nor embedding shows it: it may be an error
};

// A near tie of experts: the two logs chose differently, and the error explains it. Or the same
// experts in another order, which the weights allow: then nothing is known of margin and error.
struct ExpertFlip {
  int32_t checkpoint = 0;  // in Comparison::checkpoints, a layer_N_experts
  int64_t token_idx = 0;
  int64_t ref_expert = 0;  // of the experts swapped, the two that lie furthest apart
  int64_t got_expert = 0;
  double margin = 0;          // by how much the reference's logits prefer its own
  double error = 0;           // how far apart two logits may be for a near tie
  bool same_experts = false;  // in another order
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
  // Why own is not known: the inputs fail, and the judged log lacks some of their values.
  bool inputs_are_partial = false;
  std::optional<double> input_rel_l2;  // the largest of its logged inputs
};

// How far each op of the judged log is from what a model gives for the inputs that the same log
// holds, relative to the norm of that: what it made itself, whatever the reference is.
struct OwnErrors {
  struct Place {
    CheckpointName checkpoint;
    int64_t token_idx = 0;
    double value = 0;  // NaN counts as larger than all
  };
  double limit = 0;
  int64_t held = 0;    // records that were held to the model
  int64_t failed = 0;  // of these
  int64_t not_held = 0;
  int64_t excused = 0;  // records of the reference that the comparison excuses
  int64_t excused_held = 0;
  std::optional<Place> largest;
  std::optional<Place> first_failed;  // by token, then as the network computes
  std::optional<EvidenceCounts::Place> first_not_held;
};

struct Comparison {
  std::string ref_path;
  std::string got_path;
  Verdict verdict = Verdict::kIncomplete;
  bool pass = false;
  EvidenceCounts evidence;
  bool whole_required = false;      // partial and excused records count as unproven
  bool built_in_tolerance = false;  // no policy was given
  std::optional<FirstDivergence> first_divergence;
  int64_t compared = 0;
  int64_t failed = 0;
  int64_t quarantined = 0;  // values, listed below or not
  std::map<std::pair<bool, GarbageReason>, int64_t> quarantined_by_reason;  // in_ref, reason
  int64_t unmatched_ref = 0;
  int64_t unmatched_got = 0;
  int64_t argmax_agree = 0;
  int64_t argmax_total = 0;  // records of logits of which both sides tell the argmax
  Alignment alignment;
  std::optional<Split> split;
  std::vector<ExpertFlip> flips;  // by token, then as the network computes
  Drift drift;
  std::vector<CheckpointName> checkpoints;
  std::vector<int64_t> order;  // of each of them, its place as the network computes
  std::vector<std::string> teams;
  std::vector<RecordResult> results;       // by token_idx, then as the network computes
  std::vector<Gap> gaps;                   // in the same order
  std::vector<ErrorSource> error_sources;  // those that made most first
  std::vector<Cause> causes;               // best first
  std::string cause_hint;  // without causes: what would have to be logged to find them
  // Those that the search did not try, or not everywhere, as its work is bounded.
  std::vector<std::string> causes_not_tried;
  std::optional<OwnErrors> own_errors;  // where they were asked for
  std::vector<QuarantinedValue> quarantine;
  std::vector<std::string> warnings;
  std::string ref_sequence;  // the names of the sequence that the two are of
  std::string got_sequence;
  // Where the logs have several, the comparison of each; empty otherwise. Of one that a log alone
  // has, the name in the other is empty.
  std::vector<Comparison> sequences;
  size_t leading = 0;  // of `sequences`, that of the first divergence
  // Where the records are, for those who look further.
  std::shared_ptr<const LogIndex> ref_log;
  std::shared_ptr<const LogIndex> got_log;
};

// By the value; NaN is larger than all others.
bool is_larger(const OwnErrors::Place& a, const OwnErrors::Place& b);

// Whether any record was held to a floor.
bool has_floors(const Comparison& comparison);

}  // namespace assay
