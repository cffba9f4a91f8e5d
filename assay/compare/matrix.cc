#include "assay/compare/matrix.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "assay/compare/compare_logs.h"
#include "assay/compare/log_probabilities.h"
#include "assay/compare/nothing_in_common.h"
#include "assay/log/log_reader.h"
#include "assay/log/run_files.h"
#include "base/count_of.h"
#include "base/error.h"
#include "base/input_file.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOracleMath = "float64";

// Files by what they are, whatever path leads there.
class SeenFiles {
 public:
  // Whether this is the first time. What cannot be looked at is never met.
  bool insert(const std::string& path) {
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) return true;
    return met_.emplace(status.st_dev, status.st_ino).second;
  }

 private:
  std::set<std::pair<dev_t, ino_t>> met_;
};

// Sorted, so that the same folder gives the same matrix.
std::vector<std::string> logs_in(const std::vector<std::string>& paths) {
  std::vector<std::string> logs;
  SeenFiles met;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      if (!fs::exists(path, error)) InputFile{path};  // says what is wrong with the path
      if (met.insert(path)) logs.push_back(path);
      continue;
    }
    const std::vector<std::string> found = logs_below(path, error);
    if (error) throw Error("cannot read the folder: " + error.message(), path);
    if (found.empty()) throw Error("the folder holds no *.jsonl", path, "give a folder of logs");
    std::ranges::copy_if(found, std::back_inserter(logs),
                         [&](const std::string& log) { return met.insert(log); });
  }
  return logs;
}

struct Run {
  RunLabel label;
  LogHeader header;
  int64_t bytes = 0;
};

// Nothing where no header places it. Throws Error if it cannot be read or holds no record.
std::optional<Run> run_of(const std::string& path) {
  LogReader log(path, Depth::kKeys);
  if (log.next() == nullptr) throw no_records_error(log);
  if (!log.header()) return std::nullopt;
  const LogHeader& header = *log.header();
  if (header.model.name.empty() && header.model.sha256.empty()) return std::nullopt;
  return Run{label_of(path), header, log.file()->size()};
}

// Engines call one file by different names (the golden's, the GGUF's), so that the hash decides
// where both have one.
bool is_same_model(const LogHeader::Model& a, const LogHeader::Model& b) {
  if (!a.sha256.empty() && !b.sha256.empty()) return a.sha256 == b.sha256;
  return a.name == b.name && (a.type == b.type || a.type.empty() || b.type.empty());
}

// Of each sequence, whatever their order.
std::vector<std::vector<int64_t>> tokens_of(const LogHeader& header) {
  std::vector<std::vector<int64_t>> all;
  if (!header.tokens.empty()) all.push_back(header.tokens);
  for (const LogHeader::Sequence& sequence : header.sequences) all.push_back(sequence.tokens);
  std::ranges::sort(all);
  return all;
}

// A run of given tokens has no text, and an engine that reads text may not know its tokens.
bool is_same_prompt(const LogHeader& a, const LogHeader& b) {
  const std::vector<std::vector<int64_t>> tokens = tokens_of(a);
  const std::vector<std::vector<int64_t>> others = tokens_of(b);
  if (!tokens.empty() && !others.empty()) return tokens == others;
  return a.prompt == b.prompt && a.prompt.has_value();
}

// Runs with a hash and tokens come first: they make the groups that the others join.
std::vector<std::vector<Run>> grouped(std::vector<Run> runs) {
  const auto unknown = [](const Run& run) {
    return static_cast<int>(run.header.model.sha256.empty()) +
           static_cast<int>(run.header.tokens.empty());
  };
  std::stable_sort(runs.begin(), runs.end(),
                   [&](const Run& a, const Run& b) { return unknown(a) < unknown(b); });
  std::vector<std::vector<Run>> groups;
  for (Run& run : runs) {
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& others) {
      const LogHeader& first = others.front().header;
      return is_same_model(first.model, run.header.model) && is_same_prompt(first, run.header);
    });
    if (group == groups.end()) {
      groups.push_back({std::move(run)});
    } else {
      group->push_back(std::move(run));
    }
  }
  return groups;
}

bool is_reference(const Run& run, const std::string& wanted) {
  if (wanted.empty()) return run.header.math == kOracleMath;
  return run.label.engine.find(wanted) != std::string::npos;
}

// What tells more of a run: a failure, else a proof, else the more records.
bool is_more_informative(const RunPair& a, const RunPair& b) {
  if ((a.failed > 0) != (b.failed > 0)) return a.failed > 0;
  if (a.pass != b.pass) return a.pass;
  return a.compared > b.compared;
}

using RecordKey = std::pair<std::string, int64_t>;  // checkpoint with its sequence, and token

// The records of the reference that the run has.
std::set<RecordKey> shared_records(const Comparison& comparison) {
  std::set<RecordKey> shared;
  for (const RecordResult& result : comparison.results) {
    if (!result.of_ref) continue;
    const CheckpointName& name = comparison.checkpoints[static_cast<size_t>(result.checkpoint)];
    shared.emplace(name.title(), result.token_idx);
  }
  return shared;
}

