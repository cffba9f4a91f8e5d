#pragma once

#include <cstddef>
#include <string_view>

namespace assay {

// What the bytes at the start of a text are.
enum class Utf8Kind {
  kWhole,    // one well-formed character
  kPartial,  // the text ends inside what can still become a character
  kInvalid,  // bytes that no well-formed character begins with
};

struct Utf8Unit {
  Utf8Kind kind;
  size_t length;  // bytes of the unit, at least 1
};

// The unit at the start of `text`, which must not be empty. Invalid units are the "maximal
// subparts" of the Unicode standard (chapter 3.9): each of them is one U+FFFD in a repaired text.
Utf8Unit next_utf8(std::string_view text);

// Length of the well-formed character at the start of `text`, which must not be empty; 0 if there
// is none.
size_t utf8_length(std::string_view text);

}  // namespace assay
