// Any two logs are compared or refused with an Error; looking for the causes without a model
// changes no verdict; each report of the result can be read by those who read such reports; and a
// log is in parity with itself.
#include <rapidjson/document.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "assay/causes/find_causes.h"
#include "assay/compare/compare_logs.h"
#include "assay/report/comparison_reports.h"
#include "base/error.h"
#include "tests/fuzz/memory_file.h"

namespace {

using assay::testing_support::MemoryFile;

void require(bool condition) {
  if (!condition) std::abort();
}

template <class Write>
std::string text_of(const Write& write) {
  std::string text;
  write([&](std::string_view piece) { text += piece; });
  return text;
}

void require_json(const std::string& text) {
  rapidjson::Document document;
  document.Parse<rapidjson::kParseValidateEncodingFlag>(text.data(), text.size());
  require(!document.HasParseError() && document.IsObject());
}

bool has_control_characters(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < ' ' && c != '\n' && c != '\t' && c != '\r';
  });
}

size_t count(std::string_view text, std::string_view what) {
  size_t found = 0;
  for (size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1)) {
    ++found;
  }
  return found;
}

void check_reports(const assay::Comparison& comparison) {
  const assay::ReportContext context{.command = "assay compare a b",
                                     .version = "1",
                                     .time = "2026-01-31T12:00:00",
                                     .max_bytes = 2000};
  const auto report = [&](std::string_view format) {
    const auto* const found = assay::find_report(assay::comparison_reports(), format);
    return text_of([&](const auto& sink) { found->write(comparison, context, sink); });
  };
  require_json(report("json"));
  require_json(report("sarif"));
  require(!has_control_characters(report("junit")));
  // What a log says opens and closes no element: there are as many as in every page.
  const std::string page = report("html");
  require(count(page, "<script") == count(page, "</script>"));
  require(!has_control_characters(page));
  // One command a line, and nothing else.
  const std::string commands = text_of([&](const auto& sink) {
    assay::find_report(assay::comparison_reports(), "github")->write_annotations(comparison, sink);
  });
  require(count(commands, "\n") ==
          count("\n" + commands, "\n::error ") + count("\n" + commands, "\n::warning "));
  require(report("github").size() <= 2000);
  require(count(report("csv"), "\n") >= comparison.results.size());
  report("table");
}

void add_causes(assay::Comparison& comparison) {
  const bool pass = comparison.pass;
  const assay::Verdict verdict = comparison.verdict;
  assay::find_causes(nullptr, comparison);
  require(comparison.pass == pass && comparison.verdict == verdict);
  require(comparison.causes.empty() || !pass);
  for (const assay::Cause& cause : comparison.causes) {
    require(cause.explained >= 0.99 && cause.explained <= 1);
    require(cause.confidence >= 0 && cause.confidence <= 1);
  }
  for (const assay::ErrorSource& source : comparison.error_sources) {
    require(!source.own || *source.own >= 0);
    require(!source.inherited || *source.inherited >= 0);
  }
}

}  // namespace

// The first byte has the options; the logs follow, with a zero between them. Without a zero the
// first log is compared with itself.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const uint8_t choice = data[0];
  const uint8_t* const end = data + size;
  const uint8_t* const middle = std::find(data + 1, end, uint8_t{0});
  const bool with_itself = middle == end;
  const MemoryFile ref(data + 1, static_cast<size_t>(middle - data - 1));
  const uint8_t* const second = with_itself ? end : middle + 1;
  const MemoryFile got(second, static_cast<size_t>(end - second));
  assay::CompareOptions options;
  options.align = static_cast<assay::AlignMode>(choice % 3);
  options.quarantine = static_cast<assay::QuarantineMode>(choice / 3 % 3);
  options.strict_argmax = (choice & 0x80U) != 0;
  options.n_threads = 1;
  try {
    assay::Comparison comparison =
        assay::compare_logs(ref.path(), with_itself ? ref.path() : got.path(), options);
    add_causes(comparison);
    check_reports(comparison);
    for (const assay::RecordResult& result : comparison.results) {
      // Not a number passes nothing.
      require(result.metrics.nonfinite == 0 || result.failed());
      if (with_itself && options.quarantine != assay::QuarantineMode::kFail) {
        require(!result.failed() || result.metrics.nonfinite > 0);
      }
    }
  } catch (const assay::Error& error) {
    require(!std::string(error.what()).empty());
  }
  return 0;
}
