#include "assay/report/html_report.h"

#include <fmt/format.h>

#include <string_view>

#include "assay/report/failure_text.h"
#include "assay/report/html_data.h"
#include "assay/report/html_page.h"
#include "assay/report/table_report.h"

namespace assay {

extern const std::string_view kPageScript;  // files of page/, embedded by CMake

void HtmlReport::write(const Comparison& comparison, const ReportContext& context,
                       const TextSink& sink) const {
  write_page({.title = fmt::format("{}: {}", outcome_name(comparison), comparison.got_path),
              .kind = "comparison",
              .script = kPageScript,
              .data = html_data(comparison, context),
              .text =
                  [&](const TextSink& text) {
                    TableReport().write(comparison, {.command = context.command}, text);
                  }},
             sink);
}

}  // namespace assay
