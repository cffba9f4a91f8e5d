#pragma once

#include <string>
#include <vector>

#include "assay/perf/perf_comparison.h"

namespace assay {

// A verdict's figures as words, the same in every report.

std::string duration_text(double ns);                       // "1.23 ms"
std::string change_text(double ratio);                      // "+5.1 %", "?" where it is not known
std::string interval_text(const PerfResult& result);        // "+4.0 % to +6.2 %"
std::string times_text(double x_floor);                     // "2.41", "infinitely many"
std::string counts_text(const PerfComparison& comparison);  // "1 slower, 0 faster, …"

// What a reader must know besides the figures; empty where there is nothing.
std::vector<std::string> remarks(const PerfComparison& comparison);

// Of a comparison with too_few_pairs() one such benchmark, if possible one that seems slower, and
// what to do.
std::string too_few_pairs_text(const PerfComparison& comparison);

// How much slower what is UNSURE may be, although it seems no slower; empty where nothing is.
std::string unsure_text(const PerfComparison& comparison);

}  // namespace assay
