#include "assay/compare/several.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>
#include <system_error>

#include "assay/compare/compare_logs.h"
#include "assay/compare/median.h"
#include "assay/log/log_reader.h"
#include "assay/log/run_files.h"
#include "base/error.h"
#include "base/mapped_file.h"

namespace assay {
namespace {

using Set = uint32_t;  // of runs, a bit each

// NaN is further off than infinity.
bool is_nearer(double a, double b) {
  return std::isnan(b) ? !std::isnan(a) : a < b;
}

// Of two runs, for ranking.
double distance(const RunPair& pair) {
  if (std::isnan(pair.worst_rel_l2)) return std::numeric_limits<double>::infinity();
  return pair.worst_rel_l2;
}

bool has(Set set, size_t run) {
  return ((set >> run) & 1) != 0;
}

std::vector<size_t> members_of(Set set) {
  std::vector<size_t> members;
  for (size_t run = 0; set >> run != 0; ++run) {
    if (has(set, run)) members.push_back(run);
  }
  return members;
}

// Whether the two neither agree nor differ.
bool proves_nothing(const RunPair& pair) {
  return pair.verdict == Verdict::kInconclusive || pair.verdict == Verdict::kIncomplete;
}

// The runs that could be held to at least one other: what proves nothing has no vote.
Set voters_of(const std::vector<RunPair>& pairs) {
  Set voters = 0;
  for (const RunPair& pair : pairs) {
    if (!proves_nothing(pair)) voters |= Set{1} << pair.a | Set{1} << pair.b;
  }
  return voters;
}

// Those that are not of `good` and were found to differ from one that is.
Set diverged_from(Set good, const std::vector<RunPair>& pairs) {
  Set bad = 0;
  for (const RunPair& pair : pairs) {
    if (pair.pass || proves_nothing(pair)) continue;
    if (has(good, pair.a) || has(good, pair.b)) bad |= Set{1} << pair.a | Set{1} << pair.b;
  }
  return bad & ~good;
}

// The sets of most of the `voters` that agree pair by pair.
std::vector<Set> largest_agreeing(size_t n, Set voters, const std::vector<RunPair>& pairs) {
  std::vector<Set> agree(n, 0);
  for (const RunPair& pair : pairs) {
    if (!pair.pass) continue;
    agree[pair.a] |= Set{1} << pair.b;
    agree[pair.b] |= Set{1} << pair.a;
  }
  std::vector<Set> largest;
  int most = 0;
  for (Set set = 1; set < Set{1} << n; ++set) {
    const int count = std::popcount(set);
    if (count < most || (set & ~voters) != 0) continue;
    bool good = true;
    for (size_t run = 0; run < n && good; ++run) {
      if (has(set, run)) good = ((set & ~(Set{1} << run)) & ~agree[run]) == 0;
    }
    if (!good) continue;
    if (count > most) largest.clear();
    most = count;
    largest.push_back(set);
  }
  return largest;
}

// The voter that diverged and is far off from all others, if there is one and the others are near
// each other.
std::optional<size_t> far_off(Set voters, const std::vector<RunPair>& pairs) {
  if (std::popcount(voters) < 3) return std::nullopt;  // of two either may be the one
  for (const size_t run : members_of(voters)) {
    double nearest = std::numeric_limits<double>::infinity();
    double among_others = 0;
    bool others_known = true;
    for (const RunPair& pair : pairs) {
      if (!has(voters, pair.a) || !has(voters, pair.b)) continue;
      if (pair.a == run || pair.b == run) {
        nearest = std::min(nearest, distance(pair));
      } else {
        among_others = std::max(among_others, distance(pair));
        others_known = others_known && !proves_nothing(pair);
      }
    }
    const bool near = others_known && among_others <= kNear;
    if (near && nearest >= kFarOff * among_others && nearest > 0 &&
        has(diverged_from(voters & ~(Set{1} << run), pairs), run)) {
      return run;
    }
  }
  return std::nullopt;
}

std::string listed(const std::vector<std::string>& names, Set set) {
  std::vector<std::string> chosen;
  for (size_t run = 0; run < names.size(); ++run) {
    if (has(set, run)) chosen.push_back(names[run]);
  }
  return fmt::format("{}", fmt::join(chosen, ", "));
}

double worst_within(const std::vector<RunPair>& pairs, Set set) {
  double worst = 0;
  for (const RunPair& pair : pairs) {
    if (has(set, pair.a) && has(set, pair.b)) worst = std::max(worst, distance(pair));
  }
  return worst;
}

// What those that agree were not held to.
std::string left_open(const std::vector<RunPair>& pairs, Set set) {
  int64_t compared = 0;
  int64_t partial = 0;
  int64_t without_argmax = 0;
  for (const RunPair& pair : pairs) {
    if (!has(set, pair.a) || !has(set, pair.b)) continue;
    compared += pair.compared;
    partial += pair.partial;
    without_argmax += pair.without_argmax;
  }
  std::string text;
  if (partial > 0) {
    text = fmt::format("; of {} of {} compared records only a part", partial, compared);
  }
  if (without_argmax > 0) {
    text += fmt::format("; argmax not known in {} of them", without_argmax);
  }
  return text;
}

// None of several logs is the reference: what the second alone has was not shown either.
void count_gaps_of_both(const Comparison& comparison, RunPair& pair) {
  pair.unproven += comparison.unmatched_got;
  if (!pair.pass || pair.unproven == 0) return;
  pair.pass = false;
  pair.verdict = Verdict::kIncomplete;
}

}  // namespace

std::string_view consensus_name(Consensus consensus) {
  static constexpr std::string_view kNames[] = {"agree", "outlier", "cannot_tell"};
  return kNames[static_cast<size_t>(consensus)];
}

RunLabel label_of(const std::string& path) {
  LogReader log(run_files(path).front(), Depth::kKeys);
  const Record* first = log.next();
  RunLabel label{path, {}, {}, {}};
  if (log.header()) {
    const LogHeader& header = *log.header();
    for (const std::string* part : {&header.engine, &header.backend, &header.math}) {
      if (part->empty()) continue;
      label.engine += (label.engine.empty() ? "" : " ") + *part;
    }
    label.model = header.model.name;
    label.type = header.model.type;
  } else if (first != nullptr && first->team) {
    label.engine = *first->team;
  }
  return label;
}

std::vector<std::string> short_names(const std::vector<RunLabel>& runs) {
  std::vector<std::string> engines;
  std::vector<std::string> files;
  for (const RunLabel& run : runs) {
    engines.push_back(printable(run.engine, 40));
    const bool is_pipe = run.path.starts_with("/dev/fd/");  // whose file name says nothing
    files.push_back(
        printable(is_pipe ? run.path : std::filesystem::path(run.path).filename().string(), 40));
  }
  const auto differ = [](const std::vector<std::string>& names) {
    return std::set<std::string>(names.begin(), names.end()).size() == names.size() &&
           std::none_of(names.begin(), names.end(), [](const auto& name) { return name.empty(); });
  };
  if (differ(engines)) return engines;
  if (differ(files)) return files;
  std::vector<std::string> paths;
  paths.reserve(runs.size());
  for (const RunLabel& run : runs) paths.push_back(printable(run.path, 80));
  return paths;
}

RunPair pair_of(const Comparison& comparison, size_t a, size_t b) {
  RunPair pair;
  pair.a = a;
  pair.b = b;
  pair.verdict = comparison.verdict;
  pair.pass = comparison.pass;
  pair.compared = comparison.compared;
  pair.failed = comparison.failed;
  pair.unproven = comparison.evidence.unproven;
  pair.partial = comparison.evidence.partial;
  pair.without_argmax = comparison.evidence.argmax_total - comparison.evidence.argmax_known;
  pair.first_divergence = comparison.first_divergence;
  std::vector<double> errors;
  for (const RecordResult& result : comparison.results) {
    errors.push_back(result.metrics.rel_l2);
    if (result.tolerance > 0) {
      pair.worst_of_tolerance =
          std::max(pair.worst_of_tolerance, errors.back() / result.tolerance, is_nearer);
    }
  }
  if (errors.empty()) return pair;
  pair.worst_rel_l2 = *std::max_element(errors.begin(), errors.end(), is_nearer);
  pair.median_rel_l2 = upper_median(errors, is_nearer);
  return pair;
}

void judge_several(const std::vector<std::string>& names, SeveralComparison& several) {
  const size_t n = names.size();
  const std::vector<RunPair>& pairs = several.pairs;
  const Set all = (Set{1} << n) - 1;
  const Set voters = voters_of(pairs);
  const std::vector<Set> largest = largest_agreeing(n, voters, pairs);
  const Set most = largest.size() == 1 ? largest[0] : 0;
  several.consensus = Consensus::kCannotTell;
  several.outliers.clear();
  const auto judge = [&](Set good) {
    const Set bad = diverged_from(good, pairs);
    several.outliers = members_of(bad);
    several.unproved = members_of(all & ~good & ~bad);
    if (bad != 0) several.consensus = Consensus::kOutlier;
    if (good == all) several.consensus = Consensus::kAgree;
    return bad;
  };
  if (2 * std::popcount(most) > std::popcount(voters)) {
    const Set bad = judge(most);
    const double worst = worst_within(pairs, most);
    several.why =
        bad != 0 ? fmt::format(
                       "{} differ{} from {}, which agree with each other within "
                       "rel_l2 {:.3g}",
                       listed(names, bad), several.outliers.size() == 1 ? "s" : "",
                       listed(names, most), worst)
                 : fmt::format("{} agree with each other: rel_l2 {:.3g} at most",
                               most == all ? fmt::format("all {}", n) : listed(names, most), worst);
    several.why += left_open(pairs, most);
  } else if (const auto run = far_off(voters, pairs)) {
    const Set rest = voters & ~(Set{1} << *run);
    judge(rest);
    several.why = fmt::format(
        "{} is {}x or more further from each other run than {} are from each other (rel_l2 {:.3g} "
        "at most), though these do not agree within the tolerance either",
        names[*run], kFarOff, listed(names, rest), worst_within(pairs, rest));
  } else if (voters == 0) {
    several.unproved = members_of(all);
    several.why = "no run could be held to another";
  } else {
    several.unproved = members_of(all & ~voters);
    several.why = largest.size() > 1 && std::popcount(largest[0]) > 1
                      ? fmt::format("{} agree, but so do {}: there is no one majority",
                                    listed(names, largest[0]), listed(names, largest[1]))
                      : fmt::format(
                            "no majority of the {} agrees, and none is far off from all "
                            "others; add a run of a trusted engine",
                            std::popcount(voters));
  }
  for (const size_t run : several.unproved) {
    several.why += fmt::format("; {}", has(voters, run)
                                           ? names[run] + " could not be held to all of these"
                                           : names[run] +
                                                 " has no vote: its records prove nothing, or the "
                                                 "others lack some");
  }
}

bool has_same_bytes(const std::string& a, const std::string& b) {
  std::error_code none;
  for (const std::string& path : {a, b}) {
    if (!std::filesystem::is_regular_file(path, none)) return false;
  }
  const MappedFile files[] = {MappedFile(a), MappedFile(b)};
  return std::ranges::equal(files[0].bytes(), files[1].bytes());
}

SeveralComparison compare_several(const std::vector<std::string>& paths,
                                  const CompareOptions& options,
                                  const std::vector<std::string>& shown) {
  if (paths.size() > kMaxRuns) {
    throw Error(fmt::format("{} logs are too many", paths.size()), {},
                fmt::format("compare at most {} at once", kMaxRuns));
  }
  SeveralComparison several;
  const auto shown_as = [&](size_t run) { return shown.empty() ? paths[run] : shown.at(run); };
  for (size_t b = 0; b < paths.size(); ++b) {
    for (size_t a = 0; a < b; ++a) {
      std::error_code none;
      if (!std::filesystem::equivalent(paths[a], paths[b], none)) {
        if (has_same_bytes(paths[a], paths[b])) {
          several.warnings.push_back(fmt::format(
              "{} has the bytes of {}: if it is a copy and no run of its own, it votes twice; "
              "leave it out",
              printable(shown_as(b), 4096), printable(shown_as(a), 4096)));
        }
        continue;
      }
      throw Error(fmt::format("is the same file as {}", paths[a]), paths[b],
                  "a log must not vote twice");
    }
    several.runs.push_back(label_of(paths[b]));
    if (!shown.empty()) several.runs.back().path = shown.at(b);
  }
  std::set<std::string> told;
  for (size_t a = 0; a < paths.size(); ++a) {
    for (size_t b = a + 1; b < paths.size(); ++b) {
      const Comparison comparison = compare_logs(paths[a], paths[b], options);
      for (const std::string& warning : comparison.warnings) {
        if (told.insert(warning).second) several.warnings.push_back(warning);
      }
      several.pairs.push_back(pair_of(comparison, a, b));
      count_gaps_of_both(comparison, several.pairs.back());
    }
  }
  judge_several(short_names(several.runs), several);
  return several;
}

}  // namespace assay
