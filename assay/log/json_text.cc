#include "assay/log/json_text.h"

#include <fmt/format.h>
#include <rapidjson/encodings.h>
#include <rapidjson/memorystream.h>

#include <charconv>
#include <cmath>
#include <iterator>

namespace assay {
namespace {

// Length of the well-formed UTF-8 sequence at the start of `text`, 0 if there is none.
size_t utf8_length(std::string_view text) {
  if (static_cast<unsigned char>(text[0]) < 0x80) return 1;
  rapidjson::MemoryStream stream(text.data(), text.size());
  unsigned code_point = 0;
  return rapidjson::UTF8<>::Decode(stream, &code_point) ? stream.Tell() : 0;
}

template <typename Number>
void append_shortest(std::string& out, Number value) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  out.append(text, static_cast<size_t>(end - text));
}

template <typename Float>
void append_float(std::string& out, Float value) {
  if (std::isnan(value)) {
    out += "\"NaN\"";
  } else if (std::isinf(value)) {
    out += value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  } else {
    append_shortest(out, value);
  }
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    const char lead = text[0];
    if (length == 0) {
      out += "\\ufffd";
    } else if (lead == '"' || lead == '\\') {
      out += '\\';
      out += lead;
    } else if (length == 1 && (static_cast<unsigned char>(lead) < 0x20 || lead == 0x7F)) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<int>(lead));
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out += '"';
}

void append_json_number(std::string& out, float value) {
  append_float(out, value);
}
void append_json_number(std::string& out, double value) {
  append_float(out, value);
}
void append_json_number(std::string& out, int64_t value) {
  append_shortest(out, value);
}

}  // namespace assay
