#include "base/error.h"

#include "base/character.h"

namespace assay {
namespace {

std::string compose(const std::string& what, const std::string& where, const std::string& hint) {
  std::string line;
  if (!where.empty()) line = where + ": ";
  line += what;
  if (!hint.empty()) line += "; " + hint;
  return printable(line, 4096);
}

}  // namespace

Error::Error(const std::string& what, const std::string& where, const std::string& hint)
    : std::runtime_error(compose(what, where, hint)) {}

std::string printable(std::string_view text, size_t max_bytes) {
  return visible_text(text, {}, max_bytes);
}

}  // namespace assay
