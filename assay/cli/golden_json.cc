#include "assay/cli/golden_json.h"

#include "assay/report/json_array.h"

namespace assay {
namespace {

void append_check(const GoldenCheck& check, std::string& out) {
  JsonObject object(out);
  object.member("model", check.model);
  object.member("verified", check.problems.empty());
  const auto append_text = [&](const std::string& text) { append_json_string(out, text); };
  append_array(object, "problems", check.problems, out, append_text);
  append_array(object, "absent_models", check.absent_models, out, append_text);
  append_array(object, "fixtures", check.fixtures, out, [&](const GoldenState& state) {
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
  append_array(object, "goldens", checks, out,
               [&](const GoldenCheck& check) { append_check(check, out); });
  object.end();
  return out + "\n";
}

}  // namespace assay
