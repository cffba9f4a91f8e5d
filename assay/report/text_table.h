#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace assay {

enum class Color { kNone, kGood, kBad, kCaution, kDim };

// Where a table goes.
struct TextStyle {
  static constexpr int kNoLimit = std::numeric_limits<int>::max();
  int width = kNoLimit;  // columns
  bool color = false;    // ANSI escape sequences are understood
};

std::string colored(std::string_view text, Color color, const TextStyle& style);

// Three significant digits.
std::string short_number(double value);
// The same, "-" for what is not known.
std::string short_number(const std::optional<double>& value);

// Columns of text aligned for a terminal: the first kept left, the others right.
class TextTable {
 public:
  // `keys`: as many columns say what a row is about.
  explicit TextTable(std::vector<std::string> header, size_t keys = 1)
      : rows_{{std::move(header), Color::kDim}}, keys_(keys) {}

  void add(std::vector<std::string> cells, Color color = Color::kNone);

  // Columns that do not fit the width are left out, from the right, but never the keys and the last
  // one; a line below the table names them.
  std::string text(const TextStyle& style) const;

  // Whether all columns fit.
  bool fits(const TextStyle& style) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    Color color;
  };
  std::vector<size_t> widths() const;

  std::vector<Row> rows_;
  size_t keys_;
};

}  // namespace assay
