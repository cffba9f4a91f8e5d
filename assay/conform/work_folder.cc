#include "assay/conform/work_folder.h"

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "assay/conform/feature_model.h"
#include "base/error.h"
#include "base/json_file.h"
#include "base/new_file.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

std::string made(const fs::path& path) {
  std::error_code failed;
  fs::create_directories(path, failed);
  if (failed) throw Error("cannot be created: " + failed.message(), path.string());
  return path.string();
}

// A tokenizer for engines that load no model without one: the words t0, t1, ... are the ids, and
// nothing is added to a text. engines/stub_tokenizer.py makes the same for other folders.
void write_tokenizer(const Feature& feature, const fs::path& folder) {
  const rapidjson::Document config =
      parse_json_text(feature.config, "config.json", "see conform/README.md");
  std::string words;
  for (int64_t id = 0; id < config["vocab_size"].GetInt64(); ++id) {
    words += fmt::format(R"({}"t{}":{})", id == 0 ? "" : ",", id, id);
  }
  const auto write = [&](const char* name, const std::string& text) {
    NewFile file((folder / name).string());
    file.write(text);
    file.finish();
  };
  write("tokenizer.json",
        R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,)"
        R"("pre_tokenizer":{"type":"WhitespaceSplit"},"post_processor":null,)"
        R"("decoder":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":false,)"
        R"("use_regex":false},)"
        R"("model":{"type":"WordLevel","unk_token":"t0","vocab":{)" +
            words + "}}}\n");
  write("tokenizer_config.json",
        R"({"tokenizer_class":"PreTrainedTokenizerFast","clean_up_tokenization_spaces":false,)"
        R"("unk_token":"t0","bos_token":"t1","eos_token":"t2","pad_token":"t0"})"
        "\n");
}

}  // namespace

WorkFolder::WorkFolder(const std::string& path) : path_(made(fs::absolute(path))), lock_(path_) {}

SuiteModel WorkFolder::write_model(const Feature& feature) const {
  const fs::path folder = fs::path(path_) / "models" / feature.name;
  SuiteModel model{.folder = folder.string(), .gguf = {}};
  write_feature_folder(feature, feature.config, {}, model.folder);
  if (feature.has_gguf) {
    model.gguf = (folder / "model.gguf").string();
    write_feature_gguf(feature, model.folder, model.gguf);
  }
  if (feature.files.empty()) write_tokenizer(feature, folder);
  return model;
}

std::string WorkFolder::logs_of(const EngineDeclaration& engine) const {
  return made(fs::path(path_) / "logs" / engine.name);
}

}  // namespace assay
