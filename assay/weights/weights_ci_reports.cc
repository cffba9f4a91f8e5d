#include "assay/weights/weights_ci_reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "assay/report/github_report.h"
#include "assay/report/junit_report.h"
#include "assay/report/markdown.h"
#include "assay/report/xml_text.h"
#include "assay/weights/weights_report.h"
#include "assay/weights/weights_text.h"
#include "base/count_of.h"
#include "base/error.h"

namespace assay {
namespace {

constexpr size_t kMaxCommandBytes = 8000;
constexpr size_t kMaxReasonBytes = 1000;
constexpr int kWidth = 120;

// A tensor, a key that counts, or that a file is a part of a model.
struct Case {
  std::string_view kind;  // "tensor", "key" or "file"
  std::string name;
  std::string_view status;
  std::string problem = {};  // empty where it is right
};

std::vector<Case> cases_of(const WeightsComparison& comparison) {
  std::vector<Case> cases;
  for (const TensorResult& tensor : comparison.tensors) {
    cases.push_back({"tensor", printable(tensor.name, 200), status_name(tensor.status)});
    if (!is_right(tensor)) cases.back().problem = problem_text(tensor);
  }
  for (const KeyDifference& key : comparison.keys) {
    if (!key.counts) continue;
    cases.push_back({"key", printable(key.key, 200), "differs",
                     fmt::format("is {}, the reference's {}", stated(key.got), stated(key.ref))});
  }
  if (!comparison.part.empty()) {
    cases.push_back({"file", "all parts of the model", "incomplete", comparison.part});
  }
  return cases;
}

std::vector<Case> wrong_cases(const WeightsComparison& comparison) {
  std::vector<Case> cases = cases_of(comparison);
  std::erase_if(cases, [](const Case& one) { return one.problem.empty(); });
  return cases;
}

std::string test_case(const Case& one) {
  std::string text = fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"0\"", one.kind,
                                 xml_attribute(one.name));
  if (one.problem.empty()) return text + "/>\n";
  return text + fmt::format(
                    ">\n      <failure type=\"{}\" message=\"{}\"/>\n    "
                    "</testcase>\n",
                    one.status, xml_attribute(one.problem));
}

}  // namespace

void WeightsJunit::write(const WeightsComparison& comparison, const ReportContext& context,
                         const TextSink& sink) const {
  const std::vector<Case> cases = cases_of(comparison);
  const auto failures =
      std::ranges::count_if(cases, [](const Case& one) { return !one.problem.empty(); });
  sink("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
  sink(junit_suite("assay weights", context, cases.size(), failures, 0));
  sink("    <properties>\n");
  sink(junit_property("assay.version", context.version));
  sink(junit_property("reference", comparison.ref_path));
  sink(junit_property("file", comparison.got_path));
  sink(junit_property("verdict", verdict_name(comparison.verdict)));
  sink(junit_property("evidence", counts_text(comparison)));
  sink(junit_property("command", context.command));
  sink("    </properties>\n");
  for (const Case& one : cases) sink(test_case(one));
  sink("    <system-out>");
  find_report(weights_reports(), "table")
      ->write(comparison, {.style = {kWidth, false}},
              [&](std::string_view text) { sink(xml_text(text)); });
  sink("</system-out>\n    <system-err>");
  for (const std::string& warning : comparison.warnings) {
    sink(xml_text("warning: " + warning + "\n"));
  }
  sink("</system-err>\n  </testsuite>\n</testsuites>\n");
}

void WeightsGithub::write_annotations(const WeightsComparison& comparison,
                                      const TextSink& sink) const {
  std::vector<GithubError> errors;
  for (const Case& one : wrong_cases(comparison)) {
    errors.push_back({comparison.got_path, fmt::format("{} {}: {}", one.kind, one.name, one.status),
                      fmt::format("{}: {}", one.name, one.problem)});
  }
  write_github_errors(errors, "more tensor or key", "more tensors or keys", sink);
}

void WeightsGithub::write(const WeightsComparison& comparison, const ReportContext& context,
                          const TextSink& sink) const {
  const auto path = [](const std::string& text) { return "<code>" + markdown(text) + "</code>"; };
  const char* sign = comparison.verdict == WeightsVerdict::kMatch      ? "&#9989;"
                     : comparison.verdict == WeightsVerdict::kMismatch ? "&#10060;"
                                                                       : "&#9888;&#65039;";
  std::string text = fmt::format(
      "### {} {}: {}\n\n{} against the reference {}.\n\n", sign, outcome_name(comparison.verdict),
      markdown(counts_text(comparison)), path(comparison.got_path), path(comparison.ref_path));
  for (const std::string& warning : comparison.warnings) {
    text += fmt::format("- &#9888;&#65039; {}\n", markdown(warning, kMaxReasonBytes));
  }
  if (!comparison.warnings.empty()) text += '\n';
  text += fmt::format("Compare again: <code>{}</code>\n\n",
                      markdown(context.command, kMaxCommandBytes));
  const std::vector<Case> cases = wrong_cases(comparison);
  if (!cases.empty()) text += "| | status | why |\n|---|---|---|\n";
  append_markdown_rows(cases.size(), "tensor or key", context.max_bytes, text, [&](size_t i) {
    return fmt::format("| {} {} | {} | {} |\n", cases[i].kind, path(cases[i].name), cases[i].status,
                       markdown(cases[i].problem, kMaxReasonBytes));
  });
  if (text.size() <= context.max_bytes) sink(text);
}

}  // namespace assay
