#include "assay/log/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "base/utf8.h"

// Numbers as text, which both writers of logs share.
#define ASSAY_TAP_IMPLEMENTATION
#define ASSAY_TAP_STATIC
#define ASSAY_TAP_WITHOUT_LOG
#include "tap/assay_tap.h"

namespace assay {

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
  char text[ASSAY_TAP_NUMBER_SIZE];
  out.append(text, assay_tap_print_float(text, value));
}
void append_json_number(std::string& out, double value) {
  char text[ASSAY_TAP_NUMBER_SIZE];
  out.append(text, assay_tap_print_double(text, value));
}
void append_json_number(std::string& out, int64_t value) {
  char text[24];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  out.append(text, static_cast<size_t>(end - text));
}

void append_json_array(std::string& out, std::span<const float> values) {
  constexpr size_t kBlock = 256;
  char text[17 * kBlock + 64];
  size_t bracket = 0;  // only the first block's is kept, and only the last one's at its end
  for (;;) {
    const size_t count = std::min(values.size(), kBlock);
    const char* end = assay_tap_write_floats(text, values.data(), count);
    out.append(text + bracket, static_cast<size_t>(end - text) - bracket);
    values = values.subspan(count);
    if (values.empty()) return;
    out.back() = ',';
    bracket = 1;
  }
}

}  // namespace assay
