#include "assay/report/several_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "assay/report/json_object.h"
#include "assay/report/run_pair.h"
#include "base/error.h"

namespace assay {
namespace {

Color color_of(const RunPair& pair) {
  if (pair.pass) return Color::kNone;
  return pair.verdict >= Verdict::kInconclusive ? Color::kCaution : Color::kBad;
}

bool is_among(const std::vector<size_t>& runs, size_t run) {
  return std::find(runs.begin(), runs.end(), run) != runs.end();
}

class SeveralTable : public Report<SeveralComparison> {
 public:
  std::string_view name() const override { return "table"; }
  void write(const SeveralComparison& several, const ReportContext& context,
             const TextSink& sink) const override;
};

class SeveralJson : public Report<SeveralComparison> {
 public:
  std::string_view name() const override { return "json"; }
  void write(const SeveralComparison& several, const ReportContext& context,
             const TextSink& sink) const override;
};

}  // namespace

void SeveralTable::write(const SeveralComparison& several, const ReportContext& context,
                         const TextSink& sink) const {
  const TextStyle& style = context.style;
  const bool agree = several.consensus == Consensus::kAgree;
  static constexpr std::string_view kWords[] = {"AGREE", "OUTLIER", "CANNOT TELL"};
  std::string text = fmt::format("{}  {}\n\n",
                                 colored(kWords[static_cast<size_t>(several.consensus)],
                                         agree ? Color::kGood : Color::kBad, style),
                                 several.why);
  const std::vector<std::string> names = short_names(several.runs);
  TextTable runs({"run", "log", "model", "type"});
  for (size_t i = 0; i < names.size(); ++i) {
    const RunLabel& run = several.runs[i];
    runs.add({names[i], printable(run.path, 60), run.model.empty() ? "-" : printable(run.model, 30),
              run.type.empty() ? "-" : printable(run.type, 12)},
             is_among(several.outliers, i)   ? Color::kBad
             : is_among(several.unproved, i) ? Color::kCaution
                                             : Color::kNone);
  }
  text += fmt::format("{}\n", runs.text(style));
  TextTable pairs({"reference", "other", "first divergence", "median rel l2", "worst rel l2",
                   "x tolerance", "failed", "verdict"},
                  2);
  for (const RunPair& pair : several.pairs) {
    pairs.add(
        {names[pair.a], names[pair.b], divergence_place(pair.first_divergence),
         short_number(pair.median_rel_l2), short_number(pair.worst_rel_l2),
         short_number(pair.worst_of_tolerance), fmt::format("{}/{}", pair.failed, pair.compared),
         std::string(verdict_name(pair.verdict))},
        color_of(pair));
  }
  text += pairs.text(style);
  sink(text);
}

void SeveralJson::write(const SeveralComparison& several, const ReportContext&,
                        const TextSink& sink) const {
  write_json_line(sink, [&](JsonObject& object) {
    object.member("consensus", consensus_name(several.consensus));
    object.member("pass", several.consensus == Consensus::kAgree);
    object.member("why", several.why);
    object.lines("runs", several.runs, sink, [&](JsonObject& element, const RunLabel& run) {
      const auto index = static_cast<size_t>(&run - several.runs.data());
      element.member("log", run.path);
      element.member("engine", run.engine);
      element.member("model", run.model);
      element.member("type", run.type);
      element.member("outlier", is_among(several.outliers, index));
      element.member("unproved", is_among(several.unproved, index));
    });
    object.lines("pairs", several.pairs, sink, [&](JsonObject& element, const RunPair& pair) {
      element.member("ref", several.runs[pair.a].path);
      element.member("got", several.runs[pair.b].path);
      append_pair(pair, element);
    });
    object.lines("warnings", several.warnings, sink);
  });
}

Reports<SeveralComparison> several_reports() {
  return reports_of<SeveralComparison, SeveralTable, SeveralJson>();
}

}  // namespace assay
