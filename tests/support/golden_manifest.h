#pragma once

#include <rapidjson/document.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace assay::testing_support {

// What golden/<model>/manifest.json says of one of its model files; golden/README.md has the keys.
struct Golden {
  std::string model;
  std::string type;
  std::string gguf_path;  // empty: not in the repository (real weights, from the cache)
  std::string gguf_sha256;
  std::string log_path;
  std::string ops_log_path;  // empty: none
  std::vector<int32_t> tokens;
  std::vector<int32_t> greedy;
  std::vector<int32_t> padding_ids;
  double tolerance = 0.0;  // relative L2
};

inline std::vector<int32_t> ids(const rapidjson::Value& array) {
  std::vector<int32_t> result;
  for (const auto& id : array.GetArray()) result.push_back(id.GetInt());
  return result;
}

// All model files of golden/<model>/. Throws std::runtime_error if the manifest is no JSON.
inline std::vector<Golden> read_goldens(const std::string& model) {
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
    golden.type = entry["type"].GetString();
    const std::string gguf = folder + entry["gguf"].GetString();
    if (std::filesystem::exists(gguf)) golden.gguf_path = gguf;
    golden.gguf_sha256 = entry["sha256"].GetString();
    golden.log_path = folder + entry["log"].GetString();
    if (entry.HasMember("ops_log")) golden.ops_log_path = folder + entry["ops_log"].GetString();
    golden.tokens = ids(manifest["tokens"]);
    golden.greedy = ids(entry["greedy"]);
    golden.padding_ids = ids(manifest["padding_ids"]);
    golden.tolerance = manifest["tolerance"]["rel_l2"].GetDouble();
    goldens.push_back(golden);
  }
  return goldens;
}

}  // namespace assay::testing_support
