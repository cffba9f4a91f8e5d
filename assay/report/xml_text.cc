#include "assay/report/xml_text.h"

#include "base/character.h"
#include "base/error.h"

namespace assay {

std::string xml_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Character character = first_character(text);
    switch (character.code) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '\n':
        out += '\n';
        break;
      default:
        if (character.visible) {
          out += text.substr(0, character.bytes);
        } else {
          append_escaped(out, text, character);
        }
    }
    text.remove_prefix(character.bytes);
  }
  return out;
}

std::string xml_attribute(std::string_view text) {
  constexpr size_t kMostPerByte = 4;
  return xml_text(printable(text, kMostPerByte * text.size()));
}

}  // namespace assay
