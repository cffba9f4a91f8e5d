#include "engine/hf/stored_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/json_file.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr char kWeights[] = "model.safetensors";
constexpr char kIndex[] = "model.safetensors.index.json";
constexpr int64_t kMaxIndexBytes = int64_t{64} << 20;

// Buffers that older versions of transformers saved with the weights: masks, and the frequencies
// of the rotation, which config.json states.
constexpr std::string_view kBuffers[] = {".attn.bias",      ".attn.masked_bias",
                                         ".attention.bias", ".attention.masked_bias",
                                         ".inv_freq",       ".position_ids"};

bool is_buffer(std::string_view name) {
  return std::ranges::any_of(kBuffers, [&](std::string_view end) { return name.ends_with(end); });
}

bool has_file(const fs::path& path) {
  std::error_code failed;
  return fs::exists(path, failed);
}

}  // namespace

StoredWeights::StoredWeights(const std::string& folder, std::vector<MappedFile>& files) {
  const fs::path path(folder);
  if (has_file(path / kWeights)) {
    add(files.emplace_back((path / kWeights).string()));
  } else if (has_file(path / kIndex)) {
    read_shards(folder, files);
  } else {
    throw Error(fmt::format("holds neither {} nor {}", kWeights, kIndex), folder,
                "Assay reads weights in the safetensors format");
  }
}

void StoredWeights::rename_all(const auto& name_of) {
  for (auto all = std::exchange(tensors_, {}); !all.empty();) {
    auto node = all.extract(all.begin());
    std::string& name = node.key();
    name = name_of(name);
    if (name.empty()) continue;
    node.mapped().tensor.name = name;
    const auto kept = tensors_.insert(std::move(node));
    if (!kept.inserted) fail(kept.node.key(), "is there under two names");
  }
}

void StoredWeights::keep_text(const std::vector<std::string>& others) {
  static constexpr std::string_view kOfText[] = {"language_model.", "text_model."};
  static constexpr std::string_view kOfModel = "model.";
  const auto without = [](std::string_view name, std::string_view prefix) {
    return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
  };
  rename_all([&](const std::string& name) -> std::string {
    const std::string_view rest = without(name, kOfModel);
    if (std::ranges::any_of(others, [&](const auto& other) { return rest.starts_with(other); }))
      return {};
    for (const std::string_view of_text : kOfText) {
      if (!rest.starts_with(of_text)) continue;
      const std::string own(without(rest.substr(of_text.size()), kOfModel));
      return own.starts_with("lm_head.") ? own : std::string(kOfModel) + own;
    }
    return name;
  });
}

void StoredWeights::rename(std::string_view stored) {
  rename_all([&](const std::string& name) {
    return name.starts_with(stored) ? "model." + name.substr(stored.size()) : name;
  });
}

void StoredWeights::drop_prefix(std::string_view module) {
  const size_t dot = module.find('.');
  if (dot == std::string_view::npos || find(std::string(module) + ".weight") != nullptr) return;
  const std::string_view prefix = module.substr(0, dot + 1);
  if (tensors_.contains(std::string(module.substr(dot + 1)) + ".weight")) dropped_ = prefix;
}

const StoredTensor* StoredWeights::find(const std::string& name) {
  const auto found = tensors_.find(
      !dropped_.empty() && name.starts_with(dropped_) ? name.substr(dropped_.size()) : name);
  if (found == tensors_.end()) return nullptr;
  taken_.insert(found->first);
  return &found->second.tensor;
}

void StoredWeights::fail(const std::string& name, const std::string& what,
                         const std::string& hint) const {
  const auto found = tensors_.find(name);
  throw Error(fmt::format("tensor '{}' {}", name, what),
              found == tensors_.end() ? std::string() : found->second.file, hint);
}

void StoredWeights::reject_leftovers(std::string_view model_type,
                                     const std::vector<std::string>& ignored) const {
  for (const auto& entry : tensors_) {
    const std::string& name = entry.first;
    const bool is_ignored = std::ranges::any_of(
        ignored, [&](const std::string& prefix) { return name.starts_with(prefix); });
    if (taken_.contains(name) || is_buffer(name) || is_ignored) continue;
    fail(name, fmt::format("is not one that Assay uses for model_type '{}'", model_type),
         "the model computes something that Assay does not know");
  }
}

void StoredWeights::add(const MappedFile& file) {
  for (StoredTensor& tensor : read_safetensors(file)) {
    const std::string name = tensor.name;
    const auto [at, is_first] = tensors_.try_emplace(name, Entry{std::move(tensor), file.path()});
    if (!is_first) {
      throw Error(fmt::format("tensor '{}' is in {} too", name, at->second.file), file.path(),
                  "the folder holds files of two models");
    }
  }
}

void StoredWeights::read_shards(const std::string& path_of_folder, std::vector<MappedFile>& files) {
  const fs::path folder(path_of_folder);
  const std::string path = (folder / kIndex).string();
  const rapidjson::Document index = read_json_file(path, kMaxIndexBytes, "fetch the model again");
  if (!index.IsObject() || !index.HasMember("weight_map") || !index["weight_map"].IsObject()) {
    throw Error("holds no object 'weight_map'", path, "fetch the model again");
  }
  std::set<std::string> names;
  for (const auto& member : index["weight_map"].GetObject()) {
    const std::string name = member.value.IsString() ? json_text_of(member.value) : "";
    // A plain name: no index may make Assay read outside of its folder.
    if (!name.ends_with(".safetensors") || name.find('/') != std::string::npos ||
        name.find('\0') != std::string::npos) {
      throw Error(fmt::format("tensor '{}' is listed in '{}', which is not a safetensors file "
                              "of this folder",
                              json_text_of(member.name), name),
                  path);
    }
    names.insert(name);
  }
  for (const std::string& name : names) files.emplace_back((folder / name).string());
  for (const MappedFile& file : files) {
    if (file.path().ends_with(".safetensors")) add(file);
  }
  for (const auto& member : index["weight_map"].GetObject()) {
    const auto found = tensors_.find(json_text_of(member.name));
    if (found != tensors_.end() &&
        fs::path(found->second.file).filename() == json_text_of(member.value)) {
      continue;
    }
    throw Error(fmt::format("tensor '{}' is not in {}", json_text_of(member.name),
                            json_text_of(member.value)),
                path, "fetch the model again");
  }
}

}  // namespace assay
