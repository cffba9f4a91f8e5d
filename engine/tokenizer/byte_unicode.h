#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace assay {

// Byte-pair vocabularies (GPT-2's and all that follow it) write each byte as one printable
// character: those of Latin-1 that can be seen stand for themselves, the other 68 are U+0100 on.
const std::array<std::string, 256>& byte_letters();

// Bytes as letters: "a b" becomes "aĠb".
std::string letters_of_bytes(std::string_view bytes);

// The way back. Characters that stand for no byte are kept as they are.
std::string bytes_of_letters(std::string_view letters);

}  // namespace assay
