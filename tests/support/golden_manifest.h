#pragma once

#include <rapidjson/document.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace assay::testing_support {

// One sequence of tokens that golden/<model>/manifest.json holds a model file to; golden/README.md
// has the keys.
struct Golden {
  std::string model;
  std::string name;       // "Q4_K_M", "Q4_1_long", "Q4_1_text_0"
  std::string gguf_path;  // empty: not in the repository (real weights, from the cache)
  std::string gguf_sha256;
  std::vector<std::string> logs;  // fixtures; none for a text of which only the tokens are held
  std::string ops_log;            // the one of `logs` that holds every op; empty: none
  std::vector<int32_t> tokens;
  std::vector<int32_t> greedy;
  std::vector<int32_t> padding_ids;
  double tolerance = 0.0;  // relative L2, where `tolerances` does not name the checkpoint
  std::map<std::string, double> tolerances;

  double tolerance_of(const std::string& checkpoint) const {
    const auto found = tolerances.find(checkpoint);
    return found == tolerances.end() ? tolerance : found->second;
  }
};

namespace manifest_internal {

using Json = rapidjson::Value;

inline std::vector<int32_t> ids(const Json& array) {
  std::vector<int32_t> result;
  for (const auto& id : array.GetArray()) result.push_back(id.GetInt());
  return result;
}

inline void read_tolerance(const Json& json, Golden& golden) {
  golden.tolerance = json["rel_l2"].GetDouble();
  golden.tolerances.clear();
  if (!json.HasMember("by_checkpoint")) return;
  for (const auto& each : json["by_checkpoint"].GetObject()) {
    golden.tolerances[each.name.GetString()] = each.value.GetDouble();
  }
}

// The sequences that stand beside the main one: a long prompt, and texts without a fixture.
inline void read_further(const Json& manifest, const std::string& folder, const Golden& main,
                         std::vector<Golden>& goldens) {
  if (manifest.HasMember("long")) {
    const Json& json = manifest["long"];
    Golden golden = main;
    golden.name = main.name + "_long";
    golden.logs = {folder + json["log"].GetString()};
    golden.ops_log.clear();
    golden.tokens = ids(json["tokens"]);
    golden.greedy.clear();
    read_tolerance(json["tolerance"], golden);
    goldens.push_back(golden);
  }
  if (!manifest.HasMember("greedy_texts")) return;
  for (const auto& json : manifest["greedy_texts"].GetArray()) {
    Golden golden = main;
    golden.name = main.name + "_text_" + std::to_string(goldens.size());
    golden.logs.clear();
    golden.ops_log.clear();
    golden.tokens = ids(json["tokens"]);
    golden.greedy = ids(json["greedy"]);
    goldens.push_back(golden);
  }
}

}  // namespace manifest_internal

// All sequences of golden/<model>/. Throws std::runtime_error if the manifest is no JSON.
inline std::vector<Golden> read_goldens(const std::string& model) {
  using manifest_internal::ids;
  const std::string folder = std::string(ASSAY_SOURCE_DIR) + "/golden/" + model + "/";
  std::ifstream file(folder + "manifest.json");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  rapidjson::Document manifest;
  manifest.Parse(text.c_str());
  if (manifest.HasParseError()) throw std::runtime_error(folder + "manifest.json is no JSON");

  std::vector<Golden> goldens;
  for (const auto& entry : manifest["files"].GetArray()) {
    Golden golden;
    golden.model = model;
    golden.name = entry["type"].GetString();
    const std::string gguf = folder + entry["gguf"].GetString();
    if (std::filesystem::exists(gguf)) golden.gguf_path = gguf;
    golden.gguf_sha256 = entry["sha256"].GetString();
    golden.logs.push_back(folder + entry["log"].GetString());
    if (entry.HasMember("ops_log")) {
      golden.ops_log = folder + entry["ops_log"].GetString();
      golden.logs.push_back(golden.ops_log);
    }
    golden.tokens = ids(manifest.HasMember("tokens") ? manifest["tokens"] : entry["tokens"]);
    golden.greedy = ids(entry["greedy"]);
    golden.padding_ids = ids(manifest["padding_ids"]);
    manifest_internal::read_tolerance(manifest["tolerance"], golden);
    goldens.push_back(golden);
  }
  manifest_internal::read_further(manifest, folder, Golden(goldens.front()), goldens);
  return goldens;
}

}  // namespace assay::testing_support
