#include "base/error.h"

#include "base/character.h"

namespace assay {
namespace {

std::string compose(const std::string& what, const std::string& where, const std::string& hint) {
  // A path may be longer than a message should be, and must not push out what is wrong with it.
  constexpr size_t kMostOfEach = 4096;
  std::string line;
  if (!where.empty()) line = printable(where, kMostOfEach) + ": ";
  line += printable(what, kMostOfEach);
  if (!hint.empty()) line += "; " + printable(hint, kMostOfEach);
  return line;
}

}  // namespace

Error::Error(const std::string& what, const std::string& where, const std::string& hint)
    : std::runtime_error(compose(what, where, hint)) {}

std::string printable(std::string_view text, size_t max_bytes) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= max_bytes) return out + "...";
    const Character character = first_character(text);
    // "##[" anywhere in a line is a command to GitHub's runners.
    const bool command = character.code == '[' && out.ends_with("##");
    if (character.visible && !command) {
      out += text.substr(0, character.bytes);
    } else {
      append_escaped(out, text, character);
    }
    text.remove_prefix(character.bytes);
  }
  return out;
}

}  // namespace assay
