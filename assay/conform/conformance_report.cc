#include "assay/conform/conformance_report.h"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "assay/report/json_object.h"
#include "assay/report/markdown.h"
#include "assay/report/text_table.h"
#include "assay/report/xml_text.h"
#include "base/count_of.h"
#include "base/error.h"

namespace assay {
namespace {

constexpr Conformity kAll[] = {Conformity::kHonoured, Conformity::kIgnored,
                               Conformity::kMisread,  Conformity::kDiffers,
                               Conformity::kCrashed,  Conformity::kUnsupported};
constexpr size_t kMaxText = 300;

bool is_bad(const FeatureVerdict& verdict) {
  return verdict.conformity != Conformity::kHonoured &&
         verdict.conformity != Conformity::kUnsupported;
}

std::string engine_name(const EngineVerdicts& verdicts) {
  const EngineDeclaration& engine = verdicts.engine;
  return engine.version.empty() ? engine.name : fmt::format("{} {}", engine.name, engine.version);
}

std::string counts_text(const EngineVerdicts& verdicts) {
  std::string text;
  for (const Conformity each : kAll) {
    const int64_t count = verdicts.count(each);
    if (count == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, conformity_name(each));
  }
  return text;
}

// "misread (rope_base): takes 10000; 2.3e-01 from float64, 6.9e-07 from that".
std::string detail(const FeatureVerdict& verdict) {
  std::string text(conformity_name(verdict.conformity));
  if (!verdict.cause.empty()) text += fmt::format(" ({})", verdict.cause);
  if (!verdict.text.empty()) text += ": " + printable(verdict.text, kMaxText);
  if (verdict.error && std::isfinite(verdict.error->rel_l2)) {
    text += fmt::format("; {} from float64", short_number(verdict.error->rel_l2));
    if (verdict.error->positions < verdict.error->total) {
      text += fmt::format(" at {} of {} positions", verdict.error->positions, verdict.error->total);
    }
  }
  if (verdict.from_explained) {
    text += fmt::format(", {} from that", short_number(*verdict.from_explained));
  }
  if (!verdict.first_divergence.empty()) {
    text += fmt::format("; first at {}", printable(verdict.first_divergence, 60));
  }
  return text;
}

std::string table_text(const Conformance& conformance, const TextStyle& style) {
  std::vector<std::string> header = {"feature", "group"};
  for (const EngineVerdicts& each : conformance.engines) header.push_back(each.engine.name);
  TextTable table(header, header.size());
  for (size_t i = 0; i < conformance.features.size(); ++i) {
    std::vector<std::string> cells = {conformance.features[i].name, conformance.features[i].group};
    bool bad = false;
    for (const EngineVerdicts& each : conformance.engines) {
      cells.emplace_back(conformity_name(each.features[i].conformity));
      bad = bad || is_bad(each.features[i]);
    }
    table.add(cells, bad ? Color::kBad : Color::kNone);
  }
  std::string text = table.text(style);
  for (const EngineVerdicts& each : conformance.engines) {
    text += fmt::format("\n{}: {}\n", printable(engine_name(each), 80), counts_text(each));
    for (const FeatureVerdict& verdict : each.features) {
      if (!is_bad(verdict)) continue;
      text += fmt::format("  {}: {}\n", verdict.feature, detail(verdict));
      if (!verdict.command.empty()) text += fmt::format("    {}\n", verdict.command);
    }
  }
  return text;
}

void append_verdict(JsonObject& object, const Feature& feature, const FeatureVerdict& verdict) {
  object.member("feature", verdict.feature);
  object.member("group", feature.group);
  object.member("title", feature.title);
  object.array("states", feature.states);
  object.member("verdict", conformity_name(verdict.conformity));
  object.member("cause", verdict.cause);
  object.member("text", verdict.text);
  object.member("checkpoint", verdict.checkpoint);
  const bool finite = verdict.error && std::isfinite(verdict.error->rel_l2);
  object.member("rel_l2", finite ? std::optional(verdict.error->rel_l2) : std::nullopt);
  object.member("from_explained", verdict.from_explained);
  object.member("positions", verdict.error ? verdict.error->positions : 0);
  object.member("positions_total", verdict.error ? verdict.error->total : 0);
  object.member("first_divergence", verdict.first_divergence);
  object.member("log", verdict.log);
  object.member("command", verdict.command);
}

class ConformanceTable : public Report<Conformance> {
 public:
  std::string_view name() const override { return "table"; }
  void write(const Conformance& conformance, const ReportContext& context,
             const TextSink& sink) const override {
    sink(table_text(conformance, context.style));
  }
};

class ConformanceJson : public Report<Conformance> {
 public:
  std::string_view name() const override { return "json"; }
  void write(const Conformance& conformance, const ReportContext&,
             const TextSink& sink) const override {
    sink(conformance_json(conformance) + "\n");
  }
};

class ConformanceHtml : public Report<Conformance> {
 public:
  std::string_view name() const override { return "html"; }
  void write(const Conformance& conformance, const ReportContext& context,
             const TextSink& sink) const override {
    write_conformance_page(conformance, context, sink);
  }
};

class ConformanceJunit : public Report<Conformance> {
 public:
  std::string_view name() const override { return "junit"; }
  void write(const Conformance& conformance, const ReportContext& context,
             const TextSink& sink) const override {
    sink("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for (const EngineVerdicts& each : conformance.engines) {
      const auto failures = std::count_if(each.features.begin(), each.features.end(), is_bad);
      sink(
          fmt::format("  <testsuite name=\"{}\" timestamp=\"{}\" tests=\"{}\" failures=\"{}\" "
                      "errors=\"0\" skipped=\"{}\" time=\"0\">\n",
                      xml_attribute(engine_name(each)), context.time, each.features.size(),
                      failures, each.count(Conformity::kUnsupported)));
      for (size_t i = 0; i < each.features.size(); ++i) {
        sink(test_case(conformance.features[i], each.features[i]));
      }
      sink("  </testsuite>\n");
    }
    sink("</testsuites>\n");
  }

