#include "assay/weights/off_columns.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace assay {
namespace {

constexpr int64_t kLargestBlock = 256;
// Times that the places of a period repeat in a row. Of fewer, all columns at one place may be
// those of a head, or the last ones, to which an honest quantiser moves what others lose.
constexpr int64_t kLeast = 4;
constexpr double kEnough = 8.0;  // of fewer repeats, as many times more is allowed

}  // namespace

std::optional<OffColumns> off_columns(std::span<const ColumnSquares> columns, double k) {
  const auto n = static_cast<int64_t>(columns.size());
  ColumnSquares all;
  for (const ColumnSquares& column : columns) all.add(column);
  const double mean = all.storing / static_cast<double>(n);
  // How many times as large as it had to be an error is, in squares. A column that happens to be
  // stored almost without one may have what the mean has.
  const auto times = [](double difference, double storing) {
    return storing > 0.0 ? difference / storing : 0.0;
  };
  std::optional<OffColumns> found;
  for (int64_t period = 2; period <= std::min(kLargestBlock, n / kLeast) && !found; period *= 2) {
    const int64_t repeats = n / period;
    const double most = k * std::max(1.0, kEnough / static_cast<double>(repeats));
    for (int64_t width = period / 2; width > 0 && !found; width /= 2) {
      for (int64_t first = 0; first < period; first += width) {
        ColumnSquares here;
        double least = INFINITY;
        for (int64_t i = first; i < n; i += i % width == width - 1 ? period - width + 1 : 1) {
          const ColumnSquares& column = columns[static_cast<size_t>(i)];
          here.add(column);
          least = std::min(least, times(column.difference, std::max(column.storing, mean)));
        }
        const double others = times(all.difference - here.difference, all.storing - here.storing);
        if (!(least > most * most * std::max(1.0, others))) continue;
        if (found) {
          found->is_one_of_several = true;
          continue;
        }
        found = OffColumns{first, first + width - 1, period, std::sqrt(here.difference / here.ref),
                           std::sqrt(here.storing / here.ref)};
      }
    }
  }
  return found;
}

ColumnSpread column_spread(std::span<const ColumnSquares> columns) {
  ColumnSquares all;
  for (const ColumnSquares& column : columns) all.add(column);
  const double factor = all.ref > 0.0 ? all.along / all.ref : 0.0;
  std::vector<double> times;
  for (const ColumnSquares& column : columns) {
    if (!(column.storing > 0.0)) continue;
    const double without_factor =
        column.difference - 2.0 * factor * column.along + factor * factor * column.ref;
    times.push_back(std::sqrt(std::max(0.0, without_factor) / column.storing));
  }
  if (times.empty()) return {};
  std::ranges::sort(times);
  return {times[times.size() / 10], times[times.size() * 9 / 10]};
}

}  // namespace assay
