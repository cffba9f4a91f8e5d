#include <string>
#include <string_view>

#include "assay/conform/table_json.h"
#include "assay/conform/table_report.h"
#include "assay/report/html_page.h"
#include "assay/report/json_object.h"

namespace assay {

extern const std::string_view kEngineTableScript;  // files of page/, embedded by CMake

void write_engine_table_page(const EngineTable& table, const ReportContext& context,
                             const TextSink& sink) {
  const std::string data = json_of([&](JsonObject& object) {
    object.member("version", context.version);
    object.member("time", context.time);
    object.member("kind",
                  table.kind == EngineTable::Kind::kConformance ? "conformance" : "invariance");
    object.member("table", RawJson{engine_table_json(table, context)});
  });
  write_page({.title = table.kind == EngineTable::Kind::kConformance ? "Conformance of engines"
                                                                     : "Invariance of engines",
              .kind = "engine_table",
              .script = kEngineTableScript,
              .data = data,
              .text =
                  [&](const TextSink& text) {
                    find_report(engine_table_reports(), "table")
                        ->write(table, {.command = context.command}, text);
                  }},
             sink);
}

}  // namespace assay
