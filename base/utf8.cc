#include "base/utf8.h"

#include <cstdint>

namespace assay {

Utf8Unit next_utf8(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {Utf8Kind::kWhole, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Utf8Kind::kInvalid, 1};
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  // The second byte carries the limits that rule out overlong forms, surrogates and what lies
  // beyond U+10FFFF (table 3-7 of the standard).
  const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {Utf8Kind::kPartial, i};
    const bool fits = i == 1 ? byte(i) >= low && byte(i) <= high : (byte(i) & 0xC0) == 0x80;
    if (!fits) return {Utf8Kind::kInvalid, i};
  }
  return {Utf8Kind::kWhole, length};
}

size_t utf8_length(std::string_view text) {
  const Utf8Unit unit = next_utf8(text);
  return unit.kind == Utf8Kind::kWhole ? unit.length : 0;
}

}  // namespace assay
