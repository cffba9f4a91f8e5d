#include "assay/report/incomplete_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "assay/compare/evidence.h"
#include "assay/compare/log_index.h"
#include "assay/log/checkpoint_set.h"
#include "assay/report/failure_text.h"
#include "base/count_of.h"
#include "base/error.h"
#include "base/shell.h"

namespace assay {
namespace {

// What is missing in the judged log, and what was compared.
struct Coverage {
  std::set<std::string> missing;
  std::set<std::string> compared;
  std::set<int64_t> missing_tokens;
  std::set<int64_t> compared_tokens;
};

Coverage coverage_of(const Comparison& comparison) {
  Coverage coverage;
  const auto name = [&](int32_t id) {
    return comparison.checkpoints[static_cast<size_t>(id)].name;
  };
  for (const Gap& gap : comparison.gaps) {
    if (gap.evidence != Evidence::kUnproven) continue;
    coverage.missing.insert(name(gap.checkpoint));
    coverage.missing_tokens.insert(gap.token_idx);
  }
  for (const RecordResult& result : comparison.results) {
    if (!result.of_ref || result.evidence == Evidence::kUnproven) continue;
    coverage.compared.insert(name(result.checkpoint));
    coverage.compared_tokens.insert(result.token_idx);
  }
  return coverage;
}

// The same operation of all layers.
std::string glob_of(const CheckpointName& name) {
  return name.layer < 0 ? name.name : "layer_*_" + name.op;
}

// The flags that accept every record that is missing; empty if none is. What was logged and could
// not be held to anything is not accepted.
std::string accepting_flags(const Comparison& comparison) {
  constexpr size_t kMost = 3;
  std::vector<std::string> globs;
  const auto add = [&](int32_t id) {
    const std::string glob = glob_of(comparison.checkpoints[static_cast<size_t>(id)]);
    if (std::ranges::find(globs, glob) == globs.end()) globs.push_back(glob);
  };
  for (const Gap& gap : comparison.gaps) {
    const bool missing = gap.reason == kMissing || gap.reason == kLacking;
    if (missing && gap.evidence == Evidence::kUnproven) add(gap.checkpoint);
  }
  if (globs.size() > kMost) {
    return fmt::format("--allow-missing GLOB for each of {} names, such as {}", globs.size(),
                       shell_quoted(globs.front()));
  }
  std::vector<std::string> flags;
  for (const std::string& glob : globs) flags.push_back("--allow-missing " + shell_quoted(glob));
  return fmt::format("{}", fmt::join(flags, " "));
}

// The shortest value of --checkpoints that selects what was compared and nothing that is missing.
std::string narrowing_checkpoints(const Comparison& comparison, const Coverage& coverage) {
  std::string globs;
  std::set<std::string> listed;
  for (const CheckpointName& name : comparison.checkpoints) {
    if (!coverage.compared.contains(name.name) || !listed.insert(glob_of(name)).second) continue;
    if (!globs.empty()) globs += ',';
    globs += glob_of(name);
  }
  for (const std::string& candidate : {std::string("logits"), std::string("layers"), globs}) {
    if (candidate.empty() || candidate.find(' ') != std::string::npos) continue;
    const CheckpointSet set(candidate);
    const auto selects = [&](const std::string& name) { return set.matches(name); };
    if (std::ranges::all_of(coverage.compared, selects) &&
        std::ranges::none_of(coverage.missing, selects)) {
      return candidate;
    }
  }
  return {};
}

// The range of tokens that were compared, if none that is missing lies within.
std::string narrowing_tokens(const Coverage& coverage) {
  if (coverage.compared_tokens.empty()) return {};
  const int64_t first = *coverage.compared_tokens.begin();
  const int64_t last = *coverage.compared_tokens.rbegin();
  const bool clean = std::ranges::none_of(
      coverage.missing_tokens, [&](int64_t token) { return token >= first && token <= last; });
  return clean ? fmt::format("{}..{}", first, last) : "";
}

// What to do about a reason, whatever else is unproven.
constexpr std::pair<std::string_view, std::string_view> kAdvice[] = {
    {kReferenceUnsound, "record the reference again: nothing can be held to that record"},
    {kSilentPart, "log each rank's part with values or a sketch"},
    {kLacksReplica, "log it on each rank that logs this checkpoint, with values or a sketch"},
    {kReplicasDiffer, "record the reference again: nothing can be held to that record"},
    {kZeroLogits,
     "check that both engines ran, or leave these records out with --tokens or --checkpoints"},
    {kNoElements, "check its shape, or leave such records out with --checkpoints"},
    {kOnlyInfinite,
     "check that both engines compute it, or leave such records out with --checkpoints"},
    {kUnclearNonfinite, "log all values of it on both sides (--values all)"},
    {kSwampedSums, "log all values of it on both sides (--values all)"},
    {kUnknownRegret, "log all values of it on both sides (--values all)"},
    {kOtherOrder, "log all values of it on one side (--values all), or a summary on both"},
    {kOtherInput, "name the same tokens in both headers, or log all values (--values all)"},
    {kDifferentPromptStart,
     "run the same tokens in both, or accept what is excused with --evidence any"},
    {kUnchosen,
     "check how the engine chooses tokens; if it draws them, say so in the header (\"sampling\"); "
     "if it follows another log, compare with that one"},
    {kDoubtfulOffset,
     "name the tokens in both headers (\"tokens\"), or give the offset with --align"},
    {kOffsetOfSome,
     "name the tokens of each sequence in both headers (\"tokens\"), and by \"mask\" what is "
     "padding"},
    {kMissingSequence,
     "log that sequence, or name the tokens of each in both headers, by which they are paired"},
};

// Whether the first record that is unproven is a row of one of several tokens.
bool is_row(const Comparison& comparison) {
  const EvidenceCounts::Place& first = *comparison.evidence.first_unproven;
  // The first row may have values.
  const int32_t least = first.reason == kNoFact ? 0 : 1;
  const auto holds = [&](const std::shared_ptr<const LogIndex>& log, int64_t token_idx) {
    if (!log) return false;
    const int64_t place = log->find(log->names().find(first.checkpoint.name), token_idx);
    return place >= 0 && log->entry(place).row >= least;
  };
  return holds(comparison.ref_log, first.token_idx) ||
         holds(comparison.got_log, first.token_idx + comparison.alignment.offset);
}

}  // namespace

std::string incomplete_advice(const Comparison& comparison) {
  if (comparison.failed > 0 || !comparison.evidence.first_unproven) return {};
  const EvidenceCounts::Place& first = *comparison.evidence.first_unproven;
  const bool is_gap =
      std::any_of(comparison.gaps.begin(), comparison.gaps.end(),
                  [](const Gap& gap) { return gap.evidence == Evidence::kUnproven; });
  for (const auto& [reason, advice] : kAdvice) {
    if (first.reason == reason) return std::string(advice);
  }
  if (first.reason == kAfterFlip) {
    return fmt::format(
        "give the engine the reference's experts, as {} does for Assay's, or accept what is "
        "excused with --evidence any",
        replay_command(comparison));
  }
  if (first.reason == kAfterSplit && comparison.split) {
    return fmt::format(
        "let the engine evaluate the reference's tokens, as assay run MODEL --follow {} does, "
        "narrow the comparison with --tokens ..{}, or accept what is excused with --evidence any",
        shell_quoted(comparison.ref_path), comparison.split->token_idx - 1);
  }
  if (!is_gap && (first.reason == kNoKl || first.reason == kNoLimit)) {
    return "log all values on both sides (--values all), or give that checkpoint a limit of rel_l2 "
           "in the policy, and none of kl";
  }
  if (!is_gap && first.reason == kFittedConstant) {
    return "log all values of the logits on one side, or accept parts with --evidence any";
  }
  if (!is_gap && lacks_argmax(first.reason)) {
    return "log summary.argmax or all values of the logits on both sides, or accept parts with "
           "--evidence any";
  }
  if (!is_gap && is_row(comparison)) {
    return "it is a row of a record of several tokens, whose first values are in the first row, "
           "and whose sketch and summary show none of its rows: log all values, or a record for "
           "each token";
  }
  if (!is_gap) {
    const bool part = comparison.whole_required && first.reason != kMissing;
    return part ? "log all values, or a sketch, on both sides, or accept parts with --evidence any"
                : "log values, a sketch or a summary of it on both sides, or leave such records "
                  "out with --checkpoints or --tokens";
  }
  const Coverage coverage = coverage_of(comparison);
  const std::string checkpoints = narrowing_checkpoints(comparison, coverage);
  const std::string tokens = narrowing_tokens(coverage);
  std::string narrow = "to what was logged with --checkpoints and --tokens";
  if (!checkpoints.empty()) {
    narrow = fmt::format("to what was logged with --checkpoints {}", shell_quoted(checkpoints));
  } else if (!tokens.empty()) {
    narrow = fmt::format("to what was logged with --tokens {}", tokens);
  }
  const std::string flags = accepting_flags(comparison);
  if (flags.empty()) return fmt::format("log all values, or narrow the comparison {}", narrow);
  return fmt::format("log it, narrow the comparison {}, or accept what is missing with {}", narrow,
                     flags);
}

std::string incomplete_text(const Comparison& comparison) {
  if (comparison.failed == 0 && comparison.verdict == Verdict::kInconclusive) {
    const int64_t count = comparison.compared;
    return fmt::format(
        "{}: parity with {} is not proved: the {} in common {} nothing but zeros; check that both "
        "engines ran, and what they log",
        printable(comparison.got_path), printable(comparison.ref_path), count_of(count, "record"),
        plural(count == 1, "holds", "hold"));
  }
  const EvidenceCounts& counts = comparison.evidence;
  if (comparison.failed > 0 || !counts.first_unproven) return {};
  const EvidenceCounts::Place& first = *counts.first_unproven;
  return fmt::format("{}: {} of {} {} unproven, the first {} at token {}: {}; {}",
                     printable(comparison.got_path), count_of(counts.unproven, "record"),
                     printable(comparison.ref_path), plural(counts.unproven == 1, "is", "are"),
                     printable(first.checkpoint.title(), 80), first.token_idx, first.reason,
                     incomplete_advice(comparison));
}

}  // namespace assay
