#include "assay/report/comparison_reports.h"

#include "assay/report/csv_report.h"
#include "assay/report/github_report.h"
#include "assay/report/html_report.h"
#include "assay/report/json_report.h"
#include "assay/report/junit_report.h"
#include "assay/report/sarif_report.h"
#include "assay/report/table_report.h"

namespace assay {

Reports<Comparison> comparison_reports() {
  return reports_of<Comparison, TableReport, JsonReport, CsvReport, HtmlReport, JunitReport,
                    SarifReport, GithubReport>();
}

}  // namespace assay
