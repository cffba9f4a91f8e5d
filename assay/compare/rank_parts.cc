#include "assay/compare/rank_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "assay/log/sketch.h"
#include "base/error.h"

namespace assay {
namespace {

constexpr const char* kFitHint =
    "log parts whose other axes are equal, and dims that say which is cut";

std::vector<const RankPart*> pointers_to(const std::vector<RankPart>& parts) {
  std::vector<const RankPart*> pointers;
  for (const RankPart& part : parts) pointers.push_back(&part);
  return pointers;
}

// One of partial sums is not a number, or infinite, where it does not show it by its values.
void count_hidden(const Record& addend, Record& sum) {
  if (!addend.summary || addend.summary->nonfinite <= 0) return;
  if (!sum.summary) sum.summary = empty_summary();
  sum.summary->nonfinite = std::max(sum.summary->nonfinite, addend.summary->nonfinite);
  sum.summary->counts_nonfinite = true;
  const int64_t nan = std::max(sum.summary->nan.value_or(0), addend.summary->nan.value_or(0));
  if (addend.summary->nan) sum.summary->nan = nan;
}

// The sum of partial sums, in double.
Record add_up(const std::vector<const RankPart*>& addends) {
  const RankPart& first = *addends.front();
  Record sum = first.record;
  sum.summary.reset();
  size_t common = first.record.values.size();
  for (const RankPart* addend : addends) {
    if (addend->record.shape != first.record.shape || addend->record.n != first.record.n) {
      throw Error(fmt::format("a partial sum of shape [{}], but [{}] in {}",
                              fmt::join(addend->record.shape, ","),
                              fmt::join(first.record.shape, ","), first.where),
                  addend->where, kFitHint);
    }
    common = std::min(common, addend->record.values.size());
  }
  if (static_cast<int64_t>(common) < sum.n) {
    for (const RankPart* addend : addends) count_hidden(addend->record, sum);
  }
  std::vector<double> sums(common);
  Sketch sketch{};
  bool all_sketches = true;
  for (const RankPart* addend : addends) {
    for (size_t i = 0; i < common; ++i) sums[i] += static_cast<double>(addend->record.values[i]);
    all_sketches = all_sketches && addend->record.sketch.has_value();
    if (!all_sketches) continue;
    for (size_t k = 0; k < sketch.size(); ++k) sketch[k] += (*addend->record.sketch)[k];
  }
  sum.values.resize(common);
  std::ranges::transform(sums, sum.values.begin(), [](double x) { return static_cast<float>(x); });
  sum.sketch = all_sketches ? std::optional(sketch) : std::nullopt;
  sum.top.clear();
  return sum;
}

// The elements that each part lists, with their places in the whole, and what none that is not
// listed is above.
struct ListedElements {
  std::vector<TopValue> values;
  double most_unlisted = -std::numeric_limits<double>::infinity();
};

void add_listed(const std::vector<TopValue>& top, const Record& record, double most,
                const PartLayout& layout, size_t part, ListedElements& listed) {
  for (const TopValue& value : top) {
    if (value.index < 0 || value.index >= record.n) continue;
    listed.values.push_back({layout.whole_index(part, value.index), value.value});
  }
  if (static_cast<int64_t>(top.size()) >= record.n) return;
  if (!top.empty()) most = static_cast<double>(top.back().value);
  if (std::isnan(listed.most_unlisted)) return;  // nothing is known of the others
  listed.most_unlisted = most <= listed.most_unlisted ? listed.most_unlisted : most;
}

// Those that are the largest of the whole.
std::vector<TopValue> largest_of(ListedElements listed, size_t most) {
  std::erase_if(listed.values, [&](const TopValue& value) {
    return !(static_cast<double>(value.value) >= listed.most_unlisted) && !std::isnan(value.value);
  });
  std::stable_sort(listed.values.begin(), listed.values.end(),
                   [](const TopValue& a, const TopValue& b) {
                     return a.value != b.value ? a.value > b.value : a.index < b.index;
                   });
  if (listed.values.size() > most) listed.values.resize(most);
  return listed.values;
}

// The summary of the whole, if each piece has one.
std::optional<Summary> join_summaries(const std::vector<RankPart>& pieces,
                                      const PartLayout& layout) {
  Summary whole = empty_summary();
  whole.min = std::numeric_limits<double>::infinity();
  whole.max = -whole.min;
  double sum = 0;
  double squares = 0;
  int64_t finite = 0;
  bool counts_nan = true;
  ListedElements listed;
  int64_t nonfinite = 0;
  int64_t nan = 0;
  whole.counts_nonfinite = true;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Record& record = pieces[i].record;
    if (record.n == 0) continue;
    if (!record.summary) return std::nullopt;
    const Summary& summary = *record.summary;
    whole.counts_nonfinite = whole.counts_nonfinite && summary.counts_nonfinite;
    nonfinite += summary.nonfinite;
    nan += summary.nan.value_or(0);
    counts_nan = counts_nan && (summary.nan || summary.nonfinite == 0);
    if (summary.nonfinite >= record.n) continue;
    const int64_t count = record.n - summary.nonfinite;
    if (std::isnan(summary.min) || summary.min < whole.min) whole.min = summary.min;
    const bool argmax_known = summary.argmax >= 0 && summary.argmax < record.n;
    const int64_t argmax = argmax_known ? layout.whole_index(i, summary.argmax) : -1;
    if (std::isnan(summary.max) || summary.max > whole.max) {
      whole.max = summary.max;
      whole.argmax = std::isnan(summary.max) ? -1 : argmax;
    } else if (summary.max == whole.max) {
      whole.argmax = std::min(whole.argmax, argmax);  // -1: one of them is not known
    } else if (std::isnan(whole.max)) {
      whole.argmax = -1;
    }
    sum += summary.mean * static_cast<double>(count);
    squares += summary.l2 * summary.l2;
    finite += count;
    add_listed(summary.top, record, summary.max, layout, i, listed);
  }
  whole.nonfinite = nonfinite;
  if (nonfinite > 0 && counts_nan) whole.nan = nan;
  whole.mean = finite > 0 ? sum / static_cast<double>(finite) : std::nan("");
  whole.l2 = std::sqrt(squares);
  if (finite == 0) whole.min = whole.max = std::nan("");
  whole.top = largest_of(std::move(listed), kSummaryTop);
  return whole;
}

// The values of the whole, up to the first that is not logged.
void join_values(const std::vector<RankPart>& pieces, const PartLayout& layout, Record& whole) {
  whole.values.clear();
  layout.for_each_run([&](size_t part, int64_t begin, int64_t count) {
    const std::vector<float>& values = pieces[part].record.values;
    const int64_t held = std::clamp<int64_t>(std::ssize(values) - begin, 0, count);
    const auto from = values.begin() + std::min<int64_t>(begin, std::ssize(values));
    whole.values.insert(whole.values.end(), from, from + held);
    return held == count;
  });
}

// What a piece's values show that are not among those of the whole: values that are not finite.
void count_left_out(const std::vector<RankPart>& pieces, Record& whole) {
  if (whole.has_all_values()) return;
  const auto bad_in = [](const std::vector<float>& values) {
    return std::ranges::count_if(values, [](float value) { return !std::isfinite(value); });
  };
  int64_t bad = 0;
  for (const RankPart& piece : pieces) {
    const int64_t stated = piece.record.summary ? piece.record.summary->nonfinite : 0;
    bad += std::max<int64_t>(stated, bad_in(piece.record.values));
  }
  if (bad <= bad_in(whole.values)) return;
  if (!whole.summary) whole.summary = empty_summary();
  whole.summary->nonfinite = std::max(whole.summary->nonfinite, bad);
  whole.summary->counts_nonfinite = true;
}

}  // namespace

