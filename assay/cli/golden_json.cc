#include "assay/cli/golden_json.h"

#include <cmath>
#include <optional>

#include "assay/report/json_object.h"

namespace assay {
namespace {

void append_fixture(JsonObject& fixture, const GoldenState& state) {
  fixture.member("type", state.type);
  fixture.member("prompt", state.prompt);
  fixture.member("set", state.set);
  fixture.member("log", state.log);
  fixture.member("state", state.state);
}

std::optional<double> known(double error) {
  return std::isnan(error) ? std::nullopt : std::optional(error);
}

void append_allowed(JsonObject& object, const AllowedErrors& allowed) {
  object.member("type", allowed.type);
  object.member("k", allowed.k);
  object.member("floor", allowed.floor);
  object.member("layers", known(allowed.layers));
  object.member("logits", known(allowed.logits));
}

void append_check(JsonObject& object, const GoldenCheck& check) {
  object.member("model", check.model);
  object.member("verified", check.problems.empty());
  object.array("problems", check.problems);
  object.array("absent_models", check.absent_models);
  object.array("allowed", check.allowed, append_allowed);
  object.array("wide_tolerances", check.wide);
  object.array("fixtures", check.fixtures, append_fixture);
}

}  // namespace

std::string golden_json(const std::vector<GoldenCheck>& checks) {
  return json_of([&](JsonObject& object) { object.array("goldens", checks, append_check); }) + "\n";
}

}  // namespace assay
