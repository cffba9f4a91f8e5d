#include <string>
#include <string_view>

#include "assay/conform/conformance_report.h"
#include "assay/report/html_page.h"
#include "assay/report/json_object.h"

namespace assay {

extern const std::string_view kConformanceScript;  // files of page/, embedded by CMake

void write_conformance_page(const Conformance& conformance, const ReportContext& context,
                            const TextSink& sink) {
  const std::string data = json_of([&](JsonObject& object) {
    object.member("version", context.version);
    object.member("time", context.time);
    object.member("conformance", RawJson{conformance_json(conformance)});
  });
  write_page({.title = "Conformance of engines",
              .kind = "conformance",
              .script = kConformanceScript,
              .data = data,
              .text =
                  [&](const TextSink& text) {
                    find_report(conformance_reports(), "table")
                        ->write(conformance, {.command = context.command}, text);
                  }},
             sink);
}

}  // namespace assay
