#include "assay/perf/perf_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/count_of.h"

namespace assay {
namespace {

int64_t count(const PerfComparison& comparison, PerfVerdict verdict) {
  return std::count_if(comparison.results.begin(), comparison.results.end(),
                       [&](const PerfResult& result) { return result.verdict == verdict; });
}

// "30.0 % faster"; `ratio` as change_text() takes it.
std::string slower_text(double ratio) {
  if (!std::isfinite(ratio) || !(ratio > 0)) return "an unknown change";
  return fmt::format("{:.1f} % {}", std::abs(ratio - 1) * 100, ratio < 1 ? "faster" : "slower");
}

}  // namespace

std::string duration_text(double ns) {
  static constexpr struct {
    double least;
    double divisor;
    const char* unit;
  } kUnits[] = {{1e9, 1e9, "s"}, {1e6, 1e6, "ms"}, {1e3, 1e3, "us"}, {0, 1, "ns"}};
  const auto* unit = std::find_if(std::begin(kUnits), std::end(kUnits),
                                  [&](const auto& candidate) { return ns >= candidate.least; });
  return fmt::format("{:.3g} {}", ns / unit->divisor, unit->unit);
}

std::string change_text(double ratio) {
  return std::isfinite(ratio) && ratio > 0 ? fmt::format("{:+.1f} %", (ratio - 1) * 100) : "?";
}

std::string interval_text(const PerfResult& result) {
  return change_text(result.low) + " to " + change_text(result.high);
}

std::string times_text(double x_floor) {
  return std::isfinite(x_floor) ? fmt::format("{:.3g}", x_floor) : "infinitely many";
}

std::string counts_text(const PerfComparison& comparison) {
  return fmt::format("{} slower, {} faster, {} the same, {} unsure",
                     count(comparison, PerfVerdict::kSlow), count(comparison, PerfVerdict::kFast),
                     count(comparison, PerfVerdict::kSame),
                     count(comparison, PerfVerdict::kUnsure));
}

std::vector<std::string> remarks(const PerfComparison& comparison) {
  std::vector<std::string> lines;
  int64_t fewest = comparison.results.front().pairs;
  for (const PerfResult& result : comparison.results) fewest = std::min(fewest, result.pairs);
  if (fewest < comparison.pairs_needed) {
    lines.push_back(fmt::format(
        "{} of repetitions are too few to confirm anything for {} benchmarks at a chance of {:g} "
        "of a false alarm: take {} or more",
        count_of(fewest, "pair"), comparison.results.size(), comparison.options.alpha,
        comparison.pairs_needed));
  }
  if (std::string unsure = unsure_text(comparison); !unsure.empty()) {
    lines.push_back(std::move(unsure));
  }
  lines.insert(lines.end(), comparison.notes.begin(), comparison.notes.end());
  for (const std::string& name : comparison.skipped) {
    lines.push_back("skipped in the head: " + name);
  }
  for (const std::string& name : comparison.missing) {
    lines.push_back("missing in the head: " + name);
  }
  for (const std::string& name : comparison.only_base) {
    if (std::ranges::find(comparison.missing, name) != comparison.missing.end()) continue;
    lines.push_back(fmt::format("only in the base: {}, accepted by --allow-missing", name));
  }
  for (const std::string& name : comparison.only_head) lines.push_back("only in the head: " + name);
  return lines;
}

std::string unsure_text(const PerfComparison& comparison) {
  const PerfResult* worst = nullptr;
  int64_t n = 0;
  for (const PerfResult& each : comparison.results) {
    if (each.verdict != PerfVerdict::kUnsure || comparison.too_few_pairs(each)) continue;
    ++n;
    if (worst == nullptr || !(each.high <= worst->high)) worst = &each;
  }
  if (worst == nullptr) return {};
  return fmt::format(
      "{} of {} {} not shown to be as fast: {} is between {} and {} (95 %); "
      "take more pairs",
      n, count_of(comparison.results.size(), "benchmark"), plural(n == 1, "is", "are"), worst->name,
      slower_text(worst->low), slower_text(worst->high));
}

std::string too_few_pairs_text(const PerfComparison& comparison) {
  std::vector<PerfResult> found;
  std::ranges::copy_if(comparison.results, std::back_inserter(found),
                       [&](const PerfResult& each) { return comparison.too_few_pairs(each); });
  std::ranges::stable_partition(
      found, [&](const PerfResult& each) { return comparison.seems_slower(each); });
  const PerfResult& first = found.front();
  const std::string take = first.pairs < comparison.pairs_needed
                               ? fmt::format("take {} or more", comparison.pairs_needed)
                               : "take more";
  const std::string pairs =
      fmt::format("{} {}", count_of(first.pairs, "pair"), plural(first.pairs == 1, "is", "are"));
  if (!comparison.seems_slower(first)) {
    return fmt::format("{}: {} too few to tell whether it is slower; {}", first.name, pairs, take);
  }
  return fmt::format("{} seems slower ({}), and {} too few to confirm it; {}", first.name,
                     change_text(first.ratio), pairs, take);
}

}  // namespace assay
