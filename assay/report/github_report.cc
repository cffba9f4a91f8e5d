#include "assay/report/github_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "assay/report/checkpoint_groups.h"
#include "assay/report/error_origin.h"
#include "assay/report/failure_text.h"
#include "assay/report/incomplete_text.h"
#include "assay/report/markdown.h"
#include "assay/report/state_text.h"
#include "assay/report/text_table.h"
#include "base/character.h"
#include "base/count_of.h"
#include "base/error.h"

namespace assay {
namespace {

// Of a command, or of a sentence, of which the end is what helps.
constexpr size_t kMaxSentenceBytes = 8000;

std::string sentence(std::string_view text) {
  return markdown(text, kMaxSentenceBytes);
}

std::string code(std::string_view text) {
  return "<code>" + markdown(text) + "</code>";
}

std::string group_text(const CheckpointGroup& group) {
  const RecordResult& first = *group.failures.front();
  return fmt::format("{} at token {}: {} ({})", verdict_name(first.status), first.token_idx,
                     failure_text(first), failing_tokens(group));
}

std::string row(const Comparison& comparison, const CheckpointGroup& group) {
  if (group.worst == nullptr) {
    const bool excused = group.unproven == 0;
    return fmt::format("| {} {} | {} | - | - | - | - | - | {} |\n",
                       excused ? "&#9989;" : "&#9888;&#65039;",
                       code(name_of(comparison, group.checkpoint).title()),
                       excused ? "-" : fmt::format("{}", group.first_unproven), state_name(group));
  }
  const RecordResult& worst = *group.worst;
  const Metrics& m = worst.metrics;
  if (const std::string sizes = sizes_text(worst); !sizes.empty()) {
    return fmt::format("| &#10060; {} | {} | {} of {} | - | - | - | - | {}: {} |\n",
                       code(name_of(comparison, group.checkpoint).title()), worst.token_idx,
                       group.failures.size(), group.records, state_name(group), sizes);
  }
  const bool is_doubtful = group.unproven > 0 || group.zeros == group.records;
  return fmt::format("| {} {} | {} | {} of {} | {} | {} | {} | {:.6f} | {} |\n",
                     !group.failures.empty() ? "&#10060;"
                     : is_doubtful           ? "&#9888;&#65039;"
                                             : "&#9989;",
                     code(name_of(comparison, group.checkpoint).title()), worst.token_idx,
                     group.failures.size(), group.records, short_number(m.rel_l2),
                     short_number(worst.tolerance), short_number(m.max_abs), m.cosine,
                     state_name(group));
}

std::string head(const Comparison& comparison, const ReportContext& context) {
  const char* sign = comparison.pass         ? "&#9989;"
                     : comparison.failed > 0 ? "&#10060;"
                                             : "&#9888;&#65039;";
  std::string text = fmt::format("### {} {}: {}\n\n{} against the reference {}.\n\n", sign,
                                 outcome_name(comparison), verdict_meaning(comparison),
                                 code(comparison.got_path), code(comparison.ref_path));
  if (comparison.first_divergence) {
    text += fmt::format("**First divergence:** {}\n\n", sentence(first_failure_text(comparison)));
  }
  for (const ErrorOrigin& origin : error_origins(comparison)) {
    text += fmt::format("**E{}:** {}\n\n", origin.what.substr(1), sentence(origin.text));
  }
  for (const Cause& cause : comparison.causes) {
    text +=
        fmt::format("- likely cause: **{}**, {}\n", markdown(cause.name), sentence(cause.sentence));
  }
  if (!comparison.causes.empty()) text += '\n';
  const std::string hint = cause_hint(comparison);
  if (!hint.empty()) text += fmt::format("No cause found: {}.\n\n", sentence(hint));
  const std::string not_tried = causes_not_tried(comparison);
  if (!not_tried.empty()) text += fmt::format("Causes not tried {}.\n\n", sentence(not_tried));
  const std::string least = passing_tolerance(comparison);
  if (!least.empty()) text += fmt::format("Would pass with {}.\n\n", least);
  text += evidence_text(comparison);
  if (comparison.unmatched_ref + comparison.unmatched_got > 0) {
    text += fmt::format("; only in one log: {} of the reference, {} of the other",
                        comparison.unmatched_ref, comparison.unmatched_got);
  }
  if (!comparison.sequences.empty()) {
    text += fmt::format("; {} of {} sequences in parity",
                        std::ranges::count_if(comparison.sequences, &Comparison::pass),
                        comparison.sequences.size());
  }
  if (comparison.split) {
    text += fmt::format("; the generations part at token {}, {}", comparison.split->token_idx,
                        after_split_text(comparison));
  }
  if (!comparison.flips.empty()) text += "; " + sentence(flips_text(comparison));
  if (comparison.alignment.offset != 0) {
    text += fmt::format("; aligned by an offset of {}", comparison.alignment.offset);
  }
  if (comparison.quarantined > 0) {
    text += "; " + count_of(comparison.quarantined, "garbage value");
  }
  text += ".\n\n";
  const std::string incomplete = incomplete_text(comparison);
  if (!incomplete.empty()) text += sentence(incomplete) + "\n\n";
  for (const std::string& warning : comparison.warnings) {
    text += fmt::format("- &#9888;&#65039; {}\n", sentence(warning));
  }
  if (!comparison.warnings.empty()) text += '\n';
  return text + fmt::format("Compare again: <code>{}</code>\n\n", sentence(context.command));
}

}  // namespace

std::string github_data(std::string_view text) {
  std::string out;
  for (const char c : printable(text, 2000)) {
    if (c == '%') {
      out += "%25";
    } else {
      out += c;
    }
  }
  return out;
}

std::string github_property(std::string_view text) {
  std::string out;
  for (const char c : github_data(text)) {
    if (c == ':') {
      out += "%3A";
    } else if (c == ',') {
      out += "%2C";
    } else {
      out += c;
    }
  }
  return out;
}

std::string github_error(const GithubError& error) {
  const std::string file =
      error.file.empty() ? "" : fmt::format("file={},", github_property(error.file));
  return fmt::format("::error {}title={}::{}\n", file, github_property(error.title),
                     github_data(error.message));
}

void write_github_errors(const std::vector<GithubError>& errors, std::string_view one,
                         std::string_view many, const TextSink& sink) {
  for (size_t i = 0; i < errors.size(); ++i) {
    if (i + 1 == kGithubAnnotations && errors.size() > kGithubAnnotations) {
      sink(github_error(
          {errors[i].file, count_of(errors.size() - i, one, many),
           fmt::format("the next: {}; the step summary lists them", errors[i].title)}));
      return;
    }
    sink(github_error(errors[i]));
  }
}

void GithubReport::write_annotations(const Comparison& comparison, const TextSink& sink) const {
  if (!comparison.pass && comparison.failed == 0) {
    sink(github_error({comparison.got_path,
                       fmt::format("Assay: {}", verdict_name(comparison.verdict)),
                       incomplete_text(comparison)}));
    return;
  }
  std::vector<GithubError> errors;
  const std::vector<ErrorOrigin> origins = error_origins(comparison);
  if (!origins.empty() && origins[0].before_first) {
    const ErrorOrigin& origin = origins[0];
    errors.push_back(
        {comparison.got_path, fmt::format("{} {}", origin.what, origin.checkpoint), origin.text});
  }
  bool is_first = true;
  for (const CheckpointGroup& group : failing_groups(comparison)) {
    const std::string name = printable(name_of(comparison, group.checkpoint).title(), 80);
    errors.push_back({comparison.got_path,
                      is_first ? "first divergence: " + name : name + " diverges",
                      name + ": " + group_text(group)});
    is_first = false;
  }
  write_github_errors(errors, "more checkpoint diverges", "more checkpoints diverge", sink);
}

void GithubReport::write(const Comparison& comparison, const ReportContext& context,
                         const TextSink& sink) const {
  std::vector<CheckpointGroup> groups = failing_groups(comparison);
  for (CheckpointGroup& group : group_by_checkpoint(comparison)) {
    if (group.failures.empty()) groups.push_back(std::move(group));
  }
  std::string text = head(comparison, context);
  text +=
      "| checkpoint | worst at token | fail | rel l2 | tolerance | max abs | cosine | status |\n"
      "|---|--:|--:|--:|--:|--:|--:|---|\n";
  append_markdown_rows(groups.size(), "checkpoint", context.max_bytes, text,
                       [&](size_t i) { return row(comparison, groups[i]); });
  if (text.size() <= context.max_bytes) sink(text);
}

}  // namespace assay
