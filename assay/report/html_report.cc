#include "assay/report/html_report.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <string>
#include <string_view>

#include "assay/report/failure_text.h"
#include "assay/report/html_data.h"
#include "assay/report/table_report.h"
#include "assay/report/xml_text.h"

namespace assay {

// The files of page/, embedded by CMake.
extern const std::string_view kPageTemplate;
extern const std::string_view kPageStyle;
extern const std::string_view kPageScript;

namespace {

constexpr int kTextWidth = 100;

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
std::string policy() {
  return fmt::format(
      "default-src 'none'; script-src {}; style-src {}; base-uri 'none'; form-action 'none'",
      policy_hash(kPageScript), policy_hash(kPageStyle));
}

}  // namespace

void write_html(const Comparison& comparison, const ReportContext& context, const TextSink& sink) {
  std::string_view rest = kPageTemplate;
  for (size_t open = rest.find("{{"); open != std::string_view::npos; open = rest.find("{{")) {
    const size_t close = rest.find("}}", open);
    const std::string_view name = rest.substr(open + 2, close - open - 2);
    sink(rest.substr(0, open));
    rest.remove_prefix(close + 2);
    if (name == "POLICY") sink(policy());
    if (name == "TITLE") {
      sink(xml_text(fmt::format("{}: {}", outcome_name(comparison), comparison.got_path)));
    }
    if (name == "STYLE") sink(kPageStyle);
    if (name == "SCRIPT") sink(kPageScript);
    if (name == "DATA") write_html_data(comparison, context, sink);
    if (name == "TEXT") {
      write_table(comparison, context.command, {kTextWidth, false},
                  [&](std::string_view text) { sink(xml_text(text)); });
    }
  }
  sink(rest);
}

}  // namespace assay
