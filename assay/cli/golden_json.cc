#include "assay/cli/golden_json.h"

#include "assay/report/json_object.h"

namespace assay {
namespace {

template <typename Range, typename Append>
void append_array(const Range& range, std::string& out, const Append& append) {
  out += '[';
  bool first = true;
  for (const auto& element : range) {
    if (!first) out += ',';
    first = false;
    append(element);
  }
  out += ']';
}

void append_texts(const std::vector<std::string>& texts, std::string& out) {
  append_array(texts, out, [&](const std::string& text) { append_json_string(out, text); });
}

void append_check(const GoldenCheck& check, std::string& out) {
  JsonObject object(out);
  object.member("model", check.model);
  object.member("verified", check.problems.empty());
  object.key("problems");
  append_texts(check.problems, out);
  object.key("absent_models");
  append_texts(check.absent_models, out);
  object.key("fixtures");
  append_array(check.fixtures, out, [&](const GoldenState& state) {
    JsonObject fixture(out);
    fixture.member("type", state.type);
    fixture.member("prompt", state.prompt);
    fixture.member("set", state.set);
    fixture.member("log", state.log);
    fixture.member("state", state.state);
    fixture.end();
  });
  object.end();
}

}  // namespace

std::string golden_json(const std::vector<GoldenCheck>& checks) {
  std::string out;
  JsonObject object(out);
  object.key("goldens");
  append_array(checks, out, [&](const GoldenCheck& check) { append_check(check, out); });
  object.end();
  return out + "\n";
}

}  // namespace assay
