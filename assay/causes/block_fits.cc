#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "assay/causes/fitted_mistakes.h"
#include "kernels/reference/dequantize.h"

namespace assay::causes {
namespace {

using Features = std::vector<std::vector<double>>;

constexpr double kInOneRow = 0.999;  // share of the difference that must be in one element
constexpr size_t kMinTokens = 4;

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
};

bool find_element(const Evidence& evidence, const Features& right, const Matrix& inputs,
                  const std::vector<int64_t>& positions, Element& element) {
  std::vector<double> squares(right[0].size(), 0.0);
  double all = 0;
  for (size_t t = 0; t < right.size(); ++t) {
    if (right[t].size() != squares.size()) return false;
    for (size_t i = 0; i < squares.size(); ++i) {
      const double d = evidence.tokens()[t].got[i] - right[t][i];
      squares[i] += d * d;
      all += d * d;
    }
  }
  element.index =
      static_cast<size_t>(std::max_element(squares.begin(), squares.end()) - squares.begin());
  if (!(squares[element.index] > kInOneRow * all)) return false;
  for (size_t t = 0; t < right.size(); ++t) {
    const auto place =
        std::find(positions.begin(), positions.end(), evidence.tokens()[t].token_idx);
    if (place == positions.end()) return false;
    element.off.push_back(evidence.tokens()[t].got[element.index] - right[t][element.index]);
    element.inputs.push_back(inputs.row(place - positions.begin()));
  }
  return element.off.size() >= kMinTokens;
}

void consider(const Element& element, std::string text, std::vector<double> direction, Line& best) {
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
  best = {std::move(text), factor, left, std::move(direction)};
}

// By a block times a factor, by a constant on a block, by one weight.
Line best_line(const Element& element, const std::vector<float>& row, int64_t block) {
  Line best;
  const auto columns = static_cast<int64_t>(row.size());
  const size_t tokens = element.off.size();
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
    }
    const std::string where = fmt::format("columns {} to {}", first, end - 1);
    consider(element, where + " by a factor", std::move(scaled), best);
    consider(element, where + " by a constant", std::move(moved), best);
  }
  for (int64_t c = 0; c < columns; ++c) {
    std::vector<double> single(tokens);
    for (size_t t = 0; t < tokens; ++t) single[t] = element.inputs[t][c];
    consider(element, fmt::format("the weight of column {}", c), std::move(single), best);
  }
  return best;
}

}  // namespace

std::vector<Fitted> fit_blocks(const Evidence& evidence, const Features& right,
                               const WeightMatrix& weight, const Matrix& inputs,
                               const std::vector<int64_t>& positions) {
  if (!evidence.has_all_values() || right.empty() || right[0].empty()) return {};
  Element element;
  if (!find_element(evidence, right, inputs, positions, element)) return {};
  if (static_cast<int64_t>(element.index) >= weight.rows) return {};
  std::vector<float> row(static_cast<size_t>(weight.columns));
  dequantize_row(weight.type, weight.slice(static_cast<int64_t>(element.index), 1).data,
                 weight.columns, row.data());
  const int64_t stored = tensor_type_info(weight.type).block_elements;
  const Line line = best_line(element, row, std::max<int64_t>(stored, 32));
  if (line.direction.empty()) return {};
  Fitted fitted{
      "quant_block",
      fmt::format("has one block of its weights off, in row {}: {}", element.index, line.text), 2,
      static_cast<int64_t>(element.off.size()), right};
  for (size_t t = 0; t < right.size(); ++t) {
    fitted.features[t][element.index] += line.factor * line.direction[t];
  }
  return {fitted};
}

}  // namespace assay::causes
