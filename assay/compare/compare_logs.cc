#include "assay/compare/compare_logs.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "assay/compare/aligner.h"
#include "assay/compare/alignment.h"
#include "assay/compare/coverage.h"
#include "assay/compare/evidence.h"
#include "assay/compare/expert_flips.h"
#include "assay/compare/input_tokens.h"
#include "assay/compare/log_index.h"
#include "assay/compare/measure.h"
#include "assay/compare/merge_sequences.h"
#include "assay/compare/nothing_in_common.h"
#include "assay/compare/pairing.h"
#include "assay/compare/prompt_end.h"
#include "assay/compare/sequence_pairs.h"
#include "assay/compare/split.h"
#include "assay/compare/unmapped_nan.h"
#include "assay/compare/verdict.h"
#include "assay/log/log_reader.h"
#include "base/count_of.h"
#include "base/error.h"

namespace assay {
namespace {

// One sequence of both.
struct Logs {
  std::shared_ptr<const LogIndex> ref;
  std::shared_ptr<const LogIndex> got;
};

using Sequences = std::vector<std::shared_ptr<LogIndex>>;

std::pair<Sequences, Sequences> read_indices(const std::string& ref_path,
                                             const std::string& got_path,
                                             const CompareOptions& options, ThreadPool& pool) {
  const std::string* paths[2] = {&ref_path, &got_path};
  NameMap maps[2] = {options.ref_map, options.got_map};
  if (!maps[0].empty() || !maps[1].empty()) {
    // Either header may say what the other log leaves out.
    for (const std::string* path : paths) {
      const std::optional<LogHeader> header = read_log_header(*path);
      if (!header) continue;
      for (NameMap& map : maps) map.set_arch(header->model.arch);
    }
  }
  Sequences logs[2];
  std::exception_ptr errors[2];
  pool.parallel_for(2, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      try {
        logs[i] = LogIndex::read_run(*paths[i], maps[i]);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  });
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return {std::move(logs[0]), std::move(logs[1])};
}

// The sequences that belong together; where one has no partner, that is one without records.
std::vector<Logs> pair_logs(const Sequences& ref, const Sequences& got) {
  std::vector<Logs> pairs;
  for (const SequencePair& pair : pair_sequences(ref, got)) {
    const auto side = [](const Sequences& sequences, int64_t place) {
      return place < 0 ? LogIndex::without_records(*sequences.front())
                       : sequences[static_cast<size_t>(place)];
    };
    const std::shared_ptr<LogIndex> a = side(ref, pair.ref);
    const std::shared_ptr<LogIndex> b = side(got, pair.got);
    a->expand_like(*b);
    b->expand_like(*a);
    pairs.push_back({a, b});
  }
  // Once all are expanded: a sequence may be in two pairs.
  for (const Sequences* all : {&ref, &got}) {
    for (const auto& sequence : *all) sequence->leave_out_padding();
  }
  return pairs;
}

std::vector<std::string> names_in(const NameTable& table) {
  std::vector<std::string> names;
  names.reserve(static_cast<size_t>(table.size()));
  for (int32_t id = 0; id < table.size(); ++id) names.push_back(table.name(id));
  return names;
}

// The checkpoints and teams of both logs, and the order in which the network computes.
void name_checkpoints(const Logs& logs, const SharedNames& names, Comparison& comparison) {
  std::vector<ArrivedCheckpoint> arrived;
  for (const std::string& name : names_in(names.checkpoints)) {
    comparison.checkpoints.push_back(parse_checkpoint_name(name));
    arrived.push_back({comparison.checkpoints.back(), -1});
  }
  std::vector<bool> met(arrived.size(), false);
  for (const auto* log : {logs.ref.get(), logs.got.get()}) {
    std::vector<int32_t> shared;
    for (const std::string& name : names_in(log->names())) {
      shared.push_back(names.checkpoints.find(name));
    }
    int32_t before = -1;
    for (const IndexEntry& entry : log->entries()) {
      const int32_t id = shared[static_cast<size_t>(entry.checkpoint)];
      if (!met[static_cast<size_t>(id)] && before < id) {
        arrived[static_cast<size_t>(id)].after = before;
      }
      met[static_cast<size_t>(id)] = true;
      before = id;
    }
  }
  const std::vector<int32_t> ranks = order_checkpoints(arrived);
  comparison.order.assign(ranks.begin(), ranks.end());
  comparison.teams = names_in(names.teams);
}

// Ids of experts and positions are equal or flips, whatever the policy's tolerances are. The policy
// need not have one for what is not compared.
std::vector<Tolerance> tolerances_of(const LogIndex& ref, const SharedNames& names,
                                     const CompareOptions& options) {
  std::vector<Tolerance> tolerances(static_cast<size_t>(names.checkpoints.size()));
  for (const std::string& name : names_in(ref.names())) {
    Tolerance& tolerance = tolerances[static_cast<size_t>(names.checkpoints.find(name))];
    if (holds_ids(parse_checkpoint_name(name))) {
      tolerance = {0.0, {}, {}, {}};
    } else if (options.selection.has_checkpoint(name)) {
      tolerance = options.policy.tolerance(name);
    }
  }
  return tolerances;
}

// Sorts records by token, then as the network computes. In place: of a long run there are millions.
template <typename Record>
void sort_records(const Comparison& comparison, std::vector<Record>& records) {
  const auto key = [&](size_t i) {
    return std::tuple(records[i].token_idx,
                      comparison.order[static_cast<size_t>(records[i].checkpoint)], i);
  };
  std::vector<size_t> from(records.size());
  std::iota(from.begin(), from.end(), size_t{0});
  std::sort(from.begin(), from.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  for (size_t first = 0; first < from.size(); ++first) {
    if (from[first] == first) continue;
    Record moved = std::move(records[first]);
    size_t at = first;
    for (; from[at] != first; at = std::exchange(from[at], at)) {
      records[at] = std::move(records[from[at]]);
    }
    records[at] = std::move(moved);
    from[at] = at;
  }
}

void list_garbage(const std::vector<Garbage>& garbage, bool in_ref, int32_t checkpoint,
                  int64_t token_idx, Comparison& comparison) {
  int listed[4] = {};
  for (const Garbage& found : garbage) {
    ++comparison.quarantined;
    ++comparison.quarantined_by_reason[{in_ref, found.reason}];
    if (listed[static_cast<size_t>(found.reason)]++ < kMaxListed) {
      comparison.quarantine.push_back({in_ref, checkpoint, token_idx, found});
    }
  }
}

// Logits of one log that are padded.
std::string padding_warning(const PairComparison& pair, const Logs& logs) {
  return fmt::format(
      "'logits' has {} elements in {} and {} in {}: the first {} are compared{}", pair.ref_n,
      logs.ref->path(), pair.got_n, logs.got->path(), std::min(pair.ref_n, pair.got_n),
      pair.longer_is_partial ? ", as far as both log them; the longer one's sketch and summary "
                               "are of more than these and were left out"
                             : "");
}

void take_results(Attempt attempt, const Logs& logs, Comparison& comparison) {
  bool padding_reported = false;
  comparison.gaps = std::move(attempt.pairing.gaps);
  comparison.unmatched_ref = std::ssize(comparison.gaps);
  for (const auto& [at, pair] : attempt.measured.remarks) {
    const RecordResult& result = attempt.measured.results[at];
    const IndexEntry& got = logs.got->entry(attempt.pairing.pairs[at].got);
    list_garbage(pair.ref_garbage, true, result.checkpoint, result.token_idx, comparison);
    list_garbage(pair.got_garbage, false, result.checkpoint, got.token_idx, comparison);
    if (pair.ref_n != pair.got_n && result.failing_metric != Metric::kSize && result.of_ref &&
        !padding_reported) {
      comparison.warnings.push_back(padding_warning(pair, logs));
      padding_reported = true;
    }
  }
  comparison.results = std::move(attempt.measured.results);
  std::erase_if(comparison.results,
                [](const RecordResult& result) { return !result.of_ref && !result.failed(); });
  comparison.unmatched_got = attempt.pairing.unmatched_got;
  sort_records(comparison, comparison.gaps);
  sort_records(comparison, comparison.quarantine);
}

// What comes after the place where the two generations part was computed from other tokens. A NaN,
// another shape and a record that contradicts itself still fail.
void excuse_after_split(bool whole_required, Comparison& comparison) {
  Split& split = *comparison.split;
  const Evidence evidence = whole_required ? Evidence::kUnproven : Evidence::kExcused;
  for (Gap& gap : comparison.gaps) {
    if (gap.token_idx < split.token_idx || gap.reason == kAllowedMissing) continue;
    gap = {gap.checkpoint, gap.token_idx, evidence, kAfterSplit};
    ++split.left_out;
    --comparison.unmatched_ref;
  }
  std::erase_if(comparison.results, [&](const RecordResult& result) {
    if (result.token_idx < split.token_idx || result.failing_metric == Metric::kNonfinite ||
        result.failing_metric == Metric::kSize || result.contradicts_itself) {
      return false;
    }
    if (!result.of_ref) return true;
    comparison.gaps.push_back({result.checkpoint, result.token_idx, evidence, kAfterSplit});
    ++split.left_out;
    return true;
  });
  std::erase_if(comparison.flips,
                [&](const ExpertFlip& flip) { return flip.token_idx >= split.token_idx; });
}

void part_at_split(const Logs& logs, bool whole_required, Comparison& comparison) {
  const KnownTokens tokens = known_tokens(*logs.ref, *logs.got, comparison.alignment.offset);
  comparison.split = find_split(comparison, tokens);
  if (!comparison.split) return;
  if (comparison.split->seen) {
    excuse_after_split(whole_required, comparison);
    return;
  }
  comparison.warnings.push_back(fmt::format(
      "the logits choose another token before token {}, and what follows is off: if it was "
      "generated, log the embedding or a header with the prompt's tokens, and it is excused",
      comparison.split->token_idx));
  comparison.split.reset();
}

// "layer_0_q at tokens 3 to 7": the first checkpoint of a log and the positions of all.
std::string extent_of(const LogIndex& log) {
  const auto by_token = [](const IndexEntry& a, const IndexEntry& b) {
    return a.token_idx < b.token_idx;
  };
  const auto [first, last] =
      std::minmax_element(log.entries().begin(), log.entries().end(), by_token);
  if (first == log.entries().end()) return "no records";
  return fmt::format("{} such as {} at tokens {} to {}", count_of(log.names().size(), "checkpoint"),
                     printable(log.names().name(log.entries().front().checkpoint), 60),
                     first->token_idx, last->token_idx);
}

NothingInCommon nothing_in_common(const Logs& logs, const CompareOptions& options) {
  std::string hint = fmt::format("the reference has {}, the other {}: ", extent_of(*logs.ref),
                                 extent_of(*logs.got));
  if (options.align == AlignMode::kFixed) hint += "leave --align out, or ";
  hint += "compare logs of the same checkpoints and tokens";
  if (options.align == AlignMode::kIndex) hint += ", or leave --align out";
  if (!options.selection.is_all()) hint += ", or select more with --tokens and --checkpoints";
  const std::string fitting = fitting_map(*logs.ref, *logs.got);
  if (!fitting.empty()) hint = fitting;
  return NothingInCommon(fmt::format("no record in common with the reference {}", logs.ref->path()),
                         logs.got->path(), hint);
}

// What an offset shows that the judged log itself contradicts.
void mark_doubtful_offset(std::string_view reason, Comparison& comparison) {
  for (RecordResult& result : comparison.results) {
    if (!result.of_ref || result.failed() || result.evidence == Evidence::kUnproven) continue;
    result.evidence = Evidence::kUnproven;
    result.reason = reason;
  }
}

void warn(std::string warning, Comparison& comparison) {
  if (!warning.empty()) comparison.warnings.push_back(std::move(warning));
}

// Whether no prompt of the judged log has BOS: each begins without the reference's first token, the
// same in all of them. A token that a single one of a batch lacks is no BOS, and more than one is a
// prompt that is cut.
bool lacks_bos(const std::vector<Logs>& pairs) {
  std::optional<int64_t> bos;
  for (const auto& [ref, got] : pairs) {
    if (ref->entries().empty() || got->entries().empty()) continue;
    if (!have_tokens(*ref, *got) || left_out_offset(*ref, *got) != -1) return false;
    const int64_t first = ref->header()->tokens.front();
    if (bos.value_or(first) != first) return false;
    bos = first;
  }
  return bos.has_value();
}

// What all sequences of two logs have in common.
struct AllSequences {
  bool of_several = false;  // sequences
  bool lacks_bos = false;
};

struct ComparedSequence {
  Comparison comparison;
  bool is_shifted_by_data = false;
};

// Compares one sequence. Throws NothingInCommon if there is nothing to compare, unless it is one
// of several.
ComparedSequence compare_sequence(const Logs& logs, const CompareOptions& options,
                                  const AllSequences& all, ThreadPool& pool) {
  Comparison comparison;
  comparison.ref_path = logs.ref->path();
  comparison.got_path = logs.got->path();
  comparison.whole_required = options.whole_required;
  comparison.built_in_tolerance = options.policy.is_built_in();
  comparison.alignment = align_by_headers(*logs.ref, *logs.got, options.align, options.offset);
  comparison.alignment.lacks_bos =
      all.lacks_bos && comparison.alignment.shift == Alignment::Shift::kByTokens;
  for (const auto* log : {&logs.ref, &logs.got}) {
    for (const std::string& warning : (*log)->warnings()) warn(warning, comparison);
  }
  const SharedNames names(*logs.ref, *logs.got);
  name_checkpoints(logs, names, comparison);
  warn(unused_globs(options.policy, names), comparison);
  comparison.ref_sequence = logs.ref->sequence();
  comparison.got_sequence = logs.got->sequence();
  if (!all.of_several) warn(other_sequence(*logs.ref, *logs.got), comparison);
  warn(other_model(*logs.ref, *logs.got), comparison);
  warn(foreign_names(*logs.ref, *logs.got), comparison);
  warn(replayed_routing(*logs.ref, *logs.got), comparison);
  const std::vector<Tolerance> tolerances = tolerances_of(*logs.ref, names, options);
  const MeasureRequest request{*logs.ref, *logs.got, names, tolerances, options, 0};
  Aligner aligner(request, pool);
  Attempt attempt = aligner.compare_under(comparison.alignment);
  warn(shift_warning(*logs.ref, *logs.got, comparison.alignment), comparison);
  warn(other_input_warning(*logs.ref, *logs.got, comparison.alignment), comparison);
  if (aligner.shifted_by_data()) {
    warn(found_offset_warning(comparison.alignment.offset), comparison);
  }
  warn(excluded_offset_warning(aligner.excluded_offset()), comparison);
  take_results(std::move(attempt), logs, comparison);
  fail_unmapped_nan(*logs.ref, *logs.got, pool, comparison);
  sort_records(comparison, comparison.results);
  const bool any = std::any_of(comparison.results.begin(), comparison.results.end(),
                               [](const RecordResult& result) { return result.of_ref; });
  if (!any && !all.of_several) throw nothing_in_common(logs, options);
  MeasureRequest measured = request;
  measured.offset = comparison.alignment.offset;
  judge_expert_flips(measured, comparison);
  part_at_split(logs, options.whole_required, comparison);
  move_excused_by_flips(comparison);
  warn(hold_prompt_end(*logs.ref, *logs.got, comparison), comparison);
  sort_records(comparison, comparison.gaps);
  warn(other_names(*logs.ref, *logs.got, options.selection), comparison);
  if (aligner.shifted_by_data() &&
      leaves_out_shared_positions(*logs.ref, *logs.got, comparison.alignment.offset,
                                  comparison.results)) {
    mark_doubtful_offset(kDoubtfulOffset, comparison);
  }
  judge_comparison(comparison);
  warn(fitted_constants(comparison), comparison);
  warn(zeros_of_both(comparison), comparison);
  warn(jump_within_tolerance(comparison), comparison);
  warn(large_errors_that_pass(comparison), comparison);
  warn(other_continuation(*logs.ref, *logs.got, comparison), comparison);
  comparison.ref_log = logs.ref;
  comparison.got_log = logs.got;
  return {std::move(comparison), aligner.shifted_by_data()};
}

// An engine counts positions in one way. An offset that the values of some sequences show, and that
// others do not have, is no other way to count.
void hold_to_one_offset(std::vector<ComparedSequence>& sequences) {
  std::set<int64_t> offsets;
  for (const auto& [comparison, shifted] : sequences) {
    if (comparison.compared > 0) offsets.insert(comparison.alignment.offset);
  }
  if (offsets.size() < 2) return;
  for (auto& [comparison, shifted] : sequences) {
    if (!shifted) continue;
    mark_doubtful_offset(kOffsetOfSome, comparison);
    judge_comparison(comparison);
  }
}

// The gaps of a sequence that the other log does not have say so.
void mark_missing_sequence(Comparison& comparison) {
  if (!comparison.got_sequence.empty()) return;
  for (Gap& gap : comparison.gaps) {
    if (gap.reason == kMissing) gap.reason = kMissingSequence;
  }
  comparison.evidence = count_evidence(comparison);
}

NothingInCommon no_sequence_in_common(const Sequences& ref, const Sequences& got) {
  return NothingInCommon(
      fmt::format("no record in common with the reference {}, which has {} such as '{}', the other "
                  "{} such as '{}'",
                  ref.front()->path(), count_of(ref.size(), "sequence"),
                  printable(ref.front()->sequence(), 40), count_of(got.size(), "sequence"),
                  printable(got.front()->sequence(), 40)),
      got.front()->path(),
      "name the tokens of each sequence in both headers, or give the sequences the same names");
}

}  // namespace

Comparison compare_logs(const std::string& ref_path, const std::string& got_path,
                        const CompareOptions& options) {
  ThreadPool pool(options.n_threads);
  const auto [ref, got] = read_indices(ref_path, got_path, options, pool);
  const std::vector<Logs> pairs = pair_logs(ref, got);
  check_names(ref, got, options);
  const AllSequences all{pairs.size() > 1, lacks_bos(pairs)};
  if (!all.of_several) return compare_sequence(pairs.front(), options, all, pool).comparison;
  std::vector<ComparedSequence> compared;
  std::vector<std::string> further;
  bool any = false;
  for (const Logs& logs : pairs) {
    if (logs.ref->sequence().empty()) further.push_back(logs.got->sequence());
    compared.push_back(compare_sequence(logs, options, all, pool));
    mark_missing_sequence(compared.back().comparison);
    any = any || compared.back().comparison.compared > 0;
  }
  if (!any) throw no_sequence_in_common(ref, got);
  hold_to_one_offset(compared);
  std::vector<Comparison> sequences;
  for (ComparedSequence& each : compared) sequences.push_back(std::move(each.comparison));
  Comparison merged = merge_sequences(std::move(sequences));
  warn(further_sequences(got_path, further), merged);
  return merged;
}

}  // namespace assay
