// Any bytes are a line of a log, good or bad: the parser must neither crash nor read beyond it, and
// what it takes for a record must be one.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <tuple>

#include "assay/compare/garbage.h"
#include "assay/compare/metrics.h"
#include "assay/log/line_parser.h"
#include "assay/log/line_reader.h"
#include "assay/log/record_text.h"

namespace {

bool same_coordinates(const assay::Record& a, const assay::Record& b) {
  return std::tie(a.sequence, a.step, a.phase, a.rank, a.dims) ==
         std::tie(b.sequence, b.step, b.phase, b.rank, b.dims);
}

void check(assay::LineParser& parser, std::string_view text) {
  try {
    if (parser.parse(text) != assay::LineKind::kRecord) return;
  } catch (const assay::LineProblem& problem) {
    if (problem.what.empty()) std::abort();
    return;
  }
  const assay::Record record = parser.record();
  if (record.token_idx < 0 || record.n < static_cast<int64_t>(record.values.size())) std::abort();
  assay::find_garbage(record);
  const assay::Metrics metrics = assay::compare_records(record, record, true);
  // A record is equal to itself unless it holds a NaN.
  if (metrics.nonfinite == 0 && record.has_all_values() && !(metrics.rel_l2 == 0)) std::abort();
  // What can be read whole can be skimmed, to the same key.
  if (parser.skim(text) != assay::LineKind::kRecord) std::abort();
  if (parser.record().checkpoint != record.checkpoint) std::abort();
  if (parser.record().token_idx != record.token_idx) std::abort();
  if (!same_coordinates(parser.record(), record)) std::abort();
  // What is written of it is read as the same.
  std::string line;
  assay::append_record_line(line, record);
  const size_t size = line.size() - 1;
  line.append(assay::kLinePadding, '\0');
  try {
    if (parser.parse(std::string_view(line).substr(0, size)) != assay::LineKind::kRecord) {
      std::abort();
    }
  } catch (const assay::LineProblem&) {
    std::abort();
  }
  const assay::Record& again = parser.record();
  if (!same_coordinates(again, record) || again.top.size() != record.top.size()) std::abort();
  if (again.values.size() != record.values.size() || again.n != record.n) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static assay::LineParser parser;
  // On the heap and without slack but for the padding, so that reading further is found.
  std::string text(reinterpret_cast<const char*>(data), size);
  text.append(assay::kLinePadding, '\0');
  text.shrink_to_fit();
  check(parser, std::string_view(text).substr(0, size));
  return 0;
}
