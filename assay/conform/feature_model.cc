#include "assay/conform/feature_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <limits>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "assay/conform/random_blocks.h"
#include "assay/synth/random_weights.h"
#include "assay/synth/safetensors_header.h"
#include "base/error.h"
#include "base/new_file.h"
#include "engine/gguf.h"
#include "engine/gguf_writer.h"
#include "engine/model_config.h"
#include "kernels/quantize/quantize.h"
#include "kernels/reference/dequantize.h"
#include "model/hyperparameter_keys.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTokenizer = "tokenizer.ggml.model";
constexpr std::string_view kKvB = "attn_kv_b.weight";

int64_t elements_of(const FeatureTensor& tensor) {
  return std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies());
}

// The type in the folder: safetensors has none that is quantised.
TensorType folder_type(TensorType type) {
  return type == TensorType::kF16 || type == TensorType::kBF16 ? type : TensorType::kF32;
}

// The first of the changes that is for the tensor, if any.
const std::optional<float>* change_of(const ChangedTensors& changed, const FeatureTensor& tensor) {
  for (const auto& [glob, value] : changed) {
    if (matches_glob(glob, tensor.name)) return &value;
  }
  return nullptr;
}

// Its rows as the feature's type stores them.
std::string stored_bytes(const Feature& feature, const FeatureTensor& tensor,
                         const std::optional<float>* constant) {
  const int64_t count = elements_of(tensor);
  const RandomWeights numbers(feature.seed, tensor.name);
  if (has_random_blocks(tensor.type)) {
    if (constant != nullptr) {
      throw Error(
          fmt::format("{}: {} stores no constant", tensor.name, tensor_type_info(tensor.type).name),
          feature.name);
    }
    return random_blocks(tensor.type, numbers, count, tensor.deviation);
  }
  std::vector<float> values(static_cast<size_t>(count));
  numbers.draw(0, count, tensor.mean, tensor.deviation, values.data());
  if (constant != nullptr) std::fill(values.begin(), values.end(), **constant);
  std::string bytes(row_bytes(tensor.type, count), '\0');
  quantize_row(tensor.type, values.data(), count, bytes.data());
  return bytes;
}

