#include "assay/conform/baseline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/shell.h"

namespace assay {
namespace {

// How much further from float64 the same mistake may be than in the baseline: what rounding leaves
// of it differs from machine to machine.
constexpr double kFurther = 1.5;

// Whether fewer of the outputs that were judged are shown; both have some.
bool shows_less(const TableCell& before, const TableCell& now) {
  // Sketches show all without a value.
  const bool is_whole = now.error->whole == now.error->positions;
  const bool fewer =
      !is_whole && now.error->values >= 0 && now.error->values < before.error->values;
  return now.checkpoint != before.checkpoint || now.error->positions < before.error->positions ||
         now.error->whole < before.error->whole || fewer;
}

// Whether an output that is wrong is as wrong as it was, and by the same mistake.
bool is_as_bad(const TableCell& before, const TableCell& now) {
  if (now.finding != before.finding || now.cause != before.cause) return false;
  if (!now.error || !before.error) return !now.error && !before.error;
  if (shows_less(before, now)) return false;
  if (!std::isfinite(before.error->rel_l2)) return !std::isfinite(now.error->rel_l2);
  return now.error->rel_l2 <= kFurther * before.error->rel_l2;
}

Change change_since(const TableCell& before, const TableCell& now) {
  if (is_right(now.finding)) {
    if (!is_right(before.finding)) return Change::kBetter;
    if (now.finding != before.finding) {
      return now.finding == Finding::kSameBits ? Change::kBetter : Change::kWorse;
    }
    return shows_less(before, now) ? Change::kWorse : Change::kSame;
  }
  if (is_right(before.finding)) return Change::kWorse;
  if (!is_bad(now.finding)) return is_bad(before.finding) ? Change::kBetter : Change::kSame;
  return is_as_bad(before, now) ? Change::kSame : Change::kWorse;
}

// "misread (rope_base), 2.3e-01 from float64".
std::string words_of(const TableCell& cell, const EngineTable& table) {
  std::string text(finding_name(cell.finding));
  if (!cell.cause.empty()) text += fmt::format(" ({})", cell.cause);
  return cell.error ? text + ", " + table.distance_text(*cell.error) : text;
}

const TablePart::Column& column_for(const TablePart& baseline, const std::string& engine) {
  const auto is_it = [&](const TablePart::Column& each) { return each.engine.name == engine; };
  const auto found = std::ranges::find_if(baseline.columns, is_it);
  if (found == baseline.columns.end()) {
    throw Error(fmt::format("does not have {}", printable(engine, 60)), baseline.path,
                "give what --format baseline wrote of this engine");
  }
  if (std::find_if(found + 1, baseline.columns.end(), is_it) != baseline.columns.end()) {
    throw Error(fmt::format("has {} in two versions", printable(engine, 60)), baseline.path,
                "give a run of one");
  }
  return *found;
}

}  // namespace

void hold_to(const TablePart& baseline, EngineTable& table) {
  table.baseline = baseline.path;
  for (TableColumn& column : table.columns) {
    const TablePart::Column& earlier = column_for(baseline, column.engine.name);
    std::map<std::string_view, size_t> places;
    for (size_t i = 0; i < earlier.rows.size(); ++i) {
      if (places.emplace(earlier.rows[i].name, i).second) continue;
      throw Error(fmt::format("has '{}' of {} twice", printable(earlier.rows[i].name, 60),
                              printable(column.engine.name, 60)),
                  baseline.path, "give what --format baseline wrote");
    }
    for (size_t i = 0; i < table.rows.size(); ++i) {
      TableCell& cell = column.cells[i];
      const auto place = places.find(table.rows[i].name);
      if (place == places.end() || earlier.rows[place->second].digest != table.rows[i].digest) {
        cell.change = Change::kNew;
        cell.before = place == places.end() ? "not there" : "of another version of the case";
        continue;
      }
      const TableCell& before = earlier.cells[place->second];
      cell.change = change_since(before, cell);
      cell.before = words_of(before, table);
    }
  }
}

}  // namespace assay
