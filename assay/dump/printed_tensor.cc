#include "assay/dump/printed_tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/count_of.h"

namespace assay {
namespace {

// Half of the built-in tolerance: an error that printing alone makes must not look like one.
constexpr double kMostRounding = 0.005;
constexpr std::string_view kPrintedTypes[] = {"f32", "f16", "bf16", "f64",
                                              "i64", "i32", "i16",  "i8"};

}  // namespace

std::string_view without_spaces(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

int decimals_of(std::string_view number) {
  const size_t point = number.find('.');
  return point == std::string_view::npos ? 0 : static_cast<int>(number.size() - point - 1);
}

void NonfiniteCount::add(double value) {
  if (std::isnan(value)) ++nan;
  if (std::isinf(value)) ++infinite;
}

NonfiniteCount& NonfiniteCount::operator+=(const NonfiniteCount& other) {
  nan += other.nan;
  infinite += other.infinite;
  return *this;
}

bool PrintedTensor::prints_no_values() const {
  return !is_module && std::ranges::find(kPrintedTypes, type) == std::end(kPrintedTypes);
}

bool PrintedTensor::is_rounded_away() const {
  if (type.starts_with("i") || count == 0) return false;
  const double rms = std::sqrt(squares / static_cast<double>(count));
  return !(0.5 * std::pow(10.0, -decimals) <= kMostRounding * rms) && !std::isnan(rms);
}

// llama.cpp sums in 32 bits, one element after the other.
bool PrintedTensor::contradicts_sum() const {
  const bool is_of_printed = !is_module && ne[3] == 1 && (is_whole || !sums_all);
  if (!sum || !is_of_printed || nonfinite.total() > 0) return false;
  const double rounding = 0.5 * std::pow(10.0, -decimals);
  const double of_sum = std::numeric_limits<float>::epsilon() * magnitudes;
  const double of_printing = std::pow(10.0, -sum_decimals);
  const double most = static_cast<double>(count) * (rounding + of_sum) + of_printing;
  return !(std::abs(*sum - total) <= most);
}

bool is_marked(std::string_view line) {
  return std::ranges::any_of(kPrintedMarkers, [&](std::string_view marker) {
    return line.find(marker) != std::string_view::npos;
  });
}

std::optional<PrintedTensor> printed_header_of(std::string_view line) {
  size_t from = std::string_view::npos;
  bool sums_all = false;
  for (const std::string_view marker : kPrintedMarkers) {
    const size_t found = line.find(marker);
    if (found == std::string_view::npos) continue;
    from = found + marker.size();
    sums_all = marker == kNewMarker;
  }
  if (from == std::string_view::npos) return std::nullopt;
  line = without_spaces(line.substr(from));
  const size_t type = line.find(" = (");
  const size_t sizes = line.rfind(" = {");
  if (type == std::string_view::npos || sizes == std::string_view::npos || sizes <= type) {
    return std::nullopt;
  }
  PrintedTensor tensor;
  tensor.sums_all = sums_all;
  tensor.name = without_spaces(line.substr(0, type));
  const size_t end_of_type = line.find(')', type);
  if (end_of_type >= sizes) return std::nullopt;
  tensor.type = line.substr(type + 4, end_of_type - type - 4);
  tensor.origin = without_spaces(line.substr(end_of_type + 1, sizes - end_of_type - 1));
  std::vector<int64_t> numbers;
  for (size_t at = sizes; at < line.size();) {
    if (line[at] < '0' || line[at] > '9') {
      ++at;
      continue;
    }
    int64_t number = 0;
    const auto read = std::from_chars(line.data() + at, line.data() + line.size(), number);
    if (read.ec != std::errc() || number < 0 || number > INT32_MAX) return std::nullopt;
    numbers.push_back(number);
    at = static_cast<size_t>(read.ptr - line.data());
  }
  tensor.is_module = line.find("torch.Size", sizes) != std::string_view::npos;
  if (!tensor.is_module) {
    if (numbers.size() != 4) return std::nullopt;
    std::copy(numbers.begin(), numbers.end(), tensor.ne.begin());
    return tensor;
  }
  // The first of a batch is printed, with the heads of a token in one row.
  if (numbers.size() == 4) {
    int64_t width = 0;
    if (__builtin_mul_overflow(numbers[2], numbers[3], &width)) return std::nullopt;
    tensor.ne = {width, numbers[1], 1, 1};
  } else if (numbers.size() == 2 || numbers.size() == 3) {
    tensor.ne = {numbers.back(), numbers[numbers.size() - 2], 1, 1};
  } else {
    return std::nullopt;
  }
  return tensor;
}

std::string add_printed_row(std::string_view text, PrintedTensor& tensor) {
  PrintedRow row;
  int64_t listed = 0;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '[' || c == ']' || c == ',' || c == ' ' || c == '\t') {
      ++at;
    } else if (text.substr(at).starts_with("...")) {
      if (!row.is_whole) return "'...' twice in a row";
      row.is_whole = false;
      at += 3;
    } else {
      double value = 0;
      const auto read = std::from_chars(text.data() + at, text.data() + text.size(), value);
      if (read.ec != std::errc()) return "a row holds what is no number";
      const auto end = static_cast<size_t>(read.ptr - text.data());
      tensor.decimals = std::max(tensor.decimals, decimals_of(text.substr(at, end - at)));
      tensor.total += value;
      tensor.magnitudes += std::abs(value);
      tensor.squares += value * value;
      ++tensor.count;
      ++listed;
      row.nonfinite.add(value);
      if (row.is_whole) row.values.push_back(static_cast<float>(value));
      at = end;
    }
  }
  const auto before = std::ssize(row.values);
  if (!row.is_whole && listed != 2 * before) {
    return fmt::format("a row of {} before '...', and {} behind it", count_of(before, "number"),
                       listed - before);
  }
  if (row.is_whole ? listed != tensor.ne[0] : before > tensor.ne[0]) {
    return fmt::format("a row of {}, and {} expected", count_of(listed, "number"), tensor.ne[0]);
  }
  tensor.is_whole = tensor.is_whole && row.is_whole;
  tensor.nonfinite += row.nonfinite;
  tensor.blocks.parts.back().parts.push_back(std::move(row));
  return {};
}

}  // namespace assay