 private:
  static std::string test_case(const Feature& feature, const FeatureVerdict& verdict) {
    std::string text = fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"0\"",
                                   xml_attribute(feature.group), xml_attribute(feature.name));
    if (verdict.conformity == Conformity::kHonoured) return text + "/>\n";
    if (!is_bad(verdict)) {
      return text + fmt::format(">\n      <skipped message=\"{}\"/>\n    </testcase>\n",
                                xml_attribute(detail(verdict)));
    }
    return text + fmt::format(
                      ">\n      <failure type=\"{}\" message=\"{}\">{}</failure>\n"
                      "    </testcase>\n",
                      conformity_name(verdict.conformity), xml_attribute(detail(verdict)),
                      xml_text(verdict.command));
  }
};

class ConformanceGithub : public Report<Conformance> {
 public:
  std::string_view name() const override { return "github"; }
  bool is_step_summary() const override { return true; }
  void write(const Conformance& conformance, const ReportContext& context,
             const TextSink& sink) const override {
    std::string text = "### Assay: conformance\n\n";
    for (const EngineVerdicts& each : conformance.engines) {
      text += fmt::format("- **{}**: {}\n", markdown(engine_name(each)), counts_text(each));
    }
    text += "\n| engine | feature | verdict |\n|---|---|---|\n";
    std::vector<std::string> rows;
    for (const EngineVerdicts& each : conformance.engines) {
      for (const FeatureVerdict& verdict : each.features) {
        if (verdict.conformity == Conformity::kHonoured) continue;
        rows.push_back(fmt::format("| {} | {} | {} |\n", markdown(each.engine.name),
                                   markdown(verdict.feature), markdown(detail(verdict), 1000)));
      }
    }
    append_markdown_rows(rows.size(), "feature", context.max_bytes, text,
                         [&](size_t i) { return rows[i]; });
    if (text.size() <= context.max_bytes) sink(text);
  }
};

}  // namespace

std::string conformance_json(const Conformance& conformance) {
  return json_of([&](JsonObject& object) {
    object.member("pass", conformance.pass());
    object.array("engines", conformance.engines,
                 [&](JsonObject& element, const EngineVerdicts& each) {
                   element.member("name", each.engine.name);
                   element.member("version", each.engine.version);
                   element.member("precision", each.engine.precision);
                   element.object("counts", [&](JsonObject& counts) {
                     for (const Conformity one : kAll) {
                       counts.member(conformity_name(one), each.count(one));
                     }
                   });
                   size_t i = 0;
                   element.array("features", each.features,
                                 [&](JsonObject& one, const FeatureVerdict& verdict) {
                                   append_verdict(one, conformance.features[i++], verdict);
                                 });
                 });
  });
}

Reports<Conformance> conformance_reports() {
  return reports_of<Conformance, ConformanceTable, ConformanceJson, ConformanceHtml,
                    ConformanceJunit, ConformanceGithub>();
}

}  // namespace assay
