#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "assay/perf/bench_file.h"

namespace assay {

enum class PerfVerdict : uint8_t { kSame, kFast, kUnsure, kSlow };

std::string_view perf_verdict_name(PerfVerdict verdict);  // "SAME", "FAST", "UNSURE", "SLOW"

struct PerfOptions {
  double min_effect = 0.02;  // a ratio of times within 1 ± this is the same; above 0, below 1
  bool any_machine = false;  // whether times of unlike machines are compared
  double alpha = 0.01;  // the chance of any false SLOW or FAST among all benchmarks; in (0, 0.5)
  std::vector<std::string> allow_missing = {};  // globs of benchmarks that the head may lack
};

// How one benchmark has changed. A ratio is head's time over base's: above 1 is slower.
struct PerfResult {
  std::string name;
  PerfVerdict verdict = PerfVerdict::kUnsure;
  int64_t pairs = 0;
  double base_ns = 0;  // medians of an iteration
  double head_ns = 0;
  double ratio = 1;
  double low = 0;  // confidence interval of the ratio; 0 to infinity where too few pairs are there
  double high = 0;
  double p = 1;
};

struct PerfComparison {
  std::string base_path;
  std::string head_path;
  PerfOptions options;
  int64_t pairs_needed = 0;                    // below so many, nothing can be confirmed
  PerfVerdict verdict = PerfVerdict::kUnsure;  // the worst of the results
  std::vector<PerfResult> results;             // SLOW first, then by name
  std::vector<std::string> only_base;
  std::vector<std::string> missing;   // of only_base, what options.allow_missing does not name
  std::vector<std::string> unpaired;  // measured another number of times in the head
  std::vector<std::string> skipped;   // by the head, and measured in the base: "NAME (why)"
  std::vector<std::string> only_head;
  std::vector<std::string> notes;  // what else a reader must know, a sentence each

  // Whether a benchmark seems slower by min_effect or more.
  bool seems_slower(const PerfResult& result) const;
  // Whether a benchmark is UNSURE and seems slower, or has fewer pairs than could confirm that it
  // is: then the change is unknown, not zero.
  bool too_few_pairs(const PerfResult& result) const;
  bool too_few_pairs() const;
  // Whether each benchmark of the base has an answer.
  bool complete() const {
    return skipped.empty() && missing.empty() && unpaired.empty() && !too_few_pairs();
  }
};

// Pairs the repetitions of each benchmark in the order of the files: the i-th of base with the i-th
// of head, which are to be measured next to each other in time, by turns first (ABBA), and each in
// a process of its own, so that what disturbs one disturbs the other.
//
// SLOW: the test rejects "no change" at alpha, divided by the number of benchmarks (Bonferroni),
// the interval of that confidence is above 1, and the ratio is at least 1 + min_effect. FAST: the
// same below 1 / (1 + min_effect). SAME: the 95 % interval lies within these two. Else UNSURE.
//
// Throws Error if the files have no benchmark in common, were not measured on one machine (unless
// options.any_machine) with one number of threads, or a glob of options.allow_missing matches no
// benchmark of the base.
PerfComparison compare_benches(const BenchFile& base, const BenchFile& head,
                               const PerfOptions& options);

}  // namespace assay
