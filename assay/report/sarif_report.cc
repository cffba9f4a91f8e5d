#include "assay/report/sarif_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "assay/report/checkpoint_groups.h"
#include "assay/report/failure_text.h"
#include "assay/report/json_object.h"
#include "base/error.h"

namespace assay {
namespace {

struct Rule {
  std::string_view id;
  std::string_view name;
  std::string_view text;
};

constexpr Rule kRules[] = {
    {"rel_l2", "RelativeError", "The relative L2 distance of a checkpoint is over its tolerance."},
    {"max_abs", "LargestDifference", "A value differs by more than the tolerance."},
    {"kl", "LogitsDivergence", "The Kullback-Leibler divergence of the logits is over its limit."},
    {"argmax", "OtherToken", "The two choose different tokens, by more than the error explains."},
    {"nonfinite", "NotFinite", "Values are NaN or infinite."},
    {"quarantine", "Garbage", "Values are garbage rather than numbers of the tensor."},
    {"size", "OtherSize", "The tensor has another number of elements than the reference's."},
    {"contradiction", "Contradiction", "What the log says of a tensor twice does not agree."},
    {"unproven", "Unproven", "The reference has records that were not shown."},
};

// A path as a URI reference (RFC 3986).
std::string uri(std::string_view path) {
  std::string out = path.starts_with('/') ? "file://" : "";
  for (const char c : path) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                       std::string_view("-._~/").find(c) != std::string_view::npos;
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

void append_text(JsonObject& object, std::string_view key, std::string_view text,
                 std::string& out) {
  object.key(key);
  JsonObject message(out);
  message.member("text", text);
  message.end();
}

void append_artifact(JsonObject& object, const std::string& path, std::string& out) {
  object.key("artifactLocation");
  JsonObject location(out);
  location.member("uri", uri(path));
  location.end();
}

void append_tool(const ReportContext& context, JsonObject& run, std::string& out) {
  run.key("tool");
  JsonObject tool(out);
  tool.key("driver");
  JsonObject driver(out);
  driver.member("name", std::string_view("Assay"));
  driver.member("version", std::string_view(context.version));
  driver.key("rules");
  const char* separator = "[";
  for (const Rule& rule : kRules) {
    out += separator;
    JsonObject element(out);
    element.member("id", rule.id);
    element.member("name", rule.name);
    append_text(element, "shortDescription", rule.text, out);
    element.end();
    separator = ",";
  }
  out += ']';
  driver.end();
  tool.end();
}

void append_invocation(const Comparison& comparison, const ReportContext& context, JsonObject& run,
                       std::string& out) {
  run.key("invocations");
  out += '[';
  JsonObject invocation(out);
  invocation.member("commandLine", std::string_view(context.command));
  invocation.member("endTimeUtc", std::string_view(context.time + "Z"));
  invocation.member("executionSuccessful", comparison.verdict < Verdict::kInconclusive);
  invocation.end();
  out += ']';
}

void append_location(const Comparison& comparison, const CheckpointName& name, JsonObject& result,
                     std::string& out) {
  result.key("locations");
  out += '[';
  JsonObject location(out);
  location.key("physicalLocation");
  JsonObject physical(out);
  append_artifact(physical, comparison.got_path, out);
  physical.end();
  location.key("logicalLocations");
  out += '[';
  JsonObject logical(out);
  logical.member("name", printable(name.name));
  logical.member("kind", std::string_view("variable"));
  logical.end();
  out += "]";
  location.end();
  out += ']';
}

void append_properties(const CheckpointGroup& group, JsonObject& result, std::string& out) {
  const RecordResult& first = *group.failures.front();
  result.key("properties");
  JsonObject properties(out);
  properties.member("token_idx", first.token_idx);
  properties.member("status", verdict_name(first.status));
  properties.member("value", first.failing_value);
  properties.member("tolerance", first.failing_tolerance);
  properties.member("tokens_failing", static_cast<int64_t>(group.failures.size()));
  properties.member("tokens_compared", group.records);
  properties.end();
}

void append_rule(std::string_view id, JsonObject& result) {
  const auto* rule = std::find_if(std::begin(kRules), std::end(kRules),
                                  [&](const Rule& known) { return known.id == id; });
  result.member("ruleId", id);
  if (rule != std::end(kRules)) result.member("ruleIndex", int64_t{rule - std::begin(kRules)});
  result.member("level", std::string_view("error"));
}

void append_fingerprint(const CheckpointName& name, std::string_view rule, JsonObject& result,
                        std::string& out) {
  result.key("partialFingerprints");
  JsonObject fingerprints(out);
  fingerprints.member("assayCheckpoint/v1", fmt::format("{}:{}", printable(name.name), rule));
  fingerprints.end();
}

void append_result(const Comparison& comparison, const CheckpointGroup& group, bool is_first,
                   std::string& out) {
  const RecordResult& first = *group.failures.front();
  const CheckpointName& name = name_of(comparison, group.checkpoint);
  JsonObject result(out);
  append_rule(metric_name(first.failing_metric), result);
  append_text(result, "message",
              fmt::format("{}{} at token {}: {} ({})", is_first ? "First divergence: " : "",
                          printable(name.name, 60), first.token_idx, failure_text(first),
                          failing_tokens(group)),
              out);
  append_location(comparison, name, result, out);
  append_fingerprint(name, metric_name(first.failing_metric), result, out);
  append_properties(group, result, out);
  result.end();
}

void append_unproven(const Comparison& comparison, const CheckpointGroup& group, std::string& out) {
  const CheckpointName& name = name_of(comparison, group.checkpoint);
  JsonObject result(out);
  append_rule("unproven", result);
  append_text(result, "message",
              fmt::format("{} is {}", printable(name.name, 60), unproven_tokens(group)), out);
  append_location(comparison, name, result, out);
  append_fingerprint(name, "unproven", result, out);
  result.end();
}

}  // namespace

void SarifReport::write(const Comparison& comparison, const ReportContext& context,
                        const TextSink& sink) const {
  std::string out;
  JsonObject log(out);
  log.member("$schema",
             std::string_view("https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/"
                              "sarif-schema-2.1.0.json"));
  log.member("version", std::string_view("2.1.0"));
  log.key("runs");
  out += "[";
  JsonObject run(out);
  append_tool(context, run, out);
  append_invocation(comparison, context, run, out);
  run.key("results");
  const std::vector<CheckpointGroup> groups = failing_groups(comparison);
  const char* separator = "[\n";
  for (const CheckpointGroup& group : groups) {
    out += separator;
    append_result(comparison, group, &group == &groups.front(), out);
    sink(out);
    out.clear();
    separator = ",\n";
  }
  for (const CheckpointGroup& group : group_by_checkpoint(comparison)) {
    if (group.unproven == 0 || !group.failures.empty()) continue;
    out += separator;
    append_unproven(comparison, group, out);
    sink(out);
    out.clear();
    separator = ",\n";
  }
  out += *separator == '[' ? "[]" : "]";
  run.end();
  out += "]";
  log.end();
  out += '\n';
  sink(out);
}

}  // namespace assay
