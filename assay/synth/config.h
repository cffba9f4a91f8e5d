#pragma once

#include <memory>
#include <string>

#include "engine/gguf.h"
#include "engine/hf/config.h"
#include "engine/model_config.h"

namespace assay {

// The shape of a model, as in its config.json on a model hub.
struct SynthConfig {
  std::string json;  // config.json
  HfConfig hf;       // its metadata is in `file`
  // A GGUF file of the model without data: its metadata, and the names of the tensors that decide
  // which ops its layers have.
  std::shared_ptr<const Gguf> file;
  ModelConfig model;
};

// Reads `json` as Hugging Face's config.json of a model whose architecture Assay knows. Keys that
// do not affect the shape are ignored. Throws Error that names `where` and the key if one is
// missing, out of range, or asks for what Assay does not compute.
SynthConfig parse_config(const std::string& json, const std::string& where);

// A preset's config, or that in the file `name` if it ends in ".json".
SynthConfig load_config(const std::string& name);

}  // namespace assay
