#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/compare/compare_options.h"
#include "assay/compare/comparison.h"

namespace assay {

// The log of a run, and what its header states.
struct RunLabel {
  std::string path;
  std::string engine;  // with backend and math: "assay cpu exact"; empty where there is no header
  std::string model;
  std::string type;
};

RunLabel label_of(const std::string& path);

// What to call each run: its engine or, where these do not tell them apart, its file.
std::vector<std::string> short_names(const std::vector<RunLabel>& runs);

// Two of the logs, held against each other.
struct RunPair {
  size_t a = 0;  // in SeveralComparison::runs, a < b; `a` is the reference
  size_t b = 0;
  Verdict verdict = Verdict::kInconclusive;
  bool pass = false;
  int64_t compared = 0;
  int64_t failed = 0;
  int64_t unproven = 0;        // records that one of the two has and the other was not held to
  int64_t partial = 0;         // records of which only a part was compared
  int64_t without_argmax = 0;  // records of logits of which one of the two tells no argmax
  double median_rel_l2 = 0;
  double worst_rel_l2 = 0;        // NaN where a value was no number
  double worst_of_tolerance = 0;  // the largest rel_l2 as a multiple of its tolerance
  std::optional<FirstDivergence> first_divergence;
};

RunPair pair_of(const Comparison& comparison, size_t a, size_t b);

enum class Consensus : uint8_t {
  kAgree,       // each with each
  kOutlier,     // some differ from a majority that agrees
  kCannotTell,  // there is no such majority
};

std::string_view consensus_name(Consensus consensus);

struct SeveralComparison {
  std::vector<RunLabel> runs;
  std::vector<RunPair> pairs;
  Consensus consensus = Consensus::kCannotTell;
  std::vector<size_t> outliers;  // in `runs`
  std::vector<size_t> unproved;  // in `runs`: neither outliers nor found to agree
  std::string why;               // one sentence
  std::vector<std::string> warnings;
};

inline constexpr size_t kMaxRuns = 16;

// Who differs from whom, by majority: if one largest set of more than half of the runs agrees pair
// by pair, the others are the outliers. Where none does, a run is still the outlier if it is at
// least kFarOff times as far from each other one as these are from each other. `pairs` has each
// two of `names` once; sets consensus, outliers, unproved and why.
//
// A run all of whose pairs are inconclusive has no vote, and keeps the rest from agreeing as a
// whole but not from having an outlier. An outlier was found to differ from one of the majority.
void judge_several(const std::vector<std::string>& names, SeveralComparison& several);
inline constexpr double kFarOff = 10;
inline constexpr double kNear = 0.1;  // rel_l2 of runs that are near each other, at most

// Whether both are files, and one may be a copy of the other.
bool has_same_bytes(const std::string& a, const std::string& b);

// Compares each of 3 to kMaxRuns logs with each. `shown`: what to call the paths, where that is
// not what they are. Throws Error as compare_logs() does, or if two paths are of one file;
// of copies it warns.
SeveralComparison compare_several(const std::vector<std::string>& paths,
                                  const CompareOptions& options,
                                  const std::vector<std::string>& shown = {});

}  // namespace assay
