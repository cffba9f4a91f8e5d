#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// What llama.cpp writes before each tensor: since 2026, and earlier, as PyTorch's hooks do.
inline constexpr std::string_view kNewMarker = "common_debug_cb_eval:";
inline constexpr std::string_view kPrintedMarkers[] = {"ggml_debug:", kNewMarker};

std::string_view without_spaces(std::string_view text);
// How many digits of a number stand behind its point.
int decimals_of(std::string_view number);

struct NonfiniteCount {
  int64_t nan = 0;
  int64_t infinite = 0;

  int64_t total() const { return nan + infinite; }
  void add(double value);
  NonfiniteCount& operator+=(const NonfiniteCount& other);
};

// One vector along the first dimension: what is printed of it from its first element on.
struct PrintedRow {
  std::vector<float> values;
  bool is_whole = true;
  NonfiniteCount nonfinite;  // of all that is printed, the end of the row too
};

// Rows, or blocks of rows, of which the middle may not be printed.
template <typename Part>
struct Printed {
  std::vector<Part> parts;
  std::optional<size_t> before_gap;  // how many there are before "..."

  // Which of `count` the part is.
  int64_t index(size_t part, int64_t count) const {
    const auto at = static_cast<int64_t>(part);
    return !before_gap || part < *before_gap ? at : count - std::ssize(parts) + at;
  }
  // As many are printed at the end as at the beginning: else a line is lost, and all behind it
  // would be taken for those of other tokens.
  bool fits(int64_t count) const {
    if (parts.empty()) return false;
    if (!before_gap) return std::ssize(parts) == count;
    return parts.size() == 2 * *before_gap && std::ssize(parts) < count;
  }
};
using PrintedBlock = Printed<PrintedRow>;

struct PrintedTensor {
  std::string name;
  std::string type;
  std::string origin;              // the operation and what it is of
  std::array<int64_t, 4> ne = {};  // elements, the fastest dimension first
  bool is_module = false;          // of PyTorch
  bool sums_all = false;           // the sum is that of all elements, and not of the printed ones
  Printed<PrintedBlock> blocks;
  int64_t line = 0;
  bool is_closed = false;
  std::optional<double> sum;
  int sum_decimals = 0;
  // Of all values that are printed.
  int decimals = 0;
  double total = 0;
  double magnitudes = 0;
  double squares = 0;
  int64_t count = 0;
  bool is_whole = true;  // nothing is left out
  NonfiniteCount nonfinite;

  bool is_empty() const { return std::ranges::count(ne, 0) > 0; }
  // llama.cpp prints no values of block types, such as those of a quantised cache.
  bool prints_no_values() const;
  // Whether the decimals that are not printed may be too large a part of the values.
  bool is_rounded_away() const;
  // Whether the sum is of what is printed, and another one.
  bool contradicts_sum() const;
};

// "NAME = (f32) OP(SOURCES) = {256, 8, 1, 1}" or, of a module, "NAME = (f32)  ... =
// {torch.Size([1, 8, 256])}", behind a marker; a size may be 0. Nothing if the line is another one.
std::optional<PrintedTensor> printed_header_of(std::string_view line);

// Whether the line has a marker.
bool is_marked(std::string_view line);

// Adds a row, "[ 0.1, 0.2, 0.3, ..., 0.7, 0.8, 0.9 ],", to the last block of the tensor. Returns
// what is wrong with it, or nothing.
std::string add_printed_row(std::string_view text, PrintedTensor& tensor);

}  // namespace assay
