#include "assay/report/csv_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "assay/report/checkpoint_groups.h"
#include "base/character.h"

namespace assay {
namespace {

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return fmt::format("{:.9g}", value);
}

std::string number(const std::optional<double>& value) {
  return value ? number(*value) : "";
}
std::string number(const std::optional<int64_t>& value) {
  return value ? fmt::format("{}", *value) : "";
}

// Whether a spreadsheet would compute it.
bool is_formula(std::string_view text) {
  if (text.find_first_of("=+-@") != 0) return false;
  double number = 0;
  const std::string_view unsigned_text = text.substr(text.starts_with('+') ? 1 : 0);
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(unsigned_text.data(), end, number);
  return error != std::errc() || stop != end;
}

// A name. Behind an apostrophe where it would be a formula, which spreadsheets then show as text;
// quoted where a comma or a quote would break the line (RFC 4180); what cannot be seen, line
// ends among it, as \xNN.
std::string field(std::string_view text) {
  std::string shown(is_formula(text) ? "'" : "");
  shown += visible_text(text);
  if (shown.find_first_of(",\"") == std::string::npos) return shown;
  std::string quoted = "\"";
  for (const char c : shown) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string team(const Comparison& comparison, int32_t id) {
  return id < 0 ? "" : field(comparison.teams[static_cast<size_t>(id)]);
}

}  // namespace

void CsvReport::write(const Comparison& comparison, const ReportContext&,
                      const TextSink& sink) const {
  const bool floors = has_floors(comparison);
  sink(
      "token_idx,max_abs_diff,mean_abs_diff,ref_team,got_team,checkpoint,n,compared,rms,rel_l2,"
      "cosine,nmse,max_ulp,sign_flips,argmax_ref,argmax_got,regret,kl,topk_overlap,status,"
      "tolerance,evidence");
  const bool own = comparison.own_errors.has_value();
  const bool several = !comparison.sequences.empty();
  const bool ranks = std::ranges::any_of(
      comparison.results, [](const RecordResult& result) { return !result.ranks.empty(); });
  sink(fmt::format("{}{}{}{}\n", floors ? ",floor,x_floor" : "", own ? ",own_error" : "",
                   several ? ",sequence" : "", ranks ? ",rank" : ""));
  for (const RecordResult& result : comparison.results) {
    const Metrics& m = result.metrics;
    sink(fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
                     result.token_idx, number(m.max_abs), number(m.mean_abs),
                     team(comparison, result.ref_team), team(comparison, result.got_team),
                     field(comparison.checkpoints[static_cast<size_t>(result.checkpoint)].name),
                     m.n, m.compared, number(m.rms), number(m.rel_l2), number(m.cosine),
                     number(m.nmse), m.max_ulp, m.sign_flips, number(m.argmax_ref),
                     number(m.argmax_got), number(m.regret), number(m.kl), number(m.topk_overlap),
                     verdict_name(result.status), number(result.tolerance),
                     evidence_name(result.evidence)));
    if (floors) sink(fmt::format(",{},{}", number(result.floor), number(result.times_floor())));
    if (own) sink(fmt::format(",{}", number(result.own_error)));
    if (several) sink(fmt::format(",{}", field(name_of(comparison, result.checkpoint).sequence)));
    if (ranks) sink(fmt::format(",{}", field(result.ranks)));
    sink("\n");
  }
  // Records that were not compared have no figures.
  for (const Gap& gap : comparison.gaps) {
    sink(fmt::format("{},,,,,{},,,,,,,,,,,,,,{},,{}{}", gap.token_idx,
                     field(comparison.checkpoints[static_cast<size_t>(gap.checkpoint)].name),
                     verdict_name(Verdict::kIncomplete), evidence_name(gap.evidence),
                     floors ? ",," : ""));
    if (own) sink(",");
    if (several) sink(fmt::format(",{}", field(name_of(comparison, gap.checkpoint).sequence)));
    sink(ranks ? ",\n" : "\n");
  }
}

}  // namespace assay
