#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace assay {

// The character at the start of a text that may be hostile.
struct Character {
  size_t bytes = 1;   // of it; 1 where no well-formed UTF-8 begins
  char32_t code = 0;  // 0 where no well-formed UTF-8 begins, too
  // Displayed, without other effects: not a control character, not invalid UTF-8, and none that
  // changes the direction of text, joins lines or is invisible.
  bool visible = false;
};

// `text` must not be empty.
Character first_character(std::string_view text);

// Appends the bytes of `character`, at the start of `text`, as \xNN.
void append_escaped(std::string& out, std::string_view text, const Character& character);

// `text` with invisible characters as \xNN, except the ASCII characters of `allowed`; at most
// `max_bytes` of it. Makes generated text safe for a terminal ("\n\t" allowed).
std::string visible_text(std::string_view text, std::string_view allowed = {},
                         size_t max_bytes = std::string_view::npos);

}  // namespace assay