// Whether the run lacks a token of a checkpoint that it logs at others. Where it lacks a checkpoint
// altogether it may not have been asked for it.
bool lacks_tokens(const Comparison& comparison) {
  std::set<int32_t> logged;
  for (const RecordResult& result : comparison.results) {
    if (result.of_ref) logged.insert(result.checkpoint);
  }
  return std::ranges::any_of(comparison.gaps, [&](const Gap& gap) {
    return gap.evidence == Evidence::kUnproven && logged.contains(gap.checkpoint);
  });
}

// Whether the run logs no logits at all, and the reference does: without them a run of the first
// checkpoints alone would pass by a log of these.
bool lacks_logits(const Comparison& comparison) {
  const auto is_logits = [&](const auto& record) {
    return is_logits_name(comparison.checkpoints[static_cast<size_t>(record.checkpoint)].name);
  };
  return std::ranges::any_of(comparison.gaps,
                             [&](const Gap& gap) {
                               return gap.evidence == Evidence::kUnproven && is_logits(gap);
                             }) &&
         std::ranges::none_of(comparison.results, [&](const RecordResult& result) {
           return result.of_ref && is_logits(result);
         });
}

// A comparison of a run that lacks tokens of the reference's log, or logits.
struct CutRun {
  MatrixCell cell;
  std::set<RecordKey> shared;
  bool lacks_logits = false;
};

// Holds the run against each of the reference's logs: one may hold the layers of all tokens,
// another all ops of a few. What one of them shows to be wrong stays so whatever another one is.
// A log of fewer tokens proves nothing of a run that has some of the others and lacks the rest, nor
// one without logits of a run without them, where another has them.
MatrixCell compare_run(const std::vector<const Run*>& references, const Run& run,
                       const MatrixOptions& options) {
  MatrixCell cell{run.label.engine, run.label.path, {}, {}, {}, false, {}};
  MatrixCell broken = cell;
  std::set<RecordKey> proven;
  std::vector<CutRun> cut;
  for (const Run* reference : references) {
    const std::string& ref_path = reference->label.path;
    try {
      CompareOptions compare = options.compare;
      if (options.policy_for) compare.policy = options.policy_for(ref_path, cell.log);
      if (options.whole_for) compare.whole_required = options.whole_for(ref_path);
      const Comparison comparison = compare_logs(ref_path, cell.log, compare);
      const RunPair pair = pair_of(comparison, 0, 1);
      if (pair.pass) {
        proven.merge(shared_records(comparison));
      } else if (pair.failed == 0 && (lacks_tokens(comparison) || lacks_logits(comparison))) {
        cut.push_back({{cell.engine, cell.log, ref_path, pair, {}, false, comparison.warnings},
                       shared_records(comparison),
                       lacks_logits(comparison)});
      }
      if (cell.pair && !is_more_informative(pair, *cell.pair)) continue;
      cell.pair = pair;
      cell.warnings = comparison.warnings;
      cell.reference = ref_path;
      cell.problem.clear();
    } catch (const NothingInCommon& error) {
      if (cell.pair || !cell.problem.empty()) continue;
      cell.reference = ref_path;
      cell.problem = error.what();
    } catch (const Error& error) {
      if (!broken.problem.empty()) continue;
      broken.reference = ref_path;
      broken.problem = error.what();
    }
  }
  if (broken.problem.empty()) {
    if (!cell.pair || !cell.pair->pass) return cell;
    const auto of_run = std::ranges::find_if(cut, [&](const CutRun& each) {
      return each.lacks_logits || !std::ranges::includes(proven, each.shared);
    });
    return of_run == cut.end() ? cell : of_run->cell;
  }
  if (!cell.pair || cell.pair->failed == 0) return broken;
  cell.warnings.push_back(broken.problem);
  return cell;
}

// Any of several engines in float64 may be the one that was to be judged.
void require_one_reference(const std::vector<const Run*>& references) {
  for (const Run* run : references) {
    const RunLabel& first = references.front()->label;
    if (run->label.engine == first.engine) continue;
    throw Error(fmt::format("is of math float64, as is {}, of another engine: which one is the "
                            "reference is not known",
                            first.path),
                run->label.path, "name the reference's engine with --reference");
  }
}

// The logs of the reference's engine, the largest first: it holds the most checkpoints.
std::vector<const Run*> references_of(const std::vector<Run>& runs, const std::string& wanted) {
  std::vector<const Run*> references;
  for (const Run& run : runs) {
    if (is_reference(run, wanted)) references.push_back(&run);
  }
  if (wanted.empty()) require_one_reference(references);
  std::stable_sort(references.begin(), references.end(),
                   [](const Run* a, const Run* b) { return a->bytes > b->bytes; });
  std::erase_if(references, [&](const Run* run) {
    return run->label.engine != references.front()->label.engine;
  });
  return references;
}

