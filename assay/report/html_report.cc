#include "assay/report/html_report.h"

#include <fmt/format.h>

#include <string_view>

#include "assay/report/failure_text.h"
#include "assay/report/html_data.h"
#include "assay/report/html_page.h"
#include "assay/report/table_report.h"

namespace assay {

extern const std::string_view kPageScript;  // files of page/, embedded by CMake

void write_html(const Comparison& comparison, const ReportContext& context, const TextSink& sink) {
  write_page(
      {.title = fmt::format("{}: {}", outcome_name(comparison), comparison.got_path),
       .kind = "comparison",
       .script = kPageScript,
       .data = html_data(comparison, context),
       .text = [&](const TextSink& text) { write_table(comparison, context.command, {}, text); }},
      sink);
}

}  // namespace assay
