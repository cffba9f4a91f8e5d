#include "assay/report/sarif_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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
    {"contradiction", "Contradiction",
     "Two statements of the log about one tensor contradict each other."},
    {"replica", "ReplicasDiffer", "Ranks that should hold the same do not."},
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

void append_text(JsonObject& object, std::string_view key, std::string_view text) {
  object.object(key, [&](JsonObject& message) { message.member("text", text); });
}

void append_rule(JsonObject& object, const Rule& rule) {
  object.member("id", rule.id);
  object.member("name", rule.name);
  append_text(object, "shortDescription", rule.text);
}

void append_driver(const ReportContext& context, JsonObject& driver) {
  driver.member("name", "Assay");
  driver.member("version", context.version);
  driver.array("rules", kRules, append_rule);
}

void append_invocation(const Comparison& comparison, const ReportContext& context,
                       JsonObject& invocation) {
  invocation.member("commandLine", context.command);
  invocation.member("endTimeUtc", context.time + "Z");
  invocation.member("executionSuccessful", comparison.verdict < Verdict::kInconclusive);
}

void append_location(const Comparison& comparison, const CheckpointName& name,
                     JsonObject& location) {
  location.object("physicalLocation", [&](JsonObject& physical) {
    physical.object("artifactLocation", [&](JsonObject& artifact) {
      artifact.member("uri", uri(comparison.got_path));
    });
  });
  location.array("logicalLocations", std::span(&name, 1),
                 [](JsonObject& logical, const CheckpointName& checkpoint) {
                   logical.member("name", printable(checkpoint.title()));
                   logical.member("kind", "variable");
                 });
}

void append_properties(const Comparison& comparison, const CheckpointGroup& group,
                       JsonObject& properties) {
  const RecordResult& first = *group.failures.front();
  properties.member("token_idx", first.token_idx);
  properties.member("status", verdict_name(first.status));
  properties.member("value", first.failing_value);
  properties.member("tolerance", first.failing_tolerance);
  const std::string& sequence = name_of(comparison, group.checkpoint).sequence;
  if (!sequence.empty()) properties.member("sequence", sequence);
  if (!first.ranks.empty()) properties.member("rank", first.ranks);
  properties.member("tokens_failing", group.failures.size());
  properties.member("tokens_compared", group.records);
}

// What each result has: a rule, a message, the checkpoint, a fingerprint that outlives a run.
void append_finding(const Comparison& comparison, const CheckpointName& name, std::string_view id,
                    const std::string& message, JsonObject& result) {
  const auto* rule = std::find_if(std::begin(kRules), std::end(kRules),
                                  [&](const Rule& known) { return known.id == id; });
  result.member("ruleId", id);
  if (rule != std::end(kRules)) result.member("ruleIndex", rule - std::begin(kRules));
  result.member("level", "error");
  append_text(result, "message", message);
  result.array("locations", std::span(&name, 1),
               [&](JsonObject& location, const CheckpointName& checkpoint) {
                 append_location(comparison, checkpoint, location);
               });
  result.object("partialFingerprints", [&](JsonObject& fingerprints) {
    fingerprints.member("assayCheckpoint/v1", fmt::format("{}:{}", printable(name.title()), id));
  });
}

void append_result(const Comparison& comparison, const CheckpointGroup& group, bool is_first,
                   JsonObject& result) {
  const CheckpointName& name = name_of(comparison, group.checkpoint);
  const std::string shown = printable(name.title(), 80);
  if (group.failures.empty()) {
    const std::string why = group.unproven > 0 ? unproven_tokens(group) : std::string(kAllZeros);
    append_finding(comparison, name, "unproven", fmt::format("{} is {}", shown, why), result);
    return;
  }
  const RecordResult& first = *group.failures.front();
  append_finding(comparison, name, metric_name(first.failing_metric),
                 fmt::format("{}{} at token {}: {} ({})", is_first ? "First divergence: " : "",
                             shown, first.token_idx, failure_text(first), failing_tokens(group)),
                 result);
  result.object("properties",
                [&](JsonObject& properties) { append_properties(comparison, group, properties); });
}

}  // namespace

void SarifReport::write(const Comparison& comparison, const ReportContext& context,
                        const TextSink& sink) const {
  std::vector<CheckpointGroup> groups = failing_groups(comparison);
  for (CheckpointGroup& group : group_by_checkpoint(comparison)) {
    const bool is_unproven = group.unproven > 0 || is_inconclusive(comparison, group);
    if (is_unproven && group.failures.empty()) groups.push_back(std::move(group));
  }
  const auto append_run = [&](JsonObject& run, const Comparison&) {
    run.object("tool", [&](JsonObject& tool) {
      tool.object("driver", [&](JsonObject& driver) { append_driver(context, driver); });
    });
    run.array("invocations", std::span(&comparison, 1),
              [&](JsonObject& invocation, const Comparison&) {
                append_invocation(comparison, context, invocation);
              });
    run.key("results");
    run.elements(
        groups,
        [&](JsonObject& result, const CheckpointGroup& group) {
          append_result(comparison, group, &group == groups.data(), result);
        },
        "\n", sink);
  };
  write_json_line(sink, [&](JsonObject& log) {
    log.member("$schema",
               "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/"
               "sarif-schema-2.1.0.json");
    log.member("version", "2.1.0");
    log.array("runs", std::span(&comparison, 1), append_run);
  });
}

}  // namespace assay
