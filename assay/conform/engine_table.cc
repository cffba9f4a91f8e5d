#include "assay/conform/engine_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "assay/report/text_table.h"
#include "base/count_of.h"

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

std::string_view change_name(Change change) {
  constexpr std::string_view kNames[] = {"same", "better", "worse", "new"};
  return kNames[static_cast<size_t>(change)];
}

bool TableCell::fails() const {
  if (!change || change == Change::kNew) return is_bad(finding);
  return change == Change::kWorse;
}

void TableCell::add_text(std::string_view more) {
  text += text.empty() ? "" : "; ";
  text += more;
}

int64_t TableColumn::count(Finding finding) const {
  return std::ranges::count(cells, finding, &TableCell::finding);
}

int64_t TableColumn::count(Change change) const {
  return std::ranges::count(cells, change, &TableCell::change);
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

std::string EngineTable::distance_text(const OutputError& error) const {
  if (kind == Kind::kInvariance) {
    const std::string records = count_of(error.positions, "record");
    return fmt::format("{} from the tokens alone{}", short_number(error.rel_l2),
                       error.positions > 0 ? " in " + records : "");
  }
  std::string text = short_number(error.rel_l2) + " from float64";
  if (error.positions < error.total) {
    text += fmt::format(" at {} of {} positions", error.positions, error.total);
  }
  return text;
}

std::string EngineTable::cut_lines() const {
  std::set<std::string> all;
  for (const TableColumn& column : columns) {
    for (const TableCell& cell : column.cells) {
      if (!cell.cut_line.empty()) all.insert(cell.cut_line);
    }
  }
  if (all.empty()) return {};
  if (all.size() == 1) return *all.begin();
  return fmt::format("{}; so is that of {}", *all.begin(),
                     count_of(all.size() - 1, "log more", "logs more"));
}

bool EngineTable::pass() const {
  return !columns.empty() && std::ranges::all_of(columns, [](const TableColumn& column) {
    return !column.supports_nothing() && std::ranges::none_of(column.cells, &TableCell::fails);
  });
}

}  // namespace assay
