#include "assay/report/markdown.h"

#include <fmt/format.h>

#include <cctype>

#include "base/count_of.h"
#include "base/error.h"

namespace assay {
namespace {

bool is_plain(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0;
}

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

// Whether Markdown takes the character at `i` for what it is: it begins no list, heading, emphasis,
// entity, mention or address there.
bool means_itself(const std::string& text, size_t i) {
  const char c = text[i];
  const char before = i > 0 ? text[i - 1] : ' ';
  const char after = i + 1 < text.size() ? text[i + 1] : ' ';
  if (is_plain(c) || c == ' ' || static_cast<unsigned char>(c) >= 0x80) return true;
  if (i == 0) return false;
  switch (c) {
    case ',':
    case '(':
    case ')':
    case '%':
    case '=':
    case '+':
    case '\'':
      return true;
    case ':':
    case ';':
      return after == ' ';
    case '.':
      return after == ' ' || (is_digit(before) && is_digit(after));
    case '-':
      return is_plain(before) && is_plain(after);
    case '_':
      return is_plain(before) && is_plain(after);
    default:
      return false;
  }
}

}  // namespace

std::string markdown(std::string_view text, size_t max_bytes) {
  std::string out;
  const std::string shown = printable(text, max_bytes);
  for (size_t i = 0; i < shown.size(); ++i) {
    const char c = shown[i];
    if (means_itself(shown, i)) {
      out += c;
    } else {
      out += fmt::format("&#{};", static_cast<int>(c));
    }
  }
  return out;
}

void append_markdown_rows(size_t count, std::string_view one, size_t max_bytes, std::string& out,
                          const std::function<std::string(size_t)>& row) {
  constexpr size_t kTail = 200;  // for the last line
  size_t done = 0;
  for (; done < count; ++done) {
    const std::string line = row(done);
    if (out.size() + line.size() + kTail > max_bytes) break;
    out += line;
  }
  if (done < count) {
    out += fmt::format("\n{} {} not fit into the summary.\n",
                       count_of(count - done, fmt::format("more {}", one)),
                       plural(count - done == 1, "does", "do"));
  }
}

}  // namespace assay
