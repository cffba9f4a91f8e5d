#pragma once

#include <rapidjson/document.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/tensor_type.h"

namespace assay {

// A tensor of a feature's model, as its safetensors file has it: random numbers.
struct FeatureTensor {
  std::string name;            // as transformers calls it
  std::vector<int64_t> shape;  // the last one is the length of a row; none: a single number
  float mean = 0.0F;           // 0 of types whose blocks are random (random_blocks.h)
  float deviation = 0.0F;
  TensorType type = TensorType::kF32;
};

// Globs of tensors, and the value that all their elements have; none: the file lacks them.
using ChangedTensors = std::vector<std::pair<std::string, std::optional<float>>>;

// What an engine computes that does not honour the feature, as another model.
struct Counterfactual {
  bool ignored = false;  // the model without the feature; otherwise with the feature misread
  std::string name;      // as a cause of `assay compare`
  std::string text;      // what the engine does: "takes 0.1 ln(factor) + 1"
  std::string patch;     // of config.json, a JSON merge patch (RFC 7396)
  ChangedTensors tensors;
  bool small = false;  // it may move the logits by less than kLoud
};

// What the suite's mistakes move the logits by at least, in relative L2.
inline constexpr double kLoud = 1e-2;

// One feature of networks: a tiny model in which it is loud, tokens, and what float64 computes.
struct Feature {
  std::string name;  // of its folder in the suite
  std::string group;
  std::string title;
  std::vector<std::string> states;                         // keys of config.json that say it
  std::string config;                                      // config.json
  std::vector<std::pair<std::string, std::string>> files;  // further ones of its folder: JSON
  uint64_t seed = 0;
  std::vector<FeatureTensor> tensors;
  std::vector<int32_t> tokens;
  std::vector<Counterfactual> counterfactuals;
  std::string reference;  // path of the log of float64
  std::string digest;     // SHA-256 of the case and of this log
  // What llama.cpp's converter writes into the GGUF file; nothing if that cannot state the feature.
  std::vector<std::pair<std::string, rapidjson::Document>> metadata;
  bool has_gguf = true;
};

// The features in `folder`, each a folder of its own with case.json and reference.jsonl, whose
// names match one of the `globs` (all, if there are none), by group and name. Throws Error that
// names the file and the key, or the glob that matches none.
std::vector<Feature> read_suite(const std::string& folder, const std::vector<std::string>& globs);

// `config` with the merge patch applied (RFC 7396). Both are JSON objects.
std::string patched_config(const std::string& config, const std::string& patch);

// Whether `glob` (as a shell has them) matches the name.
bool matches_glob(const std::string& glob, const std::string& name);

}  // namespace assay
