#pragma once

#include <string>

#include "assay/conform/feature.h"

namespace assay {

// Writes a feature's model as Hugging Face folder: config.json, which is `config`, and
// model.safetensors, whose tensors are random but for those of `changed`. The same bytes on every
// machine. Throws Error naming the file.
void write_feature_folder(const Feature& feature, const std::string& config,
                          const ChangedTensors& changed, const std::string& folder);

// The same model as GGUF file, from that folder, with the metadata of the feature.
void write_feature_gguf(const Feature& feature, const std::string& folder, const std::string& path);

}  // namespace assay
