#include "assay/report/html_page.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <iterator>

#include "assay/report/xml_text.h"
#include "base/character.h"

namespace assay {

// The files of page/, embedded by CMake.
extern const std::string_view kPageTemplate;
extern const std::string_view kPageStyle;

namespace {

// What a Content-Security-Policy calls the hash of an inline script or style.
std::string policy_hash(std::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int bytes = 0;
  EVP_Digest(text.data(), text.size(), digest, &bytes, EVP_sha256(), nullptr);
  unsigned char base64[EVP_MAX_MD_SIZE * 2];
  const int length = EVP_EncodeBlock(base64, digest, static_cast<int>(bytes));
  return "'sha256-" + std::string(base64, base64 + length) + "'";
}

// Nothing is loaded from anywhere, and no script runs but the page's own.
std::string policy(std::string_view script) {
  return fmt::format(
      "default-src 'none'; script-src {}; style-src {}; base-uri 'none'; form-action 'none'",
      policy_hash(script), policy_hash(kPageStyle));
}

// JSON in which every character that HTML or JavaScript could take for something is \uNNNN. Such
// characters stand in its strings only.
std::string script_safe(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  while (!json.empty()) {
    const Character character = first_character(json);
    const char32_t code = character.code;
    if (code < 0x80 && code != '<' && code != '>' && code != '&') {
      out += json[0];
    } else if (code > 0xFFFF) {
      const char32_t rest = code - 0x10000;
      fmt::format_to(std::back_inserter(out), "\\u{:04x}\\u{:04x}",
                     0xD800U + static_cast<unsigned>(rest >> 10),
                     0xDC00U + static_cast<unsigned>(rest & 0x3FF));
    } else {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(code));
    }
    json.remove_prefix(character.bytes);
  }
  return out;
}

}  // namespace

void write_page(const HtmlPage& page, const TextSink& sink) {
  std::string_view rest = kPageTemplate;
  for (size_t open = rest.find("{{"); open != std::string_view::npos; open = rest.find("{{")) {
    const size_t close = rest.find("}}", open);
    const std::string_view name = rest.substr(open + 2, close - open - 2);
    sink(rest.substr(0, open));
    rest.remove_prefix(close + 2);
    if (name == "POLICY") sink(policy(page.script));
    if (name == "TITLE") sink(xml_attribute(page.title));
    if (name == "STYLE") sink(kPageStyle);
    if (name == "SCRIPT") sink(page.script);
    if (name == "DATA") sink(script_safe(page.data));
    if (name == "KIND") sink(page.kind);
    if (name == "TEXT") {
      page.text([&](std::string_view text) { sink(xml_text(text)); });
    }
  }
  sink(rest);
}

}  // namespace assay
