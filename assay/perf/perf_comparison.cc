#include "assay/perf/perf_comparison.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <span>

#include "assay/perf/median.h"
#include "assay/perf/paired_test.h"
#include "base/count_of.h"
#include "base/error.h"

namespace assay {
namespace {

constexpr double kSameAlpha = 0.05;

// The fewest pairs whose best possible p, 2 / 2^n, is at most alpha.
int64_t fewest_pairs(double alpha) {
  return static_cast<int64_t>(std::ceil(1 - std::log2(alpha)));
}

PerfResult judge(const std::string& name, std::span<const double> base,
                 std::span<const double> head, double alpha, double min_effect) {
  const size_t n = std::min(base.size(), head.size());
  std::vector<double> differences(n);
  // Not the logarithm of the ratio, which may be beyond what a double holds.
  for (size_t i = 0; i < n; ++i) differences[i] = std::log(head[i]) - std::log(base[i]);
  const PairedTest strict = paired_test(differences, alpha);
  const PairedTest usual = paired_test(differences, kSameAlpha);
  PerfResult result;
  result.name = name;
  result.pairs = static_cast<int64_t>(n);
  const auto median_of_pairs = [n](std::span<const double> times) {
    times = times.first(n);
    return median({times.begin(), times.end()});
  };
  result.base_ns = median_of_pairs(base);
  result.head_ns = median_of_pairs(head);
  result.ratio = std::exp(strict.estimate);
  result.low = std::exp(usual.low);
  result.high = std::exp(usual.high);
  result.p = strict.p;
  const double least = std::log1p(min_effect);
  if (strict.p <= alpha && strict.low > 0 && strict.estimate >= least) {
    result.verdict = PerfVerdict::kSlow;
  } else if (strict.p <= alpha && strict.high < 0 && strict.estimate <= -least) {
    result.verdict = PerfVerdict::kFast;
  } else if (usual.low >= -least && usual.high <= least) {
    result.verdict = PerfVerdict::kSame;
  }
  return result;
}

constexpr const char* kOfMachine[] = {"processor", "num_cpus", "mhz_per_cpu", "host_name"};
constexpr const char* kByTurns =
    "run both by turns on one machine: scripts/perf.sh; or accept it with --any-machine";

bool names_machine(const BenchFile& file) {
  return std::ranges::any_of(kOfMachine,
                             [&](const char* key) { return file.context.contains(key); });
}

constexpr double kMhzReading = 0.1;  // by which one processor's may differ

// Whether both files state it and not alike. What only one file says is not held against it:
// versions of Google Benchmark state more or less.
bool differs(const BenchFile& base, const BenchFile& head, const std::string& key) {
  const auto in_base = base.context.find(key);
  const auto in_head = head.context.find(key);
  if (in_base == base.context.end() || in_head == head.context.end()) return false;
  if (key != "mhz_per_cpu") return in_base->second != in_head->second;
  const double a = std::strtod(in_base->second.c_str(), nullptr);
  const double b = std::strtod(in_head->second.c_str(), nullptr);
  return !(std::abs(a - b) <= kMhzReading * std::max(a, b));
}

// Times of two machines tell nothing of two programs.
void check_machine(const BenchFile& base, const BenchFile& head, const PerfOptions& options) {
  const auto reject = [&](const char* key, const char* hint) {
    if (!differs(base, head, key)) return;
    throw Error(fmt::format("{} is {} here and {} in {}: times of unlike runs cannot be compared",
                            key, printable(head.context.at(key), 60),
                            printable(base.context.at(key), 60), base.path),
                head.path, hint);
  };
  reject("assay_threads", "run both with the same --threads");
  if (options.any_machine) return;
  for (const char* key : kOfMachine) reject(key, kByTurns);
  if (names_machine(base) == names_machine(head)) return;
  const BenchFile& silent = names_machine(base) ? head : base;
  const BenchFile& other = names_machine(base) ? base : head;
  throw Error(fmt::format("'context' names no machine, and that of {} does", other.path),
              silent.path, kByTurns);
}

// Nor do times on unlike numbers of threads. What a file does not state is one thread, which Google
// Benchmark runs on unless it is asked.
void check_threads(const BenchFile& base, const BenchFile& head,
                   const std::vector<std::string>& names) {
  const auto threads = [](const BenchFile& file, const std::string& name) {
    const auto found = file.threads.find(name);
    return found == file.threads.end() ? int64_t{1} : found->second;
  };
  for (const std::string& name : names) {
    if (threads(base, name) == threads(head, name)) continue;
    throw Error(
        fmt::format("benchmark {} ran on {} here, on {} in {}: times of unlike runs cannot be "
                    "compared",
                    printable(name, 60), count_of(threads(head, name), "thread"),
                    threads(base, name), base.path),
        head.path, "run both with the same number of threads");
  }
}

// A name may itself hold what a glob reads otherwise: "BM_sort<char[4]>".
bool matches(const std::string& glob, const std::string& name) {
  return glob == name || fnmatch(glob.c_str(), name.c_str(), 0) == 0;
}

bool may_be_missing(const std::string& name, const PerfOptions& options) {
  return std::ranges::any_of(options.allow_missing,
                             [&](const std::string& glob) { return matches(glob, name); });
}

// A mistyped glob must not look like one that accepts something.
void check_allowed(const BenchFile& base, const PerfOptions& options) {
  for (const std::string& glob : options.allow_missing) {
    if (std::ranges::any_of(base.times,
                            [&](const auto& entry) { return matches(glob, entry.first); })) {
      continue;
    }
    throw Error(fmt::format("{} has no benchmark '{}'", base.path, printable(glob, 60)),
                "--allow-missing", "give a glob of benchmarks that the base has");
  }
}

void note_differences(const BenchFile& base, const BenchFile& head, PerfComparison& comparison) {
  const auto note = [&](const char* key) {
    if (!differs(base, head, key)) return;
    comparison.notes.push_back(fmt::format("{} is {} in the base, {} in the head", key,
                                           base.context.at(key), head.context.at(key)));
  };
  for (const char* key : {"assay_kernels", "library_build_type"}) note(key);
  for (const char* key : kOfMachine) note(key);
  if (!names_machine(base) && !names_machine(head)) {
    comparison.notes.push_back("neither file's 'context' names the machine: it may be another");
  }
  for (const auto& [name, times] : base.times) {
    const auto other = head.times.find(name);
    if (other == head.times.end() || other->second.size() == times.size()) continue;
    comparison.unpaired.push_back(name);
    comparison.notes.push_back(fmt::format(
        "{} has {} repetitions in the base, {} in the head: what has no partner is left out", name,
        times.size(), other->second.size()));
  }
}

}  // namespace

std::string_view perf_verdict_name(PerfVerdict verdict) {
  static constexpr std::string_view kNames[] = {"SAME", "FAST", "UNSURE", "SLOW"};
  return kNames[static_cast<size_t>(verdict)];
}

bool PerfComparison::seems_slower(const PerfResult& result) const {
  return !(result.ratio < 1 + options.min_effect);
}

bool PerfComparison::too_few_pairs(const PerfResult& result) const {
  return result.verdict == PerfVerdict::kUnsure &&
         (result.pairs < pairs_needed || seems_slower(result));
}

bool PerfComparison::too_few_pairs() const {
  return std::any_of(results.begin(), results.end(),
                     [this](const PerfResult& result) { return too_few_pairs(result); });
}

PerfComparison compare_benches(const BenchFile& base, const BenchFile& head,
                               const PerfOptions& options) {
  PerfComparison comparison;
  comparison.base_path = base.path;
  comparison.head_path = head.path;
  comparison.options = options;
  std::vector<std::string> common;
  for (const auto& [name, times] : base.times) {
    const auto skipped = head.skipped.find(name);
    if (skipped != head.skipped.end()) {
      comparison.skipped.push_back(
          skipped->second.empty() ? name : fmt::format("{} ({})", name, skipped->second));
    }
    if (head.times.contains(name)) {
      common.push_back(name);
    } else if (skipped == head.skipped.end()) {
      comparison.only_base.push_back(name);
      if (!may_be_missing(name, options)) comparison.missing.push_back(name);
    }
  }
  for (const auto& [name, times] : head.times) {
    if (!base.times.contains(name)) comparison.only_head.push_back(name);
  }
  if (common.empty()) {
    throw Error(fmt::format("no benchmark in common with {}", base.path), head.path,
                "run both with the same --benchmark_filter");
  }
  check_machine(base, head, options);
  check_threads(base, head, common);
  check_allowed(base, options);
  note_differences(base, head, comparison);
  const double alpha = options.alpha / static_cast<double>(common.size());
  comparison.pairs_needed = fewest_pairs(alpha);
  for (const std::string& name : common) {
    comparison.results.push_back(
        judge(name, base.times.at(name), head.times.at(name), alpha, options.min_effect));
  }
  std::stable_sort(comparison.results.begin(), comparison.results.end(),
                   [](const PerfResult& a, const PerfResult& b) { return a.verdict > b.verdict; });
  comparison.verdict = comparison.results.front().verdict;
  return comparison;
}

}  // namespace assay
