#include "base/error.h"

#include "base/character.h"

namespace assay {
namespace {

std::string compose(const std::string& what, const std::string& where, const std::string& hint) {
  // A path may be longer than a message should be, and must not displace the reason.
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
  std::string shown = visible_text(text, {}, max_bytes);
  // "##[" anywhere in a line is a command to GitHub's runners, and "::" where it begins.
  for (size_t at = 0; (at = shown.find("##[", at)) != std::string::npos;) {
    shown.replace(at + 2, 1, "\\x5b");
  }
  const size_t begin = shown.find_first_not_of(' ');
  if (begin != std::string::npos && shown.compare(begin, 2, "::") == 0) {
    shown.replace(begin, 1, "\\x3a");
  }
  return shown;
}

}  // namespace assay
