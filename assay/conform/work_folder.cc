#include "assay/conform/work_folder.h"

#include <filesystem>

#include "assay/conform/feature_model.h"
#include "base/error.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

std::string made(const fs::path& path) {
  std::error_code failed;
  fs::create_directories(path, failed);
  if (failed) throw Error("cannot be created: " + failed.message(), path.string());
  return path.string();
}

}  // namespace

WorkFolder::WorkFolder(const std::string& path) : path_(made(fs::absolute(path))), lock_(path_) {}

SuiteModel WorkFolder::write_model(const Feature& feature) const {
  const fs::path folder = fs::path(path_) / "models" / feature.name;
  SuiteModel model{.folder = folder.string(), .gguf = {}};
  write_feature_folder(feature, feature.config, {}, model.folder);
  if (!feature.has_gguf) return model;
  model.gguf = (folder / "model.gguf").string();
  write_feature_gguf(feature, model.folder, model.gguf);
  return model;
}

std::string WorkFolder::logs_of(const EngineDeclaration& engine) const {
  return made(fs::path(path_) / "logs" / engine.name);
}

}  // namespace assay