// Which of the reference's logs are wrong by a larger one of them, and how: of two runs of its
// engine one may be wrong, and which one is not known, so that others are held against both. Each
// is held to the largest few alone, so that a folder of a hundred takes no ten thousand
// comparisons.
std::map<const Run*, MatrixCell> contradictions_of(const std::vector<const Run*>& references,
                                                   const MatrixOptions& options) {
  constexpr std::ptrdiff_t kMost = 4;
  std::map<const Run*, MatrixCell> found;
  for (auto each = references.begin(); each != references.end(); ++each) {
    const auto end = references.begin() + std::min(kMost, each - references.begin());
    MatrixCell cell = compare_run({references.begin(), end}, **each, options);
    if (cell.pair && cell.pair->failed > 0) found.emplace(*each, std::move(cell));
  }
  return found;
}

// The first that is not empty, of the reference first.
MatrixRow row_of(const std::vector<Run>& runs, const std::vector<const Run*>& references) {
  std::vector<const Run*> in_order = references;
  for (const Run& run : runs) in_order.push_back(&run);
  MatrixRow row;
  for (const Run* run : in_order) {
    if (row.model.empty()) row.model = run->label.model;
    if (row.type.empty()) row.type = run->label.type;
    if (row.prompt.empty()) row.prompt = run->header.prompt.value_or("");
  }
  const LogHeader::Model& model = runs.front().header.model;
  if (row.model.empty()) row.model = model.sha256.substr(0, 12);
  if (row.prompt.empty()) row.prompt = count_of(runs.front().header.tokens.size(), "token");
  if (!references.empty()) row.reference = references.front()->label.path;
  return row;
}

// The runs that a header places; tells `matrix` of the other logs.
std::vector<Run> placed_runs(const std::vector<std::string>& logs, RunMatrix& matrix) {
  std::vector<Run> placed;
  for (const std::string& log : logs) {
    try {
      if (auto run = run_of(log)) {
        placed.push_back(std::move(*run));
      } else {
        matrix.left_out.push_back(log);
        matrix.pass = false;
      }
    } catch (const Error& error) {
      matrix.unreadable.push_back({log, error});
      matrix.pass = false;
    }
  }
  return placed;
}

// Where there is nothing to show: a log that cannot be read is why before anything else is.
void throw_if_unreadable(const RunMatrix& matrix) {
  if (!matrix.unreadable.empty()) throw matrix.unreadable.front().problem;
}

// Where nothing could be compared. `references`, `engines`: whose runs there are.
std::string what_is_missing(const std::set<std::string>& references,
                            const std::set<std::string>& engines, const std::string& wanted) {
  if (references.empty()) {
    return wanted.empty() ? "name the reference's engine with --reference"
                          : fmt::format("check --reference {}", printable(wanted, 40));
  }
  const std::string name = printable(*references.begin(), 60);
  if (engines.empty()) {
    return fmt::format("all runs are the reference's ({}): give logs of another engine, too", name);
  }
  return fmt::format(
      "the reference ({}) has run other models or prompts than the rest: log the same for both",
      name);
}

}  // namespace

RunMatrix compare_matrix(const std::vector<std::string>& paths, const MatrixOptions& options) {
  RunMatrix matrix;
  std::vector<Run> placed = placed_runs(logs_in(paths), matrix);
  if (placed.empty()) {
    throw_if_unreadable(matrix);
    throw Error("no log has a header that names its model", paths.front(),
                "log with a first line {\"assay\":1,\"model\":{\"name\":...},\"engine\":...}");
  }
  std::set<std::string> references;
  std::set<std::string> engines;
  size_t compared = 0;
  for (const std::vector<Run>& runs : grouped(std::move(placed))) {
    const std::vector<const Run*> of_reference = references_of(runs, options.reference);
    const std::map<const Run*, MatrixCell> wrong = contradictions_of(of_reference, options);
    MatrixRow row = row_of(runs, of_reference);
    for (const Run& run : runs) {
      const bool is_of_reference =
          std::find(of_reference.begin(), of_reference.end(), &run) != of_reference.end();
      MatrixCell cell{run.label.engine, run.label.path, {}, {}, {}, is_of_reference, {}};
      if (const auto found = wrong.find(&run); found != wrong.end()) {
        cell = found->second;
        ++compared;
      } else if (!of_reference.empty() && !is_of_reference) {
        cell = compare_run(of_reference, run, options);
        ++compared;
      }
      matrix.pass = matrix.pass && (cell.is_reference || (cell.pair && cell.pair->pass));
      (is_of_reference ? references : engines).insert(cell.engine);
      row.cells.push_back(std::move(cell));
    }
    matrix.rows.push_back(std::move(row));
  }
  std::stable_sort(matrix.rows.begin(), matrix.rows.end(), [](const auto& a, const auto& b) {
    return std::tie(a.model, a.type, a.prompt) < std::tie(b.model, b.type, b.prompt);
  });
  if (compared == 0) {
    throw_if_unreadable(matrix);
    throw Error("no model, type and prompt has a run of the reference and another one",
                paths.front(), what_is_missing(references, engines, options.reference));
  }
  matrix.engines.assign(references.begin(), references.end());
  for (const std::string& engine : engines) {
    if (!references.contains(engine)) matrix.engines.push_back(engine);
  }
  return matrix;
}

}  // namespace assay
