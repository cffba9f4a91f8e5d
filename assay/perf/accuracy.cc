#include "assay/perf/accuracy.h"

#include <fmt/format.h>
#include <rapidjson/document.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "assay/compare/policy.h"
#include "assay/golden/floors.h"
#include "base/error.h"
#include "base/json_file.h"

namespace assay {
namespace {

namespace fs = std::filesystem;
using Value = rapidjson::Value;

constexpr int64_t kMaxAccuracyBytes = int64_t{256} << 20;
constexpr double kRounding = 1e-6;  // of numbers that were written as text
constexpr const char* kAccuracyHint =
    "make it with assay compare GOLDEN LOG --policy golden/MODEL/manifest.json --format json";

const Value& member(const Value& object, const char* key, bool (Value::*is)() const,
                    const std::string& path) {
  const auto found = object.FindMember(key);
  if (found == object.MemberEnd() || !(found->value.*is)()) {
    throw Error(fmt::format("'{}' is missing or of another type", key), path, kAccuracyHint);
  }
  return found->value;
}

// A number, or infinity for the text that stands for what is not finite.
double multiple(const Value& value, const std::string& path) {
  if (value.IsNumber() && value.GetDouble() >= 0) return value.GetDouble();
  if (value.IsString()) return std::numeric_limits<double>::infinity();
  throw Error("'x_floor' is not a multiple of a floor", path, kAccuracyHint);
}

// What a verdict says, if there is one.
bool has_passed(const Value& object, const char* key) {
  const auto verdict = object.FindMember(key);
  return verdict == object.MemberEnd() || verdict->value == "match" || verdict->value == "noise" ||
         verdict->value == "tie_flip";
}

// Keeps what a result was held to.
void hold(const Value& result, std::optional<double> floor, double tolerance,
          const std::string& path, HeldPrompt& held) {
  std::string checkpoint = json_text_of(member(result, "checkpoint", &Value::IsString, path));
  if (result.HasMember("sequence")) {
    checkpoint += " of the sequence ";
    checkpoint += json_text_of(member(result, "sequence", &Value::IsString, path));
  }
  const int64_t token = member(result, "token_idx", &Value::IsInt64, path).GetInt64();
  HeldRecord& record = held.records[checkpoint][token];
  if (record.count > 0 && (record.floor != floor || record.tolerance != tolerance)) {
    throw Error(fmt::format("{} at token {} has two tolerances", printable(checkpoint), token),
                path, kAccuracyHint);
  }
  record = {floor, tolerance, record.count + 1};
}

void add_result(const Value& result, const std::string& prompt, const std::string& path, bool& any,
                Accuracy& accuracy) {
  if (!result.IsObject()) throw Error("an item of 'results' is not an object", path, kAccuracyHint);
  const auto x_floor = result.FindMember("x_floor");
  if (x_floor == result.MemberEnd()) {
    if (!has_passed(result, "status")) return;
    const double tolerance = member(result, "tolerance", &Value::IsNumber, path).GetDouble();
    hold(result, std::nullopt, tolerance, path, accuracy.prompts[prompt]);
    return;
  }
  const double times = multiple(x_floor->value, path);
  const double floor = member(result, "floor", &Value::IsNumber, path).GetDouble();
  const double tolerance = member(result, "tolerance", &Value::IsNumber, path).GetDouble();
  if (!(floor > 0) || !(tolerance <= kMostK * floor * (1 + kRounding))) {
    throw Error(fmt::format("a tolerance is {} at a floor of {}: it is {} times that at most",
                            tolerance, floor, kMostK),
                path, kAccuracyHint);
  }
  hold(result, floor, tolerance, path, accuracy.prompts[prompt]);
  if (any && times <= accuracy.x_floor) return;
  any = true;
  accuracy.x_floor = times;
  accuracy.allowed = tolerance / floor;
  accuracy.place = fmt::format(
      "{} at token {} of {}", json_text_of(member(result, "checkpoint", &Value::IsString, path)),
      member(result, "token_idx", &Value::IsInt64, path).GetInt64(), prompt);
}

// As far as it says how far off it is.
bool is_within_tolerance(const Value& result) {
  const auto error = result.FindMember("rel_l2");
  const auto tolerance = result.FindMember("tolerance");
  if (error == result.MemberEnd() || tolerance == result.MemberEnd()) return true;
  return error->value.IsNumber() && tolerance->value.IsNumber() &&
         error->value.GetDouble() <= tolerance->value.GetDouble();
}

// As far as it says what it showed.
bool is_shown(const Value& record) {
  const auto evidence = record.FindMember("evidence");
  return evidence == record.MemberEnd() ||
         (evidence->value != "unproven" && evidence->value != "failed");
}

// A comparison that calls itself passed is believed only if its figures say so, too. Throws Error.
void check_pass(const Value& json, const std::string& path) {
  const auto refuse = [&](const std::string& what) {
    throw Error(fmt::format("'pass' is true, but {}", what), path, kAccuracyHint);
  };
  const auto count = [&](const char* object, const char* key) {
    const auto found = json.FindMember(object);
    if (found == json.MemberEnd() || !found->value.IsObject()) return int64_t{0};
    const auto number = found->value.FindMember(key);
    return number != found->value.MemberEnd() && number->value.IsInt64() ? number->value.GetInt64()
                                                                         : int64_t{0};
  };
  if (!has_passed(json, "verdict")) refuse("its verdict is another");
  if (count("summary", "failed") != 0) refuse("records failed");
  if (count("evidence", "unproven") != 0) refuse("records are unproven");
  const auto first = json.FindMember("first_divergence");
  if (first != json.MemberEnd() && !first->value.IsNull()) refuse("it has a first divergence");
  const auto results = json["results"].GetArray();
  if (results.Size() < count("summary", "compared")) refuse("results are missing");
  for (const Value& result : results) {
    if (!has_passed(result, "status")) refuse("a result did not pass");
    if (!is_shown(result)) refuse("a result is unproven or failed");
    if (!is_within_tolerance(result)) refuse("a result is not within its tolerance");
  }
  const auto gaps = json.FindMember("gaps");
  if (gaps == json.MemberEnd() || !gaps->value.IsArray()) return;
  for (const Value& gap : gaps->value.GetArray()) {
    if (!gap.IsObject() || !is_shown(gap)) refuse("'gaps' has a record that is unproven");
  }
}

// Whether all that failed is that other tokens were chosen, with logits within the floor: near ties
// flip where activations are rounded, and the goldens' tests of fast math let them, too.
bool only_ties_flipped(const Value& json, double allowed, const std::string& path) {
  const int64_t failed = member(json["summary"], "failed", &Value::IsInt64, path).GetInt64();
  int64_t flipped = 0;
  int64_t not_passed = 0;
  for (const Value& result : json["results"].GetArray()) {
    not_passed += has_passed(result, "status") ? 0 : 1;
    const auto ref = result.FindMember("argmax_ref");
    const auto got = result.FindMember("argmax_got");
    const auto x_floor = result.FindMember("x_floor");
    const auto end = result.MemberEnd();
    if (ref == end || got == end || ref->value == got->value || x_floor == end) continue;
    const bool is_drift = json_text_of(member(result, "status", &Value::IsString, path)) == "drift";
    if (!is_drift || !is_within_tolerance(result)) continue;
    if (multiple(x_floor->value, path) <= allowed) ++flipped;
  }
  return flipped > 0 && flipped == failed && flipped == not_passed;
}

Accuracy read_comparison(const std::string& path, const ModelKey& key, const std::string& prompt) {
  const rapidjson::Document json = read_json_file(path, kMaxAccuracyBytes, kAccuracyHint);
  if (!json.IsObject()) throw Error("is not a JSON object", path, kAccuracyHint);
  Accuracy accuracy;
  accuracy.pass = member(json, "pass", &Value::IsBool, path).GetBool();
  const Value& summary = member(json, "summary", &Value::IsObject, path);
  accuracy.prompts[prompt].missing =
      member(summary, "unmatched_ref", &Value::IsInt64, path).GetInt64();
  bool any = false;
  for (const Value& result : member(json, "results", &Value::IsArray, path).GetArray()) {
    add_result(result, prompt, path, any, accuracy);
  }
  if (any && accuracy.pass) check_pass(json, path);
  if (!any) throw Error("no result says how many floors it is off", path, kAccuracyHint);
  if (key.math == "fast") {
    accuracy.allowed = std::min(accuracy.allowed, kFastFloors);
    if (!accuracy.pass) accuracy.pass = only_ties_flipped(json, accuracy.allowed, path);
  }
  accuracy.pass = accuracy.pass && accuracy.x_floor <= accuracy.allowed;
  return accuracy;
}

// The parts of a file's name; the model's may hold dashes itself.
std::pair<ModelKey, std::string> key_of(const fs::path& path) {
  std::string rest = path.stem().string();
  std::vector<std::string> parts;
  for (int i = 0; i < 3; ++i) {
    const size_t dash = rest.rfind('-');
    if (dash == std::string::npos || dash == 0) break;
    parts.push_back(rest.substr(dash + 1));
    rest.resize(dash);
  }
  if (parts.size() < 3) {
    throw Error("its name is not MODEL-TYPE-MATH-PROMPT.json", path.string(),
                "take what bench/accuracy.py writes");
  }
  return {{rest, parts[2], parts[1]}, parts[0]};
}

}  // namespace

std::map<ModelKey, Accuracy> read_accuracy(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> files;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (entry->path().extension() == ".json") files.push_back(entry->path());
  }
  if (error) {
    throw Error("cannot read the folder: " + error.message(), folder,
                "give what bench/accuracy.py wrote");
  }
  std::sort(files.begin(), files.end());
  std::map<ModelKey, Accuracy> all;
  for (const fs::path& path : files) {
    const auto [key, prompt] = key_of(path);
    const Accuracy accuracy = read_comparison(path.string(), key, prompt);
    const auto [held, is_new] = all.emplace(key, accuracy);
    if (is_new) continue;
    const bool pass = held->second.pass && accuracy.pass;
    std::map<std::string, HeldPrompt> prompts = std::move(held->second.prompts);
    prompts.insert(accuracy.prompts.begin(), accuracy.prompts.end());
    // A prompt that fails is reported before one that passes with more of a larger allowance.
    const auto severity = [](const Accuracy& a) { return std::pair(!a.pass, a.x_floor); };
    if (severity(accuracy) > severity(held->second)) held->second = accuracy;
    held->second.pass = pass;
    held->second.prompts = std::move(prompts);
  }
  if (all.empty()) {
    throw Error("holds no comparison with a golden", folder, "fill it with bench/accuracy.py");
  }
  return all;
}

}  // namespace assay
