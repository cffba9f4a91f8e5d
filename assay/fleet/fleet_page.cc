#include "assay/fleet/fleet_page.h"

#include <fmt/format.h>

#include <string_view>

#include "assay/report/html_page.h"
#include "assay/report/json_object.h"
#include "base/error.h"
#include "base/json_file.h"

namespace assay {

extern const std::string_view kFleetPageScript;  // files of page/, embedded by CMake

namespace {

constexpr const char* kPageHint = "give what assay fleet report --json writes";

}  // namespace

void write_fleet_page(const std::string& data, const std::string& name,
                      const ReportContext& context, const TextSink& sink) {
  const rapidjson::Document parsed = parse_json_text(data, name, kPageHint);
  if (!parsed.IsObject() || !parsed.HasMember("text") || !parsed["text"].IsString()) {
    throw Error("has no text of the report", name, kPageHint);
  }
  for (const char* list :
       {"problems", "engines", "ops", "trends", "new", "still", "fixed", "gone"}) {
    if (parsed.HasMember(list) && parsed[list].IsArray()) continue;
    throw Error(fmt::format("'{}' is missing or not an array", list), name, kPageHint);
  }
  if (!parsed.HasMember("counts") || !parsed["counts"].IsObject()) {
    throw Error("'counts' is missing or not an object", name, kPageHint);
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
