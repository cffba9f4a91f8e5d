#include "engine/tokenizer/byte_unicode.h"

#include <unordered_map>

#include "base/utf8.h"

namespace assay {
namespace {

bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

std::array<std::string, 256> make_letters() {
  std::array<std::string, 256> letters;
  unsigned next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const unsigned code = stands_for_itself(byte) ? byte : next++;
    std::string& letter = letters[byte];
    if (code < 0x80) {
      letter = static_cast<char>(code);
    } else {
      letter += static_cast<char>(0xC0 | code >> 6);
      letter += static_cast<char>(0x80 | (code & 0x3F));
    }
  }
  return letters;
}

}  // namespace

const std::array<std::string, 256>& byte_letters() {
  static const std::array<std::string, 256> letters = make_letters();
  return letters;
}

std::string letters_of_bytes(std::string_view bytes) {
  std::string letters;
  for (const char c : bytes) letters += byte_letters()[static_cast<uint8_t>(c)];
  return letters;
}

std::string bytes_of_letters(std::string_view letters) {
  static const auto bytes_by_letter = [] {
    std::unordered_map<std::string_view, char> map;
    for (size_t byte = 0; byte < 256; ++byte) {
      map.emplace(byte_letters()[byte], static_cast<char>(byte));
    }
    return map;
  }();
  std::string bytes;
  while (!letters.empty()) {
    const std::string_view letter = letters.substr(0, next_utf8(letters).length);
    const auto found = bytes_by_letter.find(letter);
    if (found != bytes_by_letter.end()) {
      bytes += found->second;
    } else {
      bytes += letter;
    }
    letters.remove_prefix(letter.size());
  }
  return bytes;
}

}  // namespace assay
