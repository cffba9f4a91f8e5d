#include "assay/fleet/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <system_error>
#include <tuple>

#include "assay/compare/compare_logs.h"
#include "assay/compare/garbage.h"
#include "assay/compare/self_check.h"
#include "assay/compare/several.h"
#include "assay/log/log_reader.h"
#include "assay/log/sketch.h"
#include "assay/report/json_object.h"
#include "base/error.h"
#include "base/thread_pool.h"

namespace assay {
namespace {

// The worst rel_l2 of the checkpoint that the network computes last: logits, where they are logged.
// NaN is the worst.
double last_rel_l2(const Comparison& comparison) {
  int64_t last = -1;
  double worst = 0;
  for (const RecordResult& result : comparison.results) {
    if (!result.of_ref) continue;
    const int64_t order = comparison.order[static_cast<size_t>(result.checkpoint)];
    const double error = result.metrics.rel_l2;
    if (order < last || (order == last && (std::isnan(worst) || error <= worst))) continue;
    last = order;
    worst = error;
  }
  return worst;
}

void append_first_divergence(const FirstDivergence& first, JsonObject& row) {
  row.member("checkpoint", first.checkpoint.name);
  row.member("layer",
             first.checkpoint.layer >= 0 ? std::optional(first.checkpoint.layer) : std::nullopt);
  row.member("op", first.checkpoint.op);
  row.member("token_idx", first.token_idx);
  row.member("metric", metric_name(first.metric));
  row.member("value", first.value);
  row.member("tolerance", first.tolerance);
}

void append_differing(const Comparison& comparison, JsonObject& row) {
  std::vector<std::tuple<std::string_view, int64_t, int64_t>> differing;
  for (const RecordResult& result : comparison.results) {
    if (result.evidence != Evidence::kFailed && result.evidence != Evidence::kUnproven) continue;
    if (std::ssize(differing) == kMostDiffering) break;
    const auto checkpoint = static_cast<size_t>(result.checkpoint);
    differing.emplace_back(comparison.checkpoints[checkpoint].name, result.token_idx,
                           result.token_idx + comparison.alignment.offset);
  }
  row.array("differ", differing);
}

void replace_all(const std::string& from, std::string_view to, std::string& text) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

void append_warnings(const LogPair& logs, std::vector<std::string> warnings, JsonObject& row) {
  for (std::string& warning : warnings) {
    replace_all(logs.got, "the run", warning);
    replace_all(logs.ref, "the reference", warning);
  }
  row.array("warnings", warnings);
}

void append_comparison(const Comparison& comparison, JsonObject& row) {
  const RunPair pair = pair_of(comparison, 0, 1);
  row.member("verdict", verdict_name(comparison.verdict));
  row.member("pass", comparison.pass);
  row.member("compared", comparison.compared);
  row.member("failed", comparison.failed);
  row.member("whole", comparison.evidence.whole);
  row.member("partial", comparison.evidence.partial);
  row.member("excused", comparison.evidence.excused);
  row.member("unproven", comparison.evidence.unproven);
  row.member("argmax_agree", comparison.argmax_agree);
  row.member("argmax_total", comparison.argmax_total);
  if (comparison.first_divergence) append_first_divergence(*comparison.first_divergence, row);
  row.member("median_rel_l2", pair.median_rel_l2);
  row.member("worst_rel_l2", pair.worst_rel_l2);
  row.member("worst_of_tolerance", pair.worst_of_tolerance);
  row.member("last_rel_l2", last_rel_l2(comparison));
  row.member("growth_per_layer", comparison.drift.growth_per_layer);
  append_differing(comparison, row);
}

struct Row {
  std::string text;
  bool pass = false;
  bool diverged = false;
};

Row row_of(const LogPair& pair, CompareOptions options, const PolicyFor& policy_for) {
  const auto row_with = [&](const auto& append) {
    return json_of([&](JsonObject& row) {
      row.member("ref", pair.ref);
      row.member("got", pair.got);
      append(row);
    });
  };
  options.n_threads = 1;
  options.progress = nullptr;
  try {
    std::error_code none;
    if (std::filesystem::equivalent(pair.ref, pair.got, none)) {
      throw Error("is the same file as " + pair.ref, pair.got,
                  "held to itself it shows nothing: give the one that is judged");
    }
    options.policy = policy_for(pair.ref, pair.got);
    const Comparison comparison = compare_logs(pair.ref, pair.got, options);
    const std::string text = row_with([&](JsonObject& row) {
      append_comparison(comparison, row);
      append_warnings(pair, comparison.warnings, row);
    });
    return {text, comparison.pass, comparison.failed > 0};
  } catch (const Error& error) {
    const std::string problem = error.what();
    return {row_with([&](JsonObject& row) { row.member("problem", problem); })};
  }
}

// Values whose sketch is another one by more than that: no tolerance of a golden is less.
constexpr double kMostSketchError = 0x1p-24;

bool sketch_is_of_values(const Record& record) {
  if (!record.sketch || !record.has_all_values()) return true;
  const Sketch computed = compute_sketch(record.values);
  return sketch_distance(computed, *record.sketch) <= kMostSketchError * sketch_norm(computed);
}

bool is_sound(const Record& record) {
  const std::vector<Garbage> garbage = find_garbage(record);
  const bool none = std::all_of(garbage.begin(), garbage.end(), [](const Garbage& found) {
    return found.reason == GarbageReason::kPadding;
  });
  return none && sketch_is_of_values(record) && contradiction_in(record, {}).empty();
}

}  // namespace

std::vector<LogPair> parse_log_pairs(std::string_view list, const std::string& name) {
  std::vector<LogPair> pairs;
  int64_t number = 0;
  while (!list.empty()) {
    const size_t end = std::min(list.find('\n'), list.size());
    const std::string_view line = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    ++number;
    const size_t tab = line.find('\t');
    if (tab == std::string_view::npos || tab == 0 || tab + 1 == line.size() ||
        line.find('\t', tab + 1) != std::string_view::npos) {
      throw Error("is no pair of logs", fmt::format("{}:{}", name, number),
                  "give the reference's path, a tab, and the other log's path");
    }
    pairs.push_back({std::string(line.substr(0, tab)), std::string(line.substr(tab + 1))});
  }
  if (pairs.empty()) throw Error("holds no pair of logs", name, "give REF, a tab, GOT a line");
  return pairs;
}

bool is_sound(const std::string& path) {
  LogReader log(path);
  while (const Record* record = log.next()) {
    if (!is_sound(*record)) return false;
  }
  return true;
}

NotInParity judge_pairs(const std::vector<LogPair>& pairs, const CompareOptions& options,
                        const PolicyFor& policy_for, const TextSink& sink) {
  ThreadPool pool(options.n_threads);
  std::vector<Row> rows(pairs.size());
  pool.parallel_for(std::ssize(pairs), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      rows[i] = row_of(pairs[i], options, policy_for);
      rows[i].text += '\n';
    }
  });
  NotInParity counts;
  for (const Row& row : rows) {
    sink(row.text);
    counts.diverged += row.diverged ? 1 : 0;
    counts.not_proved += row.pass || row.diverged ? 0 : 1;
  }
  return counts;
}

}  // namespace assay