void place_part(const Dims& dims, const Rank& sizes, RankPart& part) {
  const auto number_of = [&](const std::vector<RankAxis>& ranks) {
    int64_t number = 0;
    for (const RankAxis axis : ranks) {
      number = number * along(sizes, axis) + along(part.rank, axis);
    }
    return number;
  };
  part.piece.clear();
  for (const Dims::Axis& axis : dims.axes) part.piece.push_back(number_of(axis.cut));
  part.addend = number_of(dims.partial);
}

PartLayout::PartLayout(std::span<const RankPart* const> parts) {
  const RankPart& first = *parts.front();
  const size_t n_axes = first.piece.size();
  extents_.resize(n_axes);
  size_t places = 1;
  for (size_t axis = 0; axis < n_axes; ++axis) {
    int64_t count = 0;
    for (const RankPart* part : parts) count = std::max(count, part->piece[axis] + 1);
    extents_[axis].assign(static_cast<size_t>(count), {0, -1});
    places *= static_cast<size_t>(count);
  }
  part_at_.assign(places, 0);
  for (size_t i = 0; i < parts.size(); ++i) {
    const RankPart& part = *parts[i];
    size_t place = 0;
    for (size_t axis = 0; axis < n_axes; ++axis) {
      const auto piece = static_cast<size_t>(part.piece[axis]);
      const int64_t size = part.record.shape[axis];
      Extent& extent = extents_[axis][piece];
      if (extent.size >= 0 && extent.size != size) {
        throw Error(fmt::format("a part of shape [{}], which does not fit [{}] in {}",
                                fmt::join(part.record.shape, ","),
                                fmt::join(first.record.shape, ","), first.where),
                    part.where, kFitHint);
      }
      extent.size = size;
      place = place * extents_[axis].size() + piece;
    }
    part_at_[place] = i;
    pieces_.push_back(part.piece);
  }
  for (std::vector<Extent>& axis : extents_) {
    int64_t begin = 0;
    for (Extent& extent : axis) {
      extent.begin = begin;
      if (__builtin_add_overflow(begin, extent.size, &begin)) begin = -1;
    }
    shape_.push_back(begin);
  }
  n_ = element_count(shape_);
  if (n_ < 0) throw Error("the parts together have more elements than can be counted", first.where);
}

