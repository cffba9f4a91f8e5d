#include "assay/mistakes/number_text.h"

#include <fmt/format.h>

namespace assay::mistakes {

std::string number_unlike(double value, double other, int digits) {
  constexpr int kMost = 9;  // of a float, all that it can tell
  const auto text = [&](double number) { return fmt::format("{:.{}g}", number, digits); };
  while (digits < kMost && value != other && text(value) == text(other)) ++digits;
  return text(value);
}

}  // namespace assay::mistakes
