#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "assay/causes/fitted_mistakes.h"
#include "kernels/reference/dequantize.h"

namespace assay::causes {
namespace {

using Features = std::vector<std::vector<double>>;

// Of the squares of the element that is off most, from which another one is off, too: what is less
// is noise, or left.
constexpr double kOff = 1e-3;
constexpr size_t kMaxElements = 64;  // that may be off, and no more than a share of all:
constexpr size_t kOfAll = 4;
constexpr size_t kMinTokens = 4;
constexpr size_t kRowsShown = 4;  // of the rows

// What one output element is off by, and what it was computed from, at each token.
struct Element {
  size_t index = 0;
  std::vector<double> off;
  std::vector<const float*> inputs;
};

// One cause of it: `off` is `factor` times `direction`.
struct Line {
  std::string text;
  double factor = 0;
  double left = 0;  // sum of squares
  std::vector<double> direction;
  bool is_lost = false;  // what it is about counts as zeros
};

// The elements that are off; none where they are too many to be those of single blocks.
std::vector<Element> find_elements(const Evidence& evidence, const Features& right,
                                   const Matrix& inputs, const std::vector<int64_t>& positions) {
  std::vector<const float*> rows;
  for (size_t t = 0; t < right.size(); ++t) {
    const auto place =
        std::find(positions.begin(), positions.end(), evidence.tokens()[t].token_idx);
    if (place == positions.end() || right[t].size() != right[0].size()) return {};
    rows.push_back(inputs.row(place - positions.begin()));
  }
  if (rows.size() < kMinTokens) return {};
  std::vector<Element> elements;
  double most = 0;
  for (size_t i = 0; i < right[0].size(); ++i) {
    Element& element = elements.emplace_back(Element{i, {}, rows});
    for (size_t t = 0; t < right.size(); ++t) {
      element.off.push_back(evidence.tokens()[t].got[i] - right[t][i]);
    }
    most = std::max(most, square_sum(element.off));
  }
  std::erase_if(elements, [&](const Element& one) { return !(square_sum(one.off) > kOff * most); });
  if (elements.size() > std::min(kMaxElements, right[0].size() / kOfAll)) return {};
  return elements;
}

// `by_factor`: of what the weights of a block give, which a factor of -1 takes away.
void consider(const Element& element, std::string text, bool by_factor,
              std::vector<double> direction, Line& best) {
  double product = 0;
  double square = 0;
  for (size_t t = 0; t < direction.size(); ++t) {
    product += direction[t] * element.off[t];
    square += direction[t] * direction[t];
  }
  if (!(square > 0)) return;
  const double factor = product / square;
  double left = 0;
  for (size_t t = 0; t < direction.size(); ++t) {
    const double rest = element.off[t] - factor * direction[t];
    left += rest * rest;
  }
  if (!best.direction.empty() && !(left < best.left)) return;
  constexpr double kNearlyAll = 1e-3;
  const bool is_lost = by_factor && std::abs(factor + 1) < kNearlyAll;
  if (by_factor && !is_lost) text += " by a factor";
  best = {std::move(text), factor, left, std::move(direction), is_lost};
}

// By a block times a factor, by a constant on a block, by one weight; or all of the row by a
// factor.
Line best_line(const Element& element, const std::vector<float>& row, int64_t block) {
  Line best;
  const auto columns = static_cast<int64_t>(row.size());
  const size_t tokens = element.off.size();
  std::vector<double> whole(tokens, 0.0);
  for (int64_t first = 0; first < columns; first += block) {
    std::vector<double> scaled(tokens, 0.0);
    std::vector<double> moved(tokens, 0.0);
    const int64_t end = std::min(columns, first + block);
    for (size_t t = 0; t < tokens; ++t) {
      for (int64_t c = first; c < end; ++c) {
        const double x = element.inputs[t][c];
        scaled[t] += x * row[static_cast<size_t>(c)];
        moved[t] += x;
      }
      whole[t] += scaled[t];
    }
    const std::string where = fmt::format("columns {} to {}", first, end - 1);
    consider(element, where, true, std::move(scaled), best);
    consider(element, where + " by a constant", false, std::move(moved), best);
  }
  if (block < columns) consider(element, "all columns", true, std::move(whole), best);
  for (int64_t c = 0; c < columns; ++c) {
    std::vector<double> single(tokens);
    for (size_t t = 0; t < tokens; ++t) single[t] = element.inputs[t][c];
    consider(element, fmt::format("the weight of column {}", c), false, std::move(single), best);
  }
  return best;
}

// "has one block of its weights off, in row 5: columns 32 to 63 by a factor", or of several.
std::string in_words(const std::vector<Element>& elements, const std::vector<Line>& lines) {
  const bool are_lost = std::ranges::all_of(lines, &Line::is_lost);
  std::vector<std::string> rows;
  for (size_t i = 0; i < std::min(lines.size(), kRowsShown); ++i) {
    rows.push_back(fmt::format("row {}: {}", elements[i].index, lines[i].text));
  }
  if (lines.size() > kRowsShown) rows.emplace_back("...");
  const std::string what = are_lost ? "taken for zeros" : "off";
  return lines.size() == 1
             ? fmt::format("has one block of its weights {}, in {}", what, rows[0])
             : fmt::format("has blocks of its weights {}, one in each of {} rows, in {}", what,
                           lines.size(), fmt::join(rows, ", "));
}

}  // namespace

std::vector<Fitted> fit_blocks(const Evidence& evidence, const Features& right,
                               const WeightMatrix& weight, const Matrix& inputs,
                               const std::vector<int64_t>& positions) {
  if (!evidence.has_all_values() || right.empty() || right[0].empty()) return {};
  const std::vector<Element> elements = find_elements(evidence, right, inputs, positions);
  if (elements.empty() || static_cast<int64_t>(elements.back().index) >= weight.rows) return {};
  const int64_t stored = tensor_type_info(weight.type).block_elements;
  std::vector<float> row(static_cast<size_t>(weight.columns));
  std::vector<Line> lines;
  Fitted fitted{"quant_block", {}, 0, 0, right};
  for (const Element& element : elements) {
    dequantize_row(weight.type, weight.slice(static_cast<int64_t>(element.index), 1).data,
                   weight.columns, row.data());
    lines.push_back(best_line(element, row, std::max<int64_t>(stored, 32)));
    const Line& line = lines.back();
    if (line.direction.empty()) return {};
    fitted.parameters += 2;
    fitted.numbers += std::ssize(element.off);
    for (size_t t = 0; t < right.size(); ++t) {
      fitted.features[t][element.index] += line.factor * line.direction[t];
    }
  }
  fitted.text = in_words(elements, lines);
  return {fitted};
}

}  // namespace assay::causes
