#include "assay/fleet/fleet_page.h"

#include <string_view>

#include "assay/report/html_page.h"
#include "assay/report/json_object.h"
#include "base/error.h"
#include "base/json_file.h"

namespace assay {

extern const std::string_view kFleetPageScript;  // files of page/, embedded by CMake

void write_fleet_page(const std::string& data, const std::string& name,
                      const ReportContext& context, const TextSink& sink) {
  const rapidjson::Document parsed = parse_json_text(data, name, "give what fleet report computes");
  if (!parsed.IsObject() || !parsed.HasMember("text") || !parsed["text"].IsString()) {
    throw Error("has no text of the report", name, "give what assay fleet report computes");
  }
  const std::string text = json_text_of(parsed["text"]);
  write_page({.title = "Fleet of runs",
              .kind = "report",
              .script = kFleetPageScript,
              .data = json_of([&](JsonObject& object) {
                object.member("version", context.version);
                object.member("time", context.time);
                object.member("fleet", RawJson{data});
              }),
              .text = [&](const TextSink& plain) { plain(text); }},
             sink);
}

}  // namespace assay
