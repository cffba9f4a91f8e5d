#include "assay/synth/synth.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "assay/synth/folder_tensors.h"
#include "assay/synth/random_weights.h"
#include "assay/synth/safetensors_header.h"
#include "assay/synth/tensor_list.h"
#include "assay/synth/type_mix.h"
#include "base/error.h"
#include "base/new_file.h"
#include "engine/gguf_writer.h"
#include "engine/hf/scales.h"
#include "model/hyperparameter_keys.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

// The order of the first keys; the others follow by name.
constexpr std::string_view kKeyOrder[] = {hyperparameter::kVocabularySize,
                                          hyperparameter::kContextLength,
                                          hyperparameter::kEmbeddingLength,
                                          hyperparameter::kBlockCount,
                                          hyperparameter::kFeedForwardLength,
                                          hyperparameter::kHeadCount,
                                          hyperparameter::kHeadCountKv,
                                          hyperparameter::kKeyLength,
                                          hyperparameter::kValueLength,
                                          hyperparameter::norm_eps(NormKind::kRms),
                                          hyperparameter::norm_eps(NormKind::kLayer),
                                          kMultiplierKeys[0],
                                          kMultiplierKeys[1],
                                          kMultiplierKeys[2],
                                          kMultiplierKeys[3],
                                          hyperparameter::kRopeDimensions,
                                          hyperparameter::kRopeBase,
                                          hyperparameter::kRopeScaling,
                                          hyperparameter::kRopeFactor,
                                          hyperparameter::kRopeOriginalContext,
                                          hyperparameter::kRopeAttentionFactor,
                                          hyperparameter::kSlidingWindow};

void add_hyperparameters(GgufHeader& header, const SynthConfig& config) {
  const auto& metadata = config.file->metadata();
  std::set<std::string> written;
  for (const std::string_view key : kKeyOrder) {
    const auto found = metadata.find(fmt::format("{}.{}", config.model.architecture->name, key));
    if (found == metadata.end()) continue;
    header.value(found->first, found->second);
    written.insert(found->first);
  }
  for (const auto& [key, value] : metadata) {
    if (!key.starts_with("general.") && !written.contains(key)) header.value(key, value);
  }
}

void add_vocabulary(GgufHeader& header, const Gguf* vocabulary, int64_t n_vocab) {
  if (vocabulary == nullptr) {
    header.text("tokenizer.ggml.model", "no_vocab");
    return;
  }
  const auto count = static_cast<int64_t>(vocabulary->get_strings("tokenizer.ggml.tokens").size());
  if (count != n_vocab) {
    throw Error(fmt::format("holds a vocabulary of {} tokens, the model has {}", count, n_vocab),
                vocabulary->path(), "give the vocabulary that belongs to the model");
  }
  for (const auto& [key, value] : vocabulary->metadata()) {
    if (key.starts_with("tokenizer.")) header.value(key, value);
  }
}

GgufHeader make_header(const SynthConfig& config, const SynthOptions& options,
                       const std::vector<SynthTensor>& tensors) {
  std::optional<Gguf> vocabulary;
  if (!options.vocab_path.empty()) vocabulary.emplace(options.vocab_path);
  GgufHeader header;
  header.text("general.architecture", config.model.architecture->name);
  header.text("general.type", "model");
  header.text("general.name", config.model.name + " (random weights)");
  header.text("general.description",
              fmt::format("random weights by assay synth, seed {}", options.seed));
  header.u32("general.file_type", options.type->number);
  header.u32("general.quantization_version", 2);
  add_hyperparameters(header, config);
  add_vocabulary(header, vocabulary ? &*vocabulary : nullptr, config.model.n_vocab);
  for (const SynthTensor& tensor : tensors) {
    const bool is_bare = tensor.op != nullptr && tensor.op->bare;
    const size_t length = tensor.name.size() - (is_bare ? kWeightSuffix.size() : 0);
    header.tensor(tensor.name.substr(0, length), tensor.type, tensor.dims);
  }
  return header;
}