void PartLayout::for_each_run(const Visit& visit) const {
  if (n_ == 0) return;
  // Axes after the last that is cut are one run.
  size_t last = extents_.size();
  int64_t inner = 1;
  while (last > 0 && extents_[last - 1].size() == 1) inner *= shape_[--last];
  if (last == 0) {
    visit(0, 0, n_);
    return;
  }
  const size_t run_axis = last - 1;
  const auto piece_at = [&](size_t axis, int64_t index) {
    const auto ends_after = [&](const Extent& extent) {
      return extent.begin + extent.size > index;
    };
    const std::vector<Extent>& all = extents_[axis];
    return static_cast<size_t>(std::ranges::find_if(all, ends_after) - all.begin());
  };
  std::vector<int64_t> at(run_axis, 0);  // along each axis before the run's, in the whole
  while (true) {
    for (size_t of_run = 0; of_run < extents_[run_axis].size(); ++of_run) {
      size_t place = 0;
      int64_t row = 0;
      for (size_t axis = 0; axis < run_axis; ++axis) {
        const size_t piece = piece_at(axis, at[axis]);
        const Extent& extent = extents_[axis][piece];
        place = place * extents_[axis].size() + piece;
        row = row * extent.size + at[axis] - extent.begin;
      }
      place = place * extents_[run_axis].size() + of_run;
      const int64_t count = extents_[run_axis][of_run].size * inner;
      if (count > 0 && !visit(part_at_[place], row * count, count)) return;
    }
    size_t axis = run_axis;
    while (axis > 0 && ++at[axis - 1] == shape_[axis - 1]) at[--axis] = 0;
    if (axis == 0) return;
  }
}

int64_t PartLayout::whole_index(size_t part, int64_t index) const {
  const std::vector<int64_t>& piece = pieces_[part];
  int64_t whole = 0;
  int64_t stride = 1;
  for (size_t axis = extents_.size(); axis-- > 0;) {
    const Extent& extent = extents_[axis][static_cast<size_t>(piece[axis])];
    whole += (extent.begin + index % extent.size) * stride;
    index /= extent.size;
    stride *= shape_[axis];
  }
  return whole;
}

std::vector<RankPart> pieces_of(const std::vector<RankPart>& parts) {
  std::map<std::vector<int64_t>, std::vector<const RankPart*>> addends;
  for (const RankPart& part : parts) {
    if (part.replica_of < 0) addends[part.piece].push_back(&part);
  }
  std::vector<RankPart> pieces;
  for (auto& [piece, of_piece] : addends) {
    RankPart joined{.record = {}, .rank = of_piece.front()->rank, .where = of_piece.front()->where};
    joined.piece = piece;
    joined.record = of_piece.size() == 1 ? of_piece.front()->record : add_up(of_piece);
    pieces.push_back(std::move(joined));
  }
  return pieces;
}

Record put_together(const std::vector<RankPart>& parts) {
  std::vector<RankPart> pieces = pieces_of(parts);
  if (pieces.size() == 1) return std::move(pieces.front().record);
  const PartLayout layout(pointers_to(pieces));
  Record whole = pieces.front().record;
  whole.shape = layout.shape();
  whole.n = layout.n();
  whole.sketch.reset();
  whole.summary.reset();
  whole.top.clear();
  join_values(pieces, layout, whole);
  if (!whole.has_all_values()) whole.summary = join_summaries(pieces, layout);
  count_left_out(pieces, whole);
  ListedElements listed;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Record& record = pieces[i].record;
    if (record.n > 0) add_listed(record.top, record, std::nan(""), layout, i, listed);
  }
  if (!listed.values.empty()) whole.top = largest_of(std::move(listed), listed.values.size());
  return whole;
}

}  // namespace assay
