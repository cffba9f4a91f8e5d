#pragma once

#include <string>

#include "assay/conform/engine_list.h"
#include "assay/conform/feature.h"
#include "assay/golden/files.h"

namespace assay {

// A feature's model, for engines.
struct SuiteModel {
  std::string folder;  // config.json, safetensors, tokenizer
  std::string gguf;    // empty where GGUF cannot state it
};

// The folder with models and logs of engines, which one run at a time uses.
class WorkFolder {
 public:
  // Throws Error if it cannot be made, or another run uses it.
  explicit WorkFolder(const std::string& path);

  // The model, written anew.
  SuiteModel write_model(const Feature& feature) const;
  // The folder for the engine's logs, made.
  std::string logs_of(const EngineDeclaration& engine) const;

 private:
  std::string path_;
  FolderLock lock_;
};

}  // namespace assay
