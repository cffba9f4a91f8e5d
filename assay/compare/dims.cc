#include "assay/compare/dims.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace assay {
namespace {

constexpr const char* kDimsHint = R"(write the axes of the shape, as in "t h[tp]" or "+[tp] t h")";

[[noreturn]] void fail(std::string_view text, const std::string& what) {
  throw Error(fmt::format("'dims' is '{}': {}", printable(text, 60), what), "", kDimsHint);
}

// The names in "[tp,ep]".
std::vector<RankAxis> read_ranks(std::string_view text, std::string_view list) {
  std::vector<RankAxis> ranks;
  while (true) {
    const size_t end = std::min(list.find(','), list.size());
    const std::string_view name = list.substr(0, end);
    const auto* axis = std::ranges::find(kRankAxes, name, rank_axis_name);
    if (axis == std::end(kRankAxes)) {
      fail(text, fmt::format("'{}' is not one of tp, pp, ep, sp", printable(name, 20)));
    }
    ranks.push_back(*axis);
    if (end == list.size()) return ranks;
    list.remove_prefix(end + 1);
  }
}

}  // namespace

std::string rank_text(const Rank& rank, const Rank& sizes) {
  std::vector<std::string> parts;
  for (const RankAxis axis : kRankAxes) {
    if (along(sizes, axis) < 2) continue;
    parts.push_back(fmt::format("{} {}", rank_axis_name(axis), along(rank, axis)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<RankAxis> Dims::dividing() const {
  std::vector<RankAxis> all = partial;
  for (const Axis& axis : axes) all.insert(all.end(), axis.cut.begin(), axis.cut.end());
  return all;
}

bool Dims::is_whole() const {
  return partial.empty() &&
         std::ranges::all_of(axes, [](const Axis& axis) { return axis.cut.empty(); });
}

Dims parse_dims(std::string_view text, const std::vector<int64_t>& shape) {
  Dims dims;
  std::string_view rest = text;
  while (true) {
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    if (rest.empty()) break;
    const std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(word.size());
    const size_t open = std::min(word.find('['), word.size());
    const std::string_view name = word.substr(0, open);
    std::vector<RankAxis> ranks;
    if (open < word.size()) {
      if (!word.ends_with(']')) fail(text, "a '[' without its ']'");
      ranks = read_ranks(text, word.substr(open + 1, word.size() - open - 2));
    }
    if (name == "+" && !ranks.empty()) {
      dims.partial.insert(dims.partial.end(), ranks.begin(), ranks.end());
    } else if (name.empty() || name.find_first_of("+]") != std::string_view::npos) {
      fail(text, "an axis without a name");
    } else {
      dims.axes.push_back({std::string(name), std::move(ranks)});
    }
  }
  const auto unnamed = std::ssize(shape) - std::ssize(dims.axes);
  const bool fits = unnamed >= 0 && std::all_of(shape.begin(), shape.begin() + unnamed,
                                                [](int64_t size) { return size == 1; });
  if (!fits) {
    fail(text, fmt::format("it names {} axes, but the shape is [{}]", dims.axes.size(),
                           fmt::join(shape, ",")));
  }
  std::vector<RankAxis> used = dims.dividing();
  std::sort(used.begin(), used.end());
  if (std::adjacent_find(used.begin(), used.end()) != used.end()) {
    fail(text, "it has an axis of ranks twice");
  }
  return dims;
}

}  // namespace assay
