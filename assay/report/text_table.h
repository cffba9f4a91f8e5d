#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

enum class Color { kNone, kGood, kBad, kCaution, kDim };

// Where a table goes.
struct TextStyle {
  int width = 100;     // columns
  bool color = false;  // ANSI escape sequences are understood
};

std::string colored(std::string_view text, Color color, const TextStyle& style);

// Three significant digits.
std::string short_number(double value);
// The same, "-" for what is not known.
std::string short_number(const std::optional<double>& value);

// Columns of text aligned for a terminal: the first kept left, the others right.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) : rows_{{std::move(header), Color::kDim}} {}

  void add(std::vector<std::string> cells, Color color = Color::kNone);

  // Columns that do not fit the width are left out, from the right, but never the last one.
  std::string text(const TextStyle& style) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    Color color;
  };
  std::vector<Row> rows_;
};

}  // namespace assay
