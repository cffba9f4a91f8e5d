#include "assay/report/table_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "assay/compare/checkpoint_order.h"
#include "assay/compare/evidence.h"
#include "assay/compare/expert_flips.h"
#include "assay/compare/policy.h"
#include "assay/report/checkpoint_groups.h"
#include "assay/report/error_origin.h"
#include "assay/report/failure_text.h"
#include "assay/report/garbage_group.h"
#include "assay/report/state_text.h"
#include "base/count_of.h"
#include "base/error.h"
#include "base/shell.h"

namespace assay {
namespace {

constexpr size_t kMaxRows = 40;
constexpr size_t kFewCheckpoints = 2;
constexpr std::ptrdiff_t kAfterToken = 2;
constexpr std::ptrdiff_t kAfterRelL2 = 5;  // the column of "x floor"

Color color_of(const RecordResult& result) {
  if (result.failed()) return Color::kBad;
  const bool caution = result.evidence == Evidence::kUnproven ||
                       result.status == Verdict::kInconclusive ||
                       result.status == Verdict::kTieFlip;
  return caution ? Color::kCaution : Color::kNone;
}

std::string headline(const Comparison& comparison, const TextStyle& style) {
  const bool unproven = comparison.verdict >= Verdict::kInconclusive;
  const Color color = unproven ? Color::kCaution : comparison.pass ? Color::kGood : Color::kBad;
  const std::string verdict = unproven ? "" : std::string(verdict_name(comparison.verdict)) + ": ";
  return fmt::format("{}  {}{}; {}\n", colored(outcome_name(comparison), color, style), verdict,
                     verdict_meaning(comparison), evidence_text(comparison));
}

std::string passing_tolerance_line(const Comparison& comparison) {
  const std::string least = passing_tolerance(comparison);
  return least.empty() ? "" : fmt::format("  would pass with   {}\n", least);
}

// How wide the built-in tolerance is.
std::string built_in_tolerance_line(const Comparison& comparison) {
  const bool is_held_to_it = comparison.pass && comparison.built_in_tolerance &&
                             comparison.verdict != Verdict::kMatch && !comparison.own_errors;
  if (!is_held_to_it) return "";
  return fmt::format(
      "  tolerance         built-in: rel_l2 {:g}, which is wide for float32: give --policy (assay\n"
      "                    floors measures one), or --model M.gguf with --own-error 1e-6\n",
      kDefaultRelL2);
}

// The sequences of the reference, and those that do not pass.
std::string sequence_lines(const Comparison& comparison) {
  constexpr size_t kMost = 8;
  if (comparison.sequences.empty()) return "";
  const auto passing = std::ranges::count_if(comparison.sequences, &Comparison::pass);
  std::string text =
      fmt::format("  sequences         {} of {} in parity\n", passing, comparison.sequences.size());
  size_t listed = 0;
  for (const Comparison& sequence : comparison.sequences) {
    if (sequence.pass || listed++ >= kMost) continue;
    text += fmt::format("                    {}: {}, {}\n", sequence_title(sequence),
                        outcome_name(sequence), evidence_text(sequence));
  }
  if (listed > kMost) text += fmt::format("                    ... and {} more\n", listed - kMost);
  return text;
}

// Whose alignment, split and drift follow.
std::string leading_line(const Comparison& comparison) {
  if (comparison.sequences.empty()) return "";
  return fmt::format("  of sequence {}:\n",
                     sequence_title(comparison.sequences[comparison.leading]));
}

std::string counts_lines(const Comparison& comparison) {
  std::string text = fmt::format("  records           {} compared, {} failed", comparison.compared,
                                 comparison.failed);
  if (comparison.unmatched_ref + comparison.unmatched_got > 0) {
    text += fmt::format("; only in one log: {} of the reference, {} of the other",
                        comparison.unmatched_ref, comparison.unmatched_got);
  }
  text += '\n' + sequence_lines(comparison);
  if (comparison.argmax_total > 0) {
    text += fmt::format("  argmax            {} of {} agree\n", comparison.argmax_agree,
                        comparison.argmax_total);
  }
  text += leading_line(comparison);
  const Alignment& alignment = comparison.alignment;
  if (alignment.offset != 0) {
    text +=
        fmt::format("  alignment         token {} of the reference is token {} of the other ({})\n",
                    0, alignment.offset,
                    alignment.mode == AlignMode::kAuto
                        ? fmt::format("found, confidence {:.2f}", alignment.confidence)
                        : "as given");
  } else if (alignment.confidence < 0.5) {
    text += "  alignment         by token_idx; no other offset explains the data\n";
  }
  if (comparison.split) {
    const auto token = [](const std::optional<int64_t>& id) {
      return id ? fmt::format("token {}", *id) : std::string("another token");
    };
    text += fmt::format(
        "  generation        parts at {}: the reference went on with {}, the other with {};\n"
        "                    {};\n"
        "                    to compare them too, let the other engine evaluate the\n"
        "                    reference's tokens; where that is Assay:\n"
        "                    assay run MODEL --follow {} --sketch --log {}\n",
        comparison.split->token_idx, token(comparison.split->ref_token),
        token(comparison.split->got_token), after_split_text(comparison),
        shell_quoted(comparison.ref_path), shell_quoted(followed_path(comparison.got_path)));
  }
  if (!comparison.flips.empty()) {
    const auto& first = comparison.checkpoints[static_cast<size_t>(comparison.flips[0].checkpoint)];
    text += fmt::format("  {:<18}{}\n", is_positions(first) ? "positions" : "experts",
                        flips_text(comparison));
    if (count_after_flips(comparison) > 0 && is_experts(first)) {
      text += fmt::format(
          "                    to compare them too, let the other engine take the\n"
          "                    reference's experts; where that is Assay:\n"
          "                    {}\n",
          replay_command(comparison));
    }
  }
  if (!comparison.drift.sentences.empty()) {
    text += fmt::format("  drift             {}\n",
                        fmt::join(comparison.drift.sentences, ";\n                    "));
  }
  return text;
}

std::string quarantine_lines(const Comparison& comparison, const TextStyle& style) {
  std::map<std::pair<bool, GarbageReason>, GarbageGroup> groups;
  for (const QuarantinedValue& value : comparison.quarantine) {
    groups[{!value.in_ref, value.garbage.reason}].add(value.token_idx);
  }
  std::string text;
  for (const auto& [key, group] : groups) {
    // An engine whose values explode must not pass (see compare_pair).
    const bool compared = key.first && key.second == GarbageReason::kMagnitude;
    const std::string line =
        fmt::format("  quarantine        {} in {}: {}{}", garbage_reason_name(key.second),
                    key.first ? "the other" : "the reference",
                    group.text(comparison.quarantined_by_reason.at({!key.first, key.second})),
                    compared ? "; compared all the same: the engine may have computed it" : "");
    text += colored(line, Color::kCaution, style) + "\n";
  }
  return text;
}

std::string cause_lines(const Comparison& comparison) {
  std::string text;
  for (const ErrorOrigin& origin : error_origins(comparison)) {
    text += fmt::format("  {:<18}{}\n", origin.what, origin.text);
  }
  for (const Cause& cause : comparison.causes) {
    text += fmt::format("  cause             {}: {}\n", cause.name, printable(cause.sentence, 700));
  }
  const std::string hint = cause_hint(comparison);
  if (!hint.empty()) {
    text += fmt::format("  cause             none found: {}\n", printable(hint, 700));
  }
  const std::string not_tried = causes_not_tried(comparison);
  if (!not_tried.empty())
    text += fmt::format("  not tried         {}\n", printable(not_tried, 700));
  return text;
}

std::vector<std::string> record_cells(const Comparison& comparison, const RecordResult& result,
                                      std::string_view state, bool floors) {
  const Metrics& m = result.metrics;
  std::string argmax = "-";
  if (m.argmax_ref && m.argmax_got) argmax = m.argmax_ref == m.argmax_got ? "same" : "differs";
  std::vector<std::string> cells = {printable(name_of(comparison, result.checkpoint).title(), 60),
                                    fmt::format("{}", result.token_idx),
                                    short_number(m.max_abs),
                                    short_number(m.mean_abs),
                                    short_number(m.rel_l2),
                                    fmt::format("{:.6f}", m.cosine),
                                    short_number(m.kl),
                                    argmax,
                                    fmt::format("{}/{}", m.compared, m.n),
                                    std::string(state)};
  if (floors) cells.insert(cells.begin() + kAfterRelL2, short_number(result.times_floor()));
  if (const std::string sizes = sizes_text(result); !sizes.empty()) {  // nothing was measured
    std::fill(cells.begin() + kAfterToken, cells.end() - 2, "-");
    *(cells.end() - 2) = sizes;
  }
  return cells;
}

// The checkpoints that were not shown, and why; what a split leaves out stands with it.
std::string unproven_lines(const Comparison& comparison, const TextStyle& style) {
  constexpr size_t kMost = 8;
  std::string text;
  size_t listed = 0;
  size_t all = 0;
  for (const CheckpointGroup& group : group_by_checkpoint(comparison)) {
    const bool told = comparison.split && group.reason == kAfterSplit;
    if (group.unproven == 0 || told || all++ >= kMost) continue;
    const std::string line =
        fmt::format("  unproven          {} at {}, first {}: {}",
                    printable(name_of(comparison, group.checkpoint).title(), 80),
                    count_of(group.unproven, "token"), group.first_unproven, group.reason);
    text += colored(line, Color::kCaution, style) + "\n";
    ++listed;
  }
  if (all > listed) text += fmt::format("                    ... and {} more\n", all - listed);
  return text;
}

// A row of the table: a record, and what is said of it.
struct Row {
  const RecordResult* record = nullptr;
  std::string_view state;
  Color color = Color::kNone;
};

std::vector<Row> table_rows(const Comparison& comparison, bool& each_record) {
  std::vector<Row> rows;
  for (const CheckpointGroup& group : group_by_checkpoint(comparison)) {
    if (group.worst == nullptr) continue;
    const bool unproven = group.failures.empty() && group.unproven > 0;
    rows.push_back(
        {group.worst, state_name(group), unproven ? Color::kCaution : color_of(*group.worst)});
  }
  each_record = rows.size() <= kFewCheckpoints;
  if (!each_record) return rows;
  rows.clear();
  for (const RecordResult& result : comparison.results) {
    rows.push_back({&result, state_name(result), color_of(result)});
  }
  return rows;
}

std::string records_table(const Comparison& comparison, const TextStyle& style) {
  bool each_record = false;
  const std::vector<Row> rows = table_rows(comparison, each_record);
  // When there are too many, those that fail stay, then the first.
  std::vector<const RecordResult*> shown;
  for (const bool failed : {true, false}) {
    for (const Row& row : rows) {
      if (row.record->failed() == failed && shown.size() < kMaxRows) shown.push_back(row.record);
    }
  }
  std::vector<std::string> columns = {"checkpoint", each_record ? "token" : "worst at",
                                      "max abs",    "mean abs",
                                      "rel l2",     "cosine",
                                      "KL",         "argmax",
                                      "values",     "status"};
  const bool floors = has_floors(comparison);
  if (floors) columns.insert(columns.begin() + kAfterRelL2, "x floor");
  TextTable table(columns);
  for (const Row& row : rows) {
    if (std::find(shown.begin(), shown.end(), row.record) == shown.end()) continue;
    table.add(record_cells(comparison, *row.record, row.state, floors), row.color);
  }
  std::string text = table.text(style);
  if (rows.size() > shown.size()) {
    text += fmt::format("  ... and {} more\n", rows.size() - shown.size());
  }
  return text;
}

}  // namespace

void TableReport::write(const Comparison& comparison, const ReportContext& context,
                        const TextSink& sink) const {
  const TextStyle& style = context.style;
  std::string text = headline(comparison, style);
  if (comparison.first_divergence) {
    text += colored(fmt::format("  first divergence  {}\n", first_failure_text(comparison)),
                    Color::kBad, style);
  }
  text += cause_lines(comparison);
  text += unproven_lines(comparison, style);
  text += passing_tolerance_line(comparison);
  text += built_in_tolerance_line(comparison);
  text += counts_lines(comparison);
  text += quarantine_lines(comparison, style);
  text += fmt::format("\n{}\n  everything: {} --format json\n", records_table(comparison, style),
                      context.command);
  sink(text);
}

}  // namespace assay
