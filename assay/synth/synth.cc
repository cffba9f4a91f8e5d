#include "assay/synth/synth.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "assay/synth/random_weights.h"
#include "assay/synth/tensor_list.h"
#include "assay/synth/type_mix.h"
#include "base/error.h"
#include "base/new_file.h"
#include "base/sha256.h"
#include "base/thread_pool.h"
#include "engine/gguf_writer.h"
#include "kernels/quantize/quantize.h"
#include "model/hyperparameter_keys.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPieceElements = int64_t{1} << 22;

// The output file, hashed while it is written.
class Output {
 public:
  explicit Output(const std::string& path) : file_(path) {}

  void write(std::string_view bytes) {
    file_.write(bytes);
    hash_.update(std::as_bytes(std::span(bytes)));
    bytes_ += bytes.size();
  }
  uint64_t bytes() const { return bytes_; }

  std::string finish() {
    file_.finish();
    return hash_.hex();
  }

 private:
  NewFile file_;
  Sha256 hash_;
  uint64_t bytes_ = 0;
};

uint32_t as_u32(int64_t value) {
  return static_cast<uint32_t>(value);  // the config's limits are far below
}

void add_hyperparameters(GgufHeader& header, const SynthConfig& config) {
  const ModelConfig& model = config.model;
  const std::string prefix = std::string(model.architecture->name) + ".";
  const auto whole = [&](std::string_view key, int64_t value) {
    header.u32(prefix + std::string(key), as_u32(value));
  };
  const auto real = [&](std::string_view key, double value) {
    header.f32(prefix + std::string(key), static_cast<float>(value));
  };
  whole(hyperparameter::kVocabularySize, model.n_vocab);
  whole(hyperparameter::kContextLength, model.context_length);
  whole(hyperparameter::kEmbeddingLength, model.embedding_length);
  whole(hyperparameter::kBlockCount, model.n_layers);
  whole(hyperparameter::kFeedForwardLength, model.feed_forward_length);
  whole(hyperparameter::kHeadCount, model.n_heads);
  whole(hyperparameter::kHeadCountKv, model.n_kv_heads);
  if (model.head_dim * model.n_heads != model.embedding_length) {
    whole(hyperparameter::kKeyLength, model.head_dim);
    whole(hyperparameter::kValueLength, model.head_dim);
  }
  real(hyperparameter::norm_eps(model.architecture->norm), static_cast<double>(model.norm_eps));
  for (size_t i = 0; i < kMultiplierKeys.size(); ++i) {
    if (model.multipliers[i] > 0.0) real(kMultiplierKeys[i], model.multipliers[i]);
  }
  if (model.architecture->position != PositionKind::kRotary) return;
  whole(hyperparameter::kRopeDimensions, model.rotary_dim);
  real(hyperparameter::kRopeBase, model.rope_freq_base);
  if (model.rope_freq_scale != 1.0) {
    header.text(prefix + std::string(hyperparameter::kRopeScaling), "linear");
    real(hyperparameter::kRopeFactor, 1.0 / model.rope_freq_scale);
  }
  if (model.architecture->rope_long_short) {
    whole(hyperparameter::kRopeOriginalContext, model.rope_original_context_length);
  }
  if (!config.rope_long.empty()) real(hyperparameter::kRopeAttentionFactor, model.rope_attn_factor);
  if (model.sliding_window > 0) whole(hyperparameter::kSlidingWindow, model.sliding_window);
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
                       const Gguf* vocabulary, const std::vector<SynthTensor>& tensors) {
  GgufHeader header;
  header.text("general.architecture", config.model.architecture->name);
  header.text("general.type", "model");
  header.text("general.name", config.model.name + " (random weights)");
  header.text("general.description",
              fmt::format("random weights by assay synth, seed {}", options.seed));
  header.u32("general.file_type", options.type->number);
  header.u32("general.quantization_version", 2);
  add_hyperparameters(header, config);
  add_vocabulary(header, vocabulary, config.model.n_vocab);
  for (const SynthTensor& tensor : tensors) header.tensor(tensor.name, tensor.type, tensor.dims);
  return header;
}

std::string size_text(uint64_t bytes) {
  const auto count = static_cast<double>(bytes);
  return count < 1e9 ? fmt::format("{:.1f} MB", count / 1e6)
                     : fmt::format("{:.1f} GB", count / 1e9);
}

void check_space(const std::string& path, uint64_t needed) {
  std::error_code failed;
  const fs::path folder = fs::absolute(path, failed).parent_path();
  const fs::space_info space = fs::space(folder, failed);
  if (failed) throw Error("cannot be written: " + failed.message(), path);
  if (space.available < needed) {
    throw Error(fmt::format("needs {}, {} are free", size_text(needed), size_text(space.available)),
                path, "choose another disk or a smaller --type");
  }
}

// Makes the tensors' data in pieces of whole rows, each piece with all threads.
class Maker {
 public:
  Maker(uint64_t seed, ThreadPool& pool, Output& output) : seed_(seed), pool_(pool), out_(output) {}

  template <typename Progress>
  void make(const SynthTensor& tensor, const Progress& progress) {
    const int64_t columns = tensor.columns();
    const size_t stride = row_bytes(tensor.type, columns);
    const int64_t rows_at_once = std::max<int64_t>(1, kPieceElements / columns);
    const RandomWeights random(seed_, tensor.name);
    uint64_t size = 0;
    for (int64_t first = 0; first < tensor.rows(); first += rows_at_once) {
      const int64_t rows = std::min(rows_at_once, tensor.rows() - first);
      piece_.resize(static_cast<size_t>(rows) * stride);
      pool_.parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
        std::vector<float> row(static_cast<size_t>(columns));
        for (int64_t i = begin; i < end; ++i) {
          random.draw((first + i) * columns, columns, tensor.mean, tensor.deviation, row.data());
          const float* values = tensor.values.empty() ? row.data() : tensor.values.data();
          quantize_row(tensor.type, values, columns, &piece_[static_cast<size_t>(i) * stride]);
        }
      });
      out_.write({piece_.data(), piece_.size()});
      size += piece_.size();
      progress();
    }
    out_.write(std::string(gguf_padding(size), '\0'));
  }

 private:
  uint64_t seed_;
  ThreadPool& pool_;
  Output& out_;
  std::string piece_;
};

}  // namespace

SynthResult synthesise(const SynthConfig& config, const SynthOptions& options,
                       const std::function<void(int64_t done, int64_t total)>& on_progress) {
  std::vector<SynthTensor> tensors = tensor_list(config);
  choose_types(config, *options.type, options.pure, tensors);
  std::optional<Gguf> vocabulary;
  if (!options.vocab_path.empty()) vocabulary.emplace(options.vocab_path);
  const GgufHeader header =
      make_header(config, options, vocabulary ? &*vocabulary : nullptr, tensors);
  const std::string head = header.bytes();
  const uint64_t total = head.size() + header.data_bytes();
  check_space(options.path, total);

  ThreadPool pool(options.n_threads);
  Output output(options.path);
  output.write(head);
  Maker maker(options.seed, pool, output);
  SynthResult result;
  for (const SynthTensor& tensor : tensors) {
    maker.make(tensor, [&] {
      if (on_progress) {
        on_progress(static_cast<int64_t>(output.bytes()), static_cast<int64_t>(total));
      }
    });
    result.n_parameters += tensor.rows() * tensor.columns();
  }
  result.n_tensors = static_cast<int64_t>(tensors.size());
  result.bytes = output.bytes();
  result.sha256 = output.finish();
  return result;
}

}  // namespace assay
