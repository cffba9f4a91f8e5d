#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace assay {

// `one` where `count` is 1, else `many`, or `one` with an s.
std::string plural(bool is_one, std::string_view one, std::string_view many = {});

// "1 record", "2 records".
template <std::integral Count>
std::string count_of(Count count, std::string_view one, std::string_view many = {}) {
  return std::to_string(count) + " " + plural(count == 1, one, many);
}

}  // namespace assay
