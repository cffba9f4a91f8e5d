#include "base/shell.h"

#include <string_view>

#include "base/character.h"
#include "base/error.h"

namespace assay {

std::string shell_quoted(const std::string& argument) {
  const bool plain = !argument.empty() && argument.find_first_not_of(
                                              "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                              "0123456789_-./:=,+@%") == std::string::npos;
  if (plain) return argument;
  // Invisible characters, as bash writes them: $'\x1b'.
  const bool visible = printable(argument, argument.size()) == argument;
  std::string quoted = visible ? "'" : "$'";
  for (std::string_view rest = argument; !rest.empty();) {
    const Character character = first_character(rest);
    const std::string_view bytes = rest.substr(0, character.bytes);
    const bool command = bytes == "[" && quoted.ends_with("##");  // as in printable()
    if (!visible && (!character.visible || command)) {
      append_escaped(quoted, rest, character);
    } else if (bytes == "'") {
      quoted += visible ? "'\\''" : "\\'";
    } else if (bytes == "\\" && !visible) {
      quoted += "\\\\";
    } else {
      quoted += bytes;
    }
    rest.remove_prefix(character.bytes);
  }
  return quoted + "'";
}

}  // namespace assay
