#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace assay {

// The error type for everything that input may cause. The libraries throw it and never print, abort
// or exit; the program prints what() as one line and exits with code 2.
class Error : public std::runtime_error {
 public:
  // `what`: what is wrong. `where`: the file, and the line, key or tensor in it ("m.gguf: tensor
  // 'output.weight'"). `hint`: what the user can do. what() is "where: what; hint", with bytes that
  // a terminal must not see (control characters, as hostile files hold them) escaped.
  explicit Error(const std::string& what, const std::string& where = {},
                 const std::string& hint = {});
};

// `text` as safe for one line of a message: invalid UTF-8, invisible characters, and those that
// control a terminal, the direction of text or a CI runner as \xNN; at most `max_bytes` of it.
std::string printable(std::string_view text, size_t max_bytes = 200);

}  // namespace assay
