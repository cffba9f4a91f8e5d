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

}  // namespace

std::string markdown(std::string_view text, size_t max_bytes) {
  std::string out;
  const std::string shown = printable(text, max_bytes);
  for (size_t i = 0; i < shown.size(); ++i) {
    const char c = shown[i];
    const bool inner = i > 0 && i + 1 < shown.size() && is_plain(shown[i - 1]) &&
                       is_plain(shown[i + 1]) && (c == '_' || c == '-');
    if (is_plain(c) || c == ' ' || inner || static_cast<unsigned char>(c) >= 0x80) {
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
