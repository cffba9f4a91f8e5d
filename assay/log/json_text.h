#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace assay {

// Appends `text` as a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD, so that
// the output is always valid.
void append_json_string(std::string& out, std::string_view text);

// Appends a number in the shortest form that reads back to the same bits; what is not finite as the
// strings "NaN", "Infinity" and "-Infinity", since JSON has no number for it.
void append_json_number(std::string& out, float value);
void append_json_number(std::string& out, double value);
void append_json_number(std::string& out, int64_t value);

// Appends [a,b,...] of such numbers.
void append_json_array(std::string& out, std::span<const float> values);

}  // namespace assay
