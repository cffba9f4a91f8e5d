#include "assay/conform/feature_model.h"

#include <fmt/format.h>

#include <deque>
#include <filesystem>
#include <functional>
#include <numeric>
#include <variant>

#include "assay/synth/random_weights.h"
#include "assay/synth/safetensors_header.h"
#include "base/error.h"
#include "base/new_file.h"
#include "engine/gguf.h"
#include "engine/gguf_writer.h"
#include "kernels/quantize/quantize.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

int64_t elements_of(const FeatureTensor& tensor) {
  return std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies());
}

// The first of the changes that is for the tensor, if any.
const std::optional<float>* change_of(const ChangedTensors& changed, const FeatureTensor& tensor) {
  for (const auto& [glob, value] : changed) {
    if (matches_glob(glob, tensor.name)) return &value;
  }
  return nullptr;
}

std::string tensor_bytes(const Feature& feature, const FeatureTensor& tensor,
                         const std::optional<float>* constant) {
  const int64_t count = elements_of(tensor);
  std::vector<float> values(static_cast<size_t>(count));
  RandomWeights(feature.seed, tensor.name)
      .draw(0, count, tensor.mean, tensor.deviation, values.data());
  if (constant != nullptr) std::fill(values.begin(), values.end(), **constant);
  std::string bytes(row_bytes(tensor.type, count), '\0');
  quantize_row(tensor.type, values.data(), count, bytes.data());
  return bytes;
}

void write_text(const fs::path& path, const std::string& text) {
  NewFile file(path.string());
  file.write(text);
  file.finish();
}

// An array of JSON as GGUF has it; its bytes are kept in `made`.
GgufArray array_of(const std::string& key, const rapidjson::Value& value,
                   std::deque<std::string>& made) {
  std::vector<std::string_view> texts;
  std::string& bytes = made.emplace_back();
  bool whole = true;
  bool flags = true;
  for (const auto& item : value.GetArray()) {
    whole = whole && item.IsInt();
    flags = flags && item.IsBool();
  }
  const auto append = [&](auto number) {
    bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
  };
  for (const auto& item : value.GetArray()) {
    if (item.IsString()) {
      texts.push_back(made.emplace_back(item.GetString(), item.GetStringLength()));
    } else if (flags) {
      append(static_cast<uint8_t>(item.GetBool()));
    } else if (whole) {
      append(int32_t{item.GetInt()});
    } else if (item.IsNumber()) {
      append(item.GetFloat());
    } else {
      throw Error(fmt::format("the GGUF key '{}' is an array of several kinds", key));
    }
  }
  const std::span<const std::byte> data = std::as_bytes(std::span(bytes));
  if (!texts.empty()) return {texts};
  if (flags) return {GgufNumbers<bool>(data)};
  if (whole) return {GgufNumbers<int32_t>(data)};
  return {GgufNumbers<float>(data)};
}

GgufValue value_of(const std::string& key, const rapidjson::Value& value,
                   std::deque<std::string>& made) {
  if (value.IsBool()) return value.GetBool();
  if (value.IsInt64()) return value.GetInt64();
  if (value.IsNumber()) return value.GetDouble();
  if (value.IsString()) {
    return std::string_view(made.emplace_back(value.GetString(), value.GetStringLength()));
  }
  if (value.IsArray()) return array_of(key, value, made);
  throw Error(fmt::format("the GGUF key '{}' has a value that GGUF does not have", key));
}

GgufHeader header_of(const Feature& feature, const Gguf& model, std::deque<std::string>& made) {
  GgufHeader header;
  header.text("general.architecture", model.get_string("general.architecture"));
  header.text("general.type", "model");
  header.text("general.name", feature.name);
  header.u32("general.file_type", 0);
  for (const auto& [key, value] : feature.metadata) header.value(key, value_of(key, value, made));
  header.text("tokenizer.ggml.model", "no_vocab");
  for (const GgufTensor& tensor : model.tensors()) {
    header.tensor(tensor.name, tensor.type, tensor.dims);
  }
  return header;
}

}  // namespace

void write_feature_folder(const Feature& feature, const std::string& config,
                          const ChangedTensors& changed, const std::string& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) throw Error("cannot be created: " + failed.message(), folder);
  write_text(fs::path(folder) / "config.json", config + "\n");
  NewFile weights((fs::path(folder) / "model.safetensors").string());
  std::vector<FeatureTensor> tensors = feature.tensors;
  std::erase_if(tensors, [&](const FeatureTensor& tensor) {
    const std::optional<float>* change = change_of(changed, tensor);
    return change != nullptr && !change->has_value();
  });
  std::vector<SafetensorsEntry> entries;
  for (const FeatureTensor& tensor : tensors) {
    entries.push_back({tensor.name, tensor.type, tensor.shape});
  }
  weights.write(safetensors_header(entries));
  for (const FeatureTensor& tensor : tensors) {
    weights.write(tensor_bytes(feature, tensor, change_of(changed, tensor)));
  }
  weights.finish();
}

void write_feature_gguf(const Feature& feature, const std::string& folder,
                        const std::string& path) {
  const Gguf model(folder);
  std::deque<std::string> made;
  NewFile file(path);
  file.write(header_of(feature, model, made).bytes());
  for (const GgufTensor& tensor : model.tensors()) {
    file.write({reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size()});
    file.write(std::string(gguf_padding(tensor.data.size()), '\0'));
  }
  file.finish();
}

}  // namespace assay
