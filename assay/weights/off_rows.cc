#include "assay/weights/off_rows.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

namespace assay {
namespace {

// Of the honest quantisers that were tried (by importance, with error feedback, with another range)
// groups of so many blocks are at 1.35 times at most where the tensor is at 1.27.
constexpr double kBlocks = 64.0;

struct Group {
  int64_t first = 0;
  int64_t last = -1;
  RowSquares sums;

  void take(int64_t row, const RowSquares& squares) {
    first = last < 0 ? row : std::min(first, row);
    last = std::max(last, row);
    sums.difference += squares.difference;
    sums.storing += squares.storing;
    sums.of_storing += squares.of_storing;
    sums.ref += squares.ref;
  }

  // As many blocks of equal cost scatter as much as these, of which a few may cost most.
  bool is_whole() const { return sums.storing * sums.storing >= kBlocks * sums.of_storing; }
};

// All rows, in groups as small as they may be; the last one shares rows with the one before.
std::vector<Group> groups_of(std::span<const RowSquares> rows) {
  std::vector<Group> groups;
  Group group;
  for (size_t row = 0; row < rows.size(); ++row) {
    group.take(static_cast<int64_t>(row), rows[row]);
    if (!group.is_whole() || !(group.sums.storing > 0.0)) continue;
    groups.push_back(group);
    group = {};
  }
  if (groups.empty() || group.last < 0) return groups;
  while (!group.is_whole() && group.first > 0) {
    group.take(group.first - 1, rows[static_cast<size_t>(group.first - 1)]);
  }
  groups.push_back(group);
  return groups;
}

}  // namespace

std::optional<OffRows> off_rows(std::span<const RowSquares> rows, double k) {
  Group all;
  for (size_t row = 0; row < rows.size(); ++row) all.take(static_cast<int64_t>(row), rows[row]);
  const double most = k * k * all.sums.storing;
  const auto is_right = [&](int64_t row) {
    const RowSquares& squares = rows[static_cast<size_t>(row)];
    return squares.difference <= k * k * squares.storing;
  };
  // Of rows that happen to be stored almost without an error, the mean of all says what they may
  // have: as a difference, and as a share of what is there.
  const auto is_off = [&](const Group& group) {
    if (group.sums.difference <= k * k * group.sums.storing) return false;
    const double share =
        static_cast<double>(group.last - group.first + 1) / static_cast<double>(rows.size());
    return !(group.sums.difference <= most * share) ||
           !(group.sums.difference * all.sums.ref <= most * group.sums.ref);
  };
  std::optional<Group> first;
  bool are_more = false;
  for (const Group& group : groups_of(rows)) {
    if (!is_off(group)) continue;
    if (!first) {
      first = group;
    } else if (group.first > first->last + 1) {
      are_more = true;
    } else {
      for (int64_t row = first->last + 1; row <= group.last; ++row) {
        first->take(row, rows[static_cast<size_t>(row)]);
      }
    }
  }
  if (!first || first->last - first->first + 1 == static_cast<int64_t>(rows.size())) return {};
  // A group begins and ends where it happens to, so it may have right rows at both ends, or end
  // before the wrong ones do.
  int64_t begin = first->first;
  int64_t end = first->last + 1;
  while (begin > 0 && !is_right(begin - 1)) --begin;
  while (end < std::ssize(rows) && !is_right(end)) ++end;
  while (begin < end && is_right(begin)) ++begin;
  while (begin < end && is_right(end - 1)) --end;
  Group off;
  for (int64_t row = begin; row < end; ++row) off.take(row, rows[static_cast<size_t>(row)]);
  if (off.last < 0) off = *first;
  return OffRows{off.first, off.last, std::sqrt(off.sums.difference / off.sums.ref),
                 std::sqrt(off.sums.storing / off.sums.ref), are_more};
}

}  // namespace assay