// "attn_k" of "blk.7.attn_k.weight"; of other tensors than weights nothing that has a scale.
std::string stem_of(const std::string& name) {
  if (!name.ends_with(kWeightSuffix)) return {};
  const size_t first = name.starts_with("blk.") ? name.find('.', 4) + 1 : 0;
  return name.substr(first, name.size() - kWeightSuffix.size() - first);
}

void write_gguf(const SynthConfig& config, const SynthOptions& options,
                const std::vector<SynthTensor>& tensors, const SynthProgress& on_progress,
                SynthResult& result) {
  const GgufHeader header = make_header(config, options, tensors);
  const std::string head = header.bytes();
  result.path = options.path;
  result.bytes = head.size() + header.data_bytes();
  result.n_tensors = std::ssize(tensors);
  WeightsFile file(result.path, result.bytes, options.n_threads, on_progress);
  file.write(head);
  for (const SynthTensor& tensor : tensors) {
    const RandomWeights random(options.seed,
                               tensor.drawn_as.empty() ? tensor.name : tensor.drawn_as);
    const std::string stem = stem_of(tensor.name);
    file.write_rows(tensor.type, tensor.rows(), tensor.columns(), [&](int64_t row, float* out) {
      tensor.draw_row(random, row, out);
      if (const double factor = row_scale(config.hf, stem, row); factor != 1.0) {
        for (int64_t i = 0; i < tensor.columns(); ++i) {
          out[i] = static_cast<float>(static_cast<double>(out[i]) * factor);
        }
      }
      if (tensor.added == 0.0F) return;  // -0 stays -0
      for (int64_t i = 0; i < tensor.columns(); ++i) out[i] += tensor.added;
    });
    const uint64_t size =
        static_cast<uint64_t>(tensor.rows()) * row_bytes(tensor.type, tensor.columns());
    file.write(std::string(gguf_padding(size), '\0'));
  }
  result.sha256 = file.finish();
}

void write_folder(const SynthConfig& config, const SynthOptions& options,
                  const std::vector<SynthTensor>& sources, const SynthProgress& on_progress,
                  SynthResult& result) {
  const std::vector<FolderTensor> tensors = folder_tensors(config, sources, options.seed);
  std::vector<SafetensorsEntry> entries;
  for (const FolderTensor& tensor : tensors) {
    entries.push_back({tensor.name, options.type->base, tensor.shape});
  }
  const std::string head = safetensors_header(entries);
  std::error_code failed;
  fs::create_directories(options.path, failed);
  if (failed) throw Error("cannot be created: " + failed.message(), options.path);
  result.path = (fs::path(options.path) / "model.safetensors").string();
  result.bytes = head.size() + safetensors_data_bytes(entries);
  result.n_tensors = std::ssize(tensors);
  WeightsFile file(result.path, result.bytes, options.n_threads, on_progress);
  file.write(head);
  for (const FolderTensor& tensor : tensors) {
    file.write_rows(options.type->base, tensor.rows(), tensor.columns(), tensor.fill);
  }
  NewFile json((fs::path(options.path) / "config.json").string());
  json.write(config.json);
  json.finish();
  result.sha256 = file.finish();
}

}  // namespace

int64_t count_parameters(const SynthConfig& config) {
  constexpr int64_t kMost = int64_t{1} << 50;  // sizes from a hostile config would overflow
  int64_t count = 0;
  for (const SynthTensor& tensor : tensor_list(config)) {
    count += tensor.rows() * tensor.columns();
    if (count > kMost) {
      throw Error(fmt::format("has more than {} parameters", kMost), config.file->path());
    }
  }
  return count;
}

SynthResult synthesise(const SynthConfig& config, const SynthOptions& options,
                       const SynthProgress& on_progress) {
  SynthResult result;
  result.n_parameters = count_parameters(config);
  std::vector<SynthTensor> tensors = tensor_list(config);
  if (options.folder) {
    write_folder(config, options, tensors, on_progress, result);
  } else {
    choose_types(config, *options.type, options.pure, tensors);
    write_gguf(config, options, tensors, on_progress, result);
  }
  return result;
}

}  // namespace assay
