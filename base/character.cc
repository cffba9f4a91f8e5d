#include "base/character.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "base/utf8.h"

namespace assay {
namespace {

// Control characters and what Unicode calls format characters (general categories Cc, Cf, Zl, Zp),
// if they affect the text around them or are invisible; and the two that XML forbids.
bool is_visible(char32_t code) {
  struct Range {
    char32_t first;
    char32_t last;
  };
  static constexpr Range kUnseen[] = {
      {0x00, 0x1F},     {0x7F, 0x9F},     {0xAD, 0xAD},     {0x61C, 0x61C},
      {0x180E, 0x180E}, {0x200B, 0x200F}, {0x2028, 0x202E}, {0x2060, 0x206F},
      {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}, {0xFFFE, 0xFFFF}, {0xE0000, 0xE007F},
  };
  return std::none_of(std::begin(kUnseen), std::end(kUnseen), [&](const Range& range) {
    return code >= range.first && code <= range.last;
  });
}

}  // namespace

Character first_character(std::string_view text) {
  const size_t length = utf8_length(text);
  if (length == 0) return {};
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  char32_t code = length == 1 ? byte(0) : byte(0) & (0xFFU >> (length + 1));
  for (size_t i = 1; i < length; ++i) code = code << 6 | (byte(i) & 0x3FU);
  return {length, code, is_visible(code)};
}

void append_escaped(std::string& out, std::string_view text, const Character& character) {
  for (const char byte : text.substr(0, character.bytes)) {
    fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<uint8_t>(byte));
  }
}

std::string visible_text(std::string_view text, std::string_view allowed, size_t max_bytes) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= max_bytes) return out + "...";
    const Character character = first_character(text);
    if (character.visible || allowed.find(text[0]) != std::string_view::npos) {
      out += text.substr(0, character.bytes);
    } else {
      append_escaped(out, text, character);
    }
    text.remove_prefix(character.bytes);
  }
  return out;
}

}  // namespace assay
