#include "base/error.h"

#include "base/character.h"

namespace assay {
namespace {

std::string compose(const std::string& what, const std::string& where, const std::string& hint) {
  std::string line;
  if (!where.empty()) line = where + ": ";
  line += what;
  if (!hint.empty()) line += "; " + hint;
  return printable(line, 4096);
}

}  // namespace

Error::Error(const std::string& what, const std::string& where, const std::string& hint)
    : std::runtime_error(compose(what, where, hint)) {}

std::string printable(std::string_view text, size_t max_bytes) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= max_bytes) return out + "...";
    const Character character = first_character(text);
    if (character.visible) {
      out += text.substr(0, character.bytes);
    } else {
      append_escaped(out, text, character);
    }
    text.remove_prefix(character.bytes);
  }
  return out;
}

}  // namespace assay
