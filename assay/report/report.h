#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "assay/report/report_context.h"
#include "assay/report/text_sink.h"

namespace assay {

// One format in which a `Subject` can be shown, such as a comparison as CSV.
template <class Subject>
class Report {
 public:
  virtual ~Report() = default;

  // As --format takes it.
  virtual std::string_view name() const = 0;

  virtual void write(const Subject& subject, const ReportContext& context,
                     const TextSink& sink) const = 0;

  // Whether it is the summary of a job: then it has at most ReportContext::max_bytes, and goes to
  // the end of the file that a runner names.
  virtual bool is_step_summary() const { return false; }

  // What the runner reads from the standard output besides.
  virtual void write_annotations(const Subject&, const TextSink&) const {}
};

// All formats of a subject, the default first.
template <class Subject>
using Reports = std::span<const Report<Subject>* const>;

// One of each class, in that order.
template <class Subject, class... Formats>
Reports<Subject> reports_of() {
  static const std::tuple<Formats...> formats{};
  static const std::array<const Report<Subject>*, sizeof...(Formats)> reports{
      &std::get<Formats>(formats)...};
  return reports;
}

template <class Subject>
std::vector<std::string> format_names(Reports<Subject> reports) {
  std::vector<std::string> names;
  for (const Report<Subject>* report : reports) names.emplace_back(report->name());
  return names;
}

// Null if there is none.
template <class Subject>
const Report<Subject>* find_report(Reports<Subject> reports, std::string_view name) {
  const auto found = std::ranges::find(reports, name, &Report<Subject>::name);
  return found == reports.end() ? nullptr : *found;
}

}  // namespace assay
