#include "assay/report/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace assay {
namespace {

constexpr size_t kGap = 2;  // before each column

// Columns on a terminal of UTF-8 text: one a code point.
size_t columns(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

size_t width_of(const std::vector<size_t>& widths) {
  return std::accumulate(widths.begin(), widths.end(), kGap * widths.size());
}

}  // namespace

std::string colored(std::string_view text, Color color, const TextStyle& style) {
  static constexpr std::string_view kCodes[] = {"", "32", "31", "33", "2"};
  if (!style.color || color == Color::kNone) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", kCodes[static_cast<size_t>(color)], text);
}

std::string short_number(double value) {
  return fmt::format("{:.3g}", value);
}
std::string short_number(const std::optional<double>& value) {
  return value ? short_number(*value) : "-";
}

void TextTable::add(std::vector<std::string> cells, Color color) {
  rows_.push_back({std::move(cells), color});
}

std::vector<size_t> TextTable::widths() const {
  std::vector<size_t> widths(rows_[0].cells.size(), 0);
  for (const Row& row : rows_) {
    for (size_t i = 0; i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], columns(row.cells[i]));
    }
  }
  return widths;
}

bool TextTable::fits(const TextStyle& style) const {
  return width_of(widths()) <= static_cast<size_t>(style.width);
}

std::string TextTable::text(const TextStyle& style) const {
  const std::vector<size_t> widths = this->widths();
  std::vector<bool> shown(widths.size(), true);
  size_t total = width_of(widths);
  std::string left_out;
  for (size_t i = widths.size() - 1; i-- > keys_ && total > static_cast<size_t>(style.width);) {
    shown[i] = false;
    total -= widths[i] + kGap;
    left_out.insert(0, rows_[0].cells[i] + (left_out.empty() ? "" : ", "));
  }
  std::string out;
  for (const Row& row : rows_) {
    std::string line;
    for (size_t i = 0; i < widths.size(); ++i) {
      if (!shown[i]) continue;
      const std::string space(widths[i] - columns(row.cells[i]), ' ');
      line.append(kGap, ' ');
      line += i == 0 ? row.cells[i] + space : space + row.cells[i];
    }
    out += colored(line, row.color, style) + "\n";
  }
  if (!left_out.empty()) {
    const std::string note = fmt::format("  too narrow here for: {}", left_out);
    out += colored(note, Color::kDim, style) + "\n";
  }
  return out;
}

}  // namespace assay
