#pragma once

#include <concepts>
#include <cstdint>
#include <ranges>
#include <span>
#include <string>
#include <string_view>

namespace assay {

// Appends `text` as a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD, so that
// the output is always valid; characters that a terminal would hide or execute become \uNNNN.
void append_json_string(std::string& out, std::string_view text);

// Appends the time of day, in UTC, as a string: "2026-11-21T22:50:08.123456Z".
void append_json_time(std::string& out);

// Appends a number in the shortest form that reads back to the same bits; NaN and infinities as the
// strings "NaN", "Infinity" and "-Infinity", since JSON has no numbers for them.
void append_json_number(std::string& out, float value);
void append_json_number(std::string& out, double value);
void append_json_number(std::string& out, int64_t value);
void append_json_number(std::string& out, uint64_t value);

// The same with a decimal point, "10000.0", so that readers tell it from a whole number; cut off
// after so many decimal places.
std::string json_decimal(double value, int most_places = 324);

// Appends [a,b,...] of such numbers; long ones of floats by several threads.
void append_json_array(std::string& out, std::span<const float> values);
void append_json_array(std::string& out, std::span<const double> values);

template <typename Range>
requires std::integral<std::ranges::range_value_t<Range>>
void append_json_array(std::string& out, const Range& numbers) {
  out += '[';
  bool first = true;
  for (const auto number : numbers) {
    if (!first) out += ',';
    first = false;
    append_json_number(out, number);
  }
  out += ']';
}

}  // namespace assay