// Rows of any type as float32.
std::string float_bytes(TensorType type, std::string_view stored, int64_t count) {
  std::string bytes(static_cast<size_t>(count) * sizeof(float), '\0');
  std::vector<float> values(static_cast<size_t>(count));
  dequantize_row(type, stored.data(), count, values.data());
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// As the folder has them.
std::string tensor_bytes(const Feature& feature, const FeatureTensor& tensor,
                         const std::optional<float>* constant) {
  std::string bytes = stored_bytes(feature, tensor, constant);
  return tensor.type == folder_type(tensor.type)
             ? bytes
             : float_bytes(tensor.type, bytes, elements_of(tensor));
}

// The quantised rows of a feature by their float32 values, which the folder has: in a GGUF file
// they may stand in another order, and under another name.
using QuantisedRows = std::unordered_map<std::string, std::pair<TensorType, std::string>>;

QuantisedRows quantised_rows(const Feature& feature) {
  QuantisedRows rows;
  for (const FeatureTensor& tensor : feature.tensors) {
    if (tensor.type == folder_type(tensor.type)) continue;
    const std::string stored = stored_bytes(feature, tensor, nullptr);
    const size_t size = row_bytes(tensor.type, tensor.shape.back());
    for (size_t begin = 0; begin < stored.size(); begin += size) {
      std::string row = stored.substr(begin, size);
      std::string values = float_bytes(tensor.type, row, tensor.shape.back());
      rows.try_emplace(std::move(values), tensor.type, std::move(row));
    }
  }
  return rows;
}

// A tensor of the GGUF file.
struct GgufData {
  std::string name;
  std::vector<int64_t> dims;
  TensorType type = TensorType::kF32;
  std::string bytes;
};

// A tensor of the folder as llama.cpp's converter stores it: vectors in float32, rows that are
// quantised as their blocks.
GgufData gguf_data(const GgufTensor& tensor, const QuantisedRows& quantised) {
  const std::string_view data(reinterpret_cast<const char*>(tensor.data.data()),
                              tensor.data.size());
  GgufData made{.name = tensor.name, .dims = tensor.dims, .type = tensor.type, .bytes = {}};
  if (tensor.dims.size() == 1) {
    made.bytes = float_bytes(tensor.type, data, tensor.columns());
    made.type = TensorType::kF32;
    return made;
  }
  const size_t size = row_bytes(tensor.type, tensor.columns());
  for (size_t begin = 0; begin < data.size(); begin += size) {
    const auto found = quantised.find(std::string(data.substr(begin, size)));
    if (found == quantised.end()) {
      made.type = tensor.type;
      made.bytes = data;
      return made;
    }
    made.type = found->second.first;
    made.bytes += found->second.second;
  }
  return made;
}

// attn_kv_b in two, as the converter stores it for engines that do without: of each head the
// columns of its keys, and the rows of its values. `whole` has no blocks.
std::pair<GgufData, GgufData> split_kv_b(const GgufData& whole, const ModelConfig& config) {
  const int64_t rank = whole.dims[0];
  const int64_t of_k = config.unrotated_dim();
  const int64_t of_v = config.value_dim;
  const std::string prefix = whole.name.substr(0, whole.name.size() - kKvB.size());
  GgufData k{prefix + "attn_k_b.weight", {of_k, rank, config.n_heads}, whole.type, {}};
  GgufData v{prefix + "attn_v_b.weight", {rank, of_v, config.n_heads}, whole.type, {}};
  const size_t size = row_bytes(whole.type, 1);
  const size_t row = size * static_cast<size_t>(rank);
  const char* head = whole.bytes.data();
  for (int64_t i = 0; i < config.n_heads; ++i) {
    for (size_t column = 0; column < row; column += size) {
      for (int64_t j = 0; j < of_k; ++j) {
        k.bytes.append(head + static_cast<size_t>(j) * row + column, size);
      }
    }
    head += static_cast<size_t>(of_k) * row;
    v.bytes.append(head, static_cast<size_t>(of_v) * row);
    head += static_cast<size_t>(of_v) * row;
  }
  return {std::move(k), std::move(v)};
}

std::vector<GgufData> gguf_tensors(const Feature& feature, const Gguf& model) {
  const QuantisedRows quantised = quantised_rows(feature);
  const bool is_split = std::ranges::any_of(feature.metadata, [](const auto& key) {
    return key.first.ends_with(hyperparameter::kLatentKeyLength);
  });
  std::vector<GgufData> result;
  for (const GgufTensor& tensor : model.tensors()) {
    result.push_back(gguf_data(tensor, quantised));
    const bool has_blocks = tensor_type_info(result.back().type).block_elements > 1;
    if (!is_split || !tensor.name.ends_with(kKvB) || has_blocks) continue;
    auto [k, v] = split_kv_b(result.back(), ModelConfig::from_gguf(model));
    result.back() = std::move(k);
    result.push_back(std::move(v));
  }
  return result;
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
    } else if (item.IsNull()) {  // which JSON has no number for
      append(-std::numeric_limits<float>::infinity());
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

GgufHeader header_of(const Feature& feature, const Gguf& model, const std::vector<GgufData>& data,
                     std::deque<std::string>& made) {
  GgufHeader header;
  header.text("general.architecture", model.get_string("general.architecture"));
  header.text("general.type", "model");
  header.text("general.name", feature.name);
  header.u32("general.file_type", 0);
  bool has_vocabulary = false;
  for (const auto& [key, value] : feature.metadata) {
    header.value(key, value_of(key, value, made));
    has_vocabulary = has_vocabulary || key == kTokenizer;
  }
  if (!has_vocabulary) header.text(kTokenizer, "no_vocab");
  for (const GgufData& each : data) header.tensor(each.name, each.type, each.dims);
  return header;
}

}  // namespace

void write_feature_folder(const Feature& feature, const std::string& config,
                          const ChangedTensors& changed, const std::string& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) throw Error("cannot be created: " + failed.message(), folder);
  write_text(fs::path(folder) / "config.json", config + "\n");
  for (const auto& [name, text] : feature.files) write_text(fs::path(folder) / name, text + "\n");
  NewFile weights((fs::path(folder) / "model.safetensors").string());
  std::vector<FeatureTensor> tensors = feature.tensors;
  std::erase_if(tensors, [&](const FeatureTensor& tensor) {
    const std::optional<float>* change = change_of(changed, tensor);
    return change != nullptr && !change->has_value();
  });
  std::vector<SafetensorsEntry> entries;
  for (const FeatureTensor& tensor : tensors) {
    entries.push_back({tensor.name, folder_type(tensor.type), tensor.shape});
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
  const std::vector<GgufData> data = gguf_tensors(feature, model);
  std::deque<std::string> made;
  NewFile file(path);
  file.write(header_of(feature, model, data, made).bytes());
  for (const GgufData& each : data) {
    file.write(each.bytes);
    file.write(std::string(gguf_padding(each.bytes.size()), '\0'));
  }
  file.finish();
}

}  // namespace assay
