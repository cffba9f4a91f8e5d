#include "assay/report/junit_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "assay/compare/evidence.h"
#include "assay/report/checkpoint_groups.h"
#include "assay/report/error_origin.h"
#include "assay/report/failure_text.h"
#include "assay/report/table_report.h"
#include "assay/report/xml_text.h"
#include "base/count_of.h"
#include "base/error.h"

namespace assay {
namespace {

constexpr size_t kMaxLines = 100;  // of failing tokens in one test case
constexpr int kWidth = 120;
constexpr size_t kMostOfWarning = 2000;  // bytes

std::string properties(const Comparison& comparison, const ReportContext& context) {
  std::string text = "    <properties>\n";
  text += junit_property("assay.version", context.version);
  text += junit_property("reference", comparison.ref_path);
  text += junit_property("log", comparison.got_path);
  text += junit_property("verdict", verdict_name(comparison.verdict));
  text += junit_property("evidence", evidence_text(comparison));
  if (comparison.first_divergence) {
    text += junit_property("first_divergence", first_failure_text(comparison));
  }
  for (const ErrorOrigin& origin : error_origins(comparison)) {
    text += junit_property("error_origin", fmt::format("{} {}", origin.what, origin.text));
  }
  text += junit_property("command", context.command);
  return text + "    </properties>\n";
}

std::string failure(const Comparison& comparison, const CheckpointGroup& group) {
  const RecordResult& first = *group.failures.front();
  const bool is_first = comparison.first_divergence &&
                        comparison.first_divergence->token_idx == first.token_idx &&
                        comparison.first_divergence->checkpoint.title() ==
                            name_of(comparison, group.checkpoint).title();
  std::string message = is_first ? "first divergence: " : "";
  message += fmt::format("token {}: {}", first.token_idx, failure_text(first));
  if (group.failures.size() > 1) {
    message += fmt::format(" ({})", failing_tokens(group));
  }
  std::string text = fmt::format("      <failure type=\"{}\" message=\"{}\">",
                                 verdict_name(first.status), xml_attribute(message));
  const size_t lines = std::min(group.failures.size(), kMaxLines);
  for (size_t i = 0; i < lines; ++i) {
    const RecordResult& result = *group.failures[i];
    text += xml_text(fmt::format("token {}: {}, {}\n", result.token_idx,
                                 verdict_name(result.status), failure_text(result)));
  }
  if (lines < group.failures.size()) {
    text += "and " + count_of(group.failures.size() - lines, "more token") + "\n";
  }
  return text + "</failure>\n";
}

std::string test_case(const Comparison& comparison, const CheckpointGroup& group) {
  const CheckpointName& name = name_of(comparison, group.checkpoint);
  const std::string folder =
      name.layer < 0 ? std::string("model") : fmt::format("model.layer_{}", name.layer);
  std::string text = fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"0\"", folder,
                                 xml_attribute(name.title()));
  if (!group.failures.empty()) {
    return text + ">\n" + failure(comparison, group) + "    </testcase>\n";
  }
  if (group.unproven > 0 && group.unproven == group.after_split) {
    return text + fmt::format(">\n      <skipped message=\"{}\"/>\n    </testcase>\n",
                              xml_attribute(unproven_tokens(group)));
  }
  if (group.unproven > 0) {
    return text + fmt::format(
                      ">\n      <failure type=\"unproven\" message=\"{}\"/>\n    "
                      "</testcase>\n",
                      xml_attribute(unproven_tokens(group)));
  }
  if (is_inconclusive(comparison, group)) {
    return text + fmt::format(
                      ">\n      <failure type=\"inconclusive\" message=\"{}\"/>\n    "
                      "</testcase>\n",
                      kAllZeros);
  }
  if (group.zeros > 0 && group.zeros == group.records) {
    return text + ">\n      <skipped message=\"all zeros on both sides\"/>\n    </testcase>\n";
  }
  return text + "/>\n";
}

// What the two logs did not compute alike from where they part is one case that fails, and not one
// of each checkpoint, among which those would drown that are wrong.
std::string after_split_case(const Comparison& comparison, int64_t records) {
  std::string where;
  if (comparison.split) where = fmt::format(" from token {} on", comparison.split->token_idx);
  return fmt::format(
      "    <testcase classname=\"model\" name=\"after the split\" time=\"0\">\n"
      "      <failure type=\"unproven\" message=\"{}{} {} unproven: {}\"/>\n    </testcase>\n",
      count_of(records, "record of the reference", "records of the reference"), where,
      plural(records == 1, "is", "are"), kAfterSplit);
}

}  // namespace

std::string junit_suite(std::string_view name, const ReportContext& context, int64_t tests,
                        int64_t failures, int64_t skipped) {
  return fmt::format(
      "  <testsuite id=\"0\" package=\"assay\" name=\"{}\" timestamp=\"{}\" hostname=\"localhost\" "
      "tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\" time=\"0\">\n",
      name, context.time, tests, failures, skipped);
}

std::string junit_property(std::string_view name, std::string_view value) {
  return fmt::format("      <property name=\"{}\" value=\"{}\"/>\n", name, xml_attribute(value));
}

void JunitReport::write(const Comparison& comparison, const ReportContext& context,
                        const TextSink& sink) const {
  const std::vector<CheckpointGroup> groups = group_by_checkpoint(comparison);
  int64_t failures = 0;
  int64_t skipped = 0;
  int64_t after_split = 0;  // records
  for (const CheckpointGroup& group : groups) {
    const bool is_bad = !group.failures.empty() || group.unproven > group.after_split ||
                        is_inconclusive(comparison, group);
    const bool only_zeros = group.zeros > 0 && group.zeros == group.records;
    failures += is_bad ? 1 : 0;
    skipped += !is_bad && (group.unproven > 0 || only_zeros) ? 1 : 0;
    after_split += group.after_split;
  }
  const int64_t own = after_split > 0 ? 1 : 0;  // its case
  sink("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
  sink(junit_suite("assay compare", context, std::ssize(groups) + own, failures + own, skipped));
  sink(properties(comparison, context));
  for (const CheckpointGroup& group : groups) sink(test_case(comparison, group));
  if (own > 0) sink(after_split_case(comparison, after_split));
  sink("    <system-out>");
  TableReport().write(comparison, {.command = context.command, .style = {kWidth, false}},
                      [&](std::string_view text) { sink(xml_text(text)); });
  sink("</system-out>\n    <system-err>");
  for (const std::string& warning : comparison.warnings) {
    sink(xml_text("warning: " + printable(warning, kMostOfWarning) + "\n"));
  }
  sink("</system-err>\n  </testsuite>\n</testsuites>\n");
}

}  // namespace assay
