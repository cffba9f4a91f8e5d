#pragma once

#include <rapidjson/document.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/cache.h"

namespace assay::testing_support {

// No floor is taken as less: what rounding a value to float32 may change of it.
inline constexpr double kLeastFloor = 0x1p-24;

// One model file and one prompt that golden/<model>/manifest.json holds it to; golden/README.md has
// the keys.
struct Golden {
  std::string model;
  std::string name;       // "Q4_K_M", "Q4_1_long", "Q4_1_text_story"
  std::string gguf_path;  // in the repository, or in the cache
  std::string gguf_sha256;
  std::vector<std::string> logs;  // fixtures; none for a text of which only the tokens are held
  std::string ops_log;            // the one of `logs` that holds every op; empty: none
  std::vector<int32_t> tokens;
  std::vector<int32_t> greedy;
  std::vector<int32_t> padding_ids;
  std::map<std::string, double> tolerances;  // relative L2, by checkpoint

  double tolerance_of(const std::string& checkpoint) const { return tolerances.at(checkpoint); }
};

// What a failed test shows of its parameter.
inline void PrintTo(const Golden& golden, std::ostream* out) {
  *out << golden.model << " " << golden.name;
}

namespace manifest_internal {

using Json = rapidjson::Value;

inline std::vector<int32_t> ids(const Json& array) {
  std::vector<int32_t> result;
  for (const auto& id : array.GetArray()) result.push_back(id.GetInt());
  return result;
}

// What Assay promises of the small models in exact math, whatever their floors are.
inline constexpr double kSmallModelPromise = 2e-6;

// k times the floor of each checkpoint.
inline std::map<std::string, double> tolerances(const Json& manifest, const Json& file) {
  const Json& stated = manifest["tolerance"];
  const bool is_small = !file.HasMember("wheel") && !file.HasMember("source");
  std::map<std::string, double> result;
  for (const auto& each : file["floors_by_checkpoint"].GetObject()) {
    const double floor = each.value[stated["floor"].GetString()]["max"].GetDouble();
    double& tolerance = result[each.name.GetString()];
    tolerance = stated["k"].GetDouble() * std::max(floor, kLeastFloor);
    if (is_small) tolerance = std::min(tolerance, kSmallModelPromise);
  }
  return result;
}

// The goldens of one model file: one for each prompt with fixtures, and one for each further text.
inline void read_file(const Json& manifest, const Json& file, const std::string& folder,
                      std::vector<Golden>& goldens) {
  Golden common;
  common.model = manifest["model"].GetString();
  const std::string gguf = file["gguf"].GetString();
  const bool is_here = std::filesystem::exists(folder + gguf);
  common.gguf_path = is_here ? folder + gguf : cache_folder() + "/" + common.model + "/" + gguf;
  common.gguf_sha256 = file["sha256"].GetString();
  common.padding_ids = ids(manifest["padding_ids"]);
  common.tolerances = tolerances(manifest, file);
  const std::string type = file["type"].GetString();
  const Json& prompts = manifest["prompts"];

  std::map<std::string, Golden> by_prompt;
  for (const auto& log : file["logs"].GetArray()) {
    const std::string prompt = log["prompt"].GetString();
    Golden& golden = by_prompt.try_emplace(prompt, common).first->second;
    golden.name = type + (prompt == "haiku" ? "" : "_" + prompt);
    golden.tokens = ids(prompts[prompt.c_str()]["tokens"]);
    golden.greedy = ids(log["greedy"]);
    golden.logs.push_back(folder + log["file"].GetString());
    if (log["set"] == "ops") golden.ops_log = golden.logs.back();
  }
  for (const auto& [prompt, golden] : by_prompt) goldens.push_back(golden);
  if (!file.HasMember("texts")) return;
  for (const auto& text : file["texts"].GetArray()) {
    Golden golden = common;
    golden.name = type + "_text_" + text["prompt"].GetString();
    golden.tokens = ids(prompts[text["prompt"].GetString()]["tokens"]);
    golden.greedy = ids(text["greedy"]);
    goldens.push_back(golden);
  }
}

}  // namespace manifest_internal

// All sequences of golden/<model>/. Throws std::runtime_error if the manifest is no JSON.
inline std::vector<Golden> read_goldens(const std::string& model) {
  const std::string folder = std::string(ASSAY_SOURCE_DIR) + "/golden/" + model + "/";
  std::ifstream file(folder + "manifest.json");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  rapidjson::Document manifest;
  manifest.Parse(text.c_str());
  if (manifest.HasParseError()) throw std::runtime_error(folder + "manifest.json is no JSON");

  std::vector<Golden> goldens;
  for (const auto& each : manifest["files"].GetArray()) {
    manifest_internal::read_file(manifest, each, folder, goldens);
  }
  return goldens;
}

}  // namespace assay::testing_support
