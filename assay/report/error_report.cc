#include "assay/report/error_report.h"

#include <fmt/format.h>

#include "assay/report/github_report.h"
#include "assay/report/markdown.h"
#include "assay/report/xml_text.h"

namespace assay {

void write_junit_error(const FailedCommand& failed, const TextSink& sink) {
  sink(
      fmt::format("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
                  "  <testsuite id=\"0\" package=\"assay\" name=\"{0}\" timestamp=\"{2}\" "
                  "hostname=\"localhost\" tests=\"1\" failures=\"0\" errors=\"1\" "
                  "skipped=\"0\" time=\"0\">\n    <properties/>\n"
                  "    <testcase classname=\"assay\" name=\"{0}\" time=\"0\">\n"
                  "      <error type=\"error\" message=\"{1}\"/>\n    </testcase>\n"
                  "    <system-out/>\n    <system-err/>\n  </testsuite>\n</testsuites>\n",
                  xml_attribute(failed.command), xml_attribute(failed.message), failed.time));
}

void write_github_error(const FailedCommand& failed, const TextSink& sink) {
  sink(github_error({"", failed.command + " failed", failed.message}));
}

void write_github_error_summary(const FailedCommand& failed, const TextSink& sink) {
  sink(fmt::format("### &#10060; {} failed\n\n{}\n", markdown(failed.command),
                   markdown(failed.message)));
}

}  // namespace assay
