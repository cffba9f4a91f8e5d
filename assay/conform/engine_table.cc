#include "assay/conform/engine_table.h"

#include <algorithm>

namespace assay {

std::string_view finding_name(Finding finding) {
  constexpr std::string_view kNames[] = {"honoured",  "ignored",     "misread",
                                         "differs",   "same bits",   "within noise",
                                         "dependent", "unsupported", "crashed"};
  return kNames[static_cast<size_t>(finding)];
}

bool is_right(Finding finding) {
  return finding == Finding::kHonoured || finding == Finding::kSameBits ||
         finding == Finding::kWithinNoise;
}

bool is_bad(Finding finding) {
  return !is_right(finding) && finding != Finding::kUnsupported;
}

int64_t TableColumn::count(Finding finding) const {
  return std::ranges::count(cells, finding, &TableCell::finding);
}

bool TableColumn::supports_nothing() const {
  return count(Finding::kUnsupported) == std::ssize(cells);
}

double TableColumn::seconds() const {
  double sum = 0.0;
  for (const TableCell& cell : cells) sum += cell.seconds;
  return sum;
}

std::vector<Finding> EngineTable::findings() const {
  if (kind == Kind::kInvariance) {
    return {Finding::kSameBits, Finding::kWithinNoise, Finding::kDependent, Finding::kCrashed,
            Finding::kUnsupported};
  }
  return {Finding::kHonoured, Finding::kIgnored, Finding::kMisread,
          Finding::kDiffers,  Finding::kCrashed, Finding::kUnsupported};
}

bool EngineTable::pass() const {
  return !columns.empty() && std::ranges::all_of(columns, [](const TableColumn& column) {
    return !column.supports_nothing() &&
           std::ranges::none_of(column.cells, is_bad, &TableCell::finding);
  });
}

}  // namespace assay
