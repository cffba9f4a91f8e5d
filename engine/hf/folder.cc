#include "engine/hf/folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/json_file.h"
#include "engine/hf/class_defaults.h"
#include "engine/hf/config.h"
#include "engine/hf/expert_tensors.h"
#include "engine/hf/keys.h"
#include "engine/hf/linear_attention.h"
#include "engine/hf/parts.h"
#include "engine/hf/scales.h"
#include "engine/hf/stored_weights.h"
#include "engine/hf/tensor_forms.h"
#include "engine/model_config.h"
#include "kernels/reference/dequantize.h"
#include "model/hyperparameter_keys.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr char kConfig[] = "config.json";
constexpr char kOtherModels[] = "the folder is incomplete, or config.json is another model's";
constexpr char kUnasked[] = "is there, and config.json does not ask for it";

bool is_there(const fs::path& path) {
  std::error_code failed;
  return fs::exists(path, failed);
}

// The tensors of the GGUF file that the folder stands for.
class TensorList {
 public:
  TensorList(const std::string& folder, HfConfig& config, StoredWeights& weights,
             GgufContent& content)
      : folder_(folder), config_(config), weights_(weights), content_(content) {}

  void build() {
    weights_.drop_prefix(hf_module(*config_.model, "token_embd"));
    const OpSpec embedding = {.kind = OpKind::kEmbedding, .tensor = "token_embd"};
    const OpSpec norm = {.kind = OpKind::kNorm, .tensor = config_.architecture->output_norm};
    require(embedding, "", "");
    check_vocabulary();
    const bool is_plain = config_.architecture->plain_output_norm;
    if (config_.architecture->embedding_norm && !is_plain) {
      require({.kind = OpKind::kNorm, .tensor = "token_embd_norm", .bias = Presence::kAlways}, "",
              "");
    }
    if (config_.architecture->position == PositionKind::kLearned) {
      require({.kind = OpKind::kEmbedding, .tensor = "position_embd"}, "", "");
    }
    if (!is_plain) require(norm, "", "");
    add_output();
    for (const auto& [name, values] : config_.rope_factors) {
      const auto bytes = std::as_bytes(std::span(values));
      const std::string& kept =
          content_.made.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      put(name, {TensorType::kF32, {std::ssize(values)}, std::as_bytes(std::span(kept))});
    }
    add_tables_of_layers();
    for (int64_t layer = 0; layer < config_.n_layers; ++layer) add_layer(layer);
    for (const std::string_view key : hyperparameter::kXieluKeys) {
      if (content_.metadata.contains(key)) read_number_of_layers(key);
    }
    std::vector<std::string> ignored;
    for (int64_t i = 0; i < config_.n_ignored_layers; ++i) {
      ignored.push_back(fmt::format("{}.{}.", config_.model->layers, config_.n_layers + i));
    }
    for (int64_t i = config_.n_layers - config_.n_shared_kv_layers; i < config_.n_layers; ++i) {
      for (const char* module : {"k_proj", "v_proj", "k_norm", "v_norm"}) {
        ignored.push_back(fmt::format("{}.{}.self_attn.{}.", config_.model->layers, i, module));
      }
    }
    for (int64_t i = 0; config_.model->unread_post_norm && i < config_.n_layers; ++i) {
      if (config_.parts.experts[static_cast<size_t>(i)]) continue;
      for (const std::string_view module : hf_modules(*config_.model, "post_ffw_norm")) {
        ignored.push_back(fmt::format("{}.{}.{}.", config_.model->layers, i, module));
      }
    }
    if (!config_.model->left_out.empty()) ignored.emplace_back(config_.model->left_out);
    weights_.reject_leftovers(config_.model->model_type, ignored);
  }

 private:
  void put(const std::string& name, const FormedTensor& tensor) {
    names_.insert(name);
    content_.tensors.push_back({name, tensor.type, tensor.dims, tensor.data});
  }

  // A tensor whose type and dimensions Assay can read.
  FormedTensor readable(const StoredTensor& stored) const {
    if (!stored.type) {
      weights_.fail(stored.name, fmt::format("has the dtype {}", stored.dtype),
                    "Assay reads F32, F16 and BF16");
    }
    FormedTensor tensor{*stored.type, {stored.shape.rbegin(), stored.shape.rend()}, stored.data};
    const bool empty = std::ranges::find(tensor.dims, 0) != tensor.dims.end();
    if (empty || tensor.dims.empty() || tensor.dims.size() > 4) {
      weights_.fail(stored.name, fmt::format("has the shape [{}]", fmt::join(stored.shape, ", ")),
                    "Assay reads 1 to 4 dimensions of 1 or more");
    }
    return tensor;
  }

  // As a GGUF file has it.
  FormedTensor form(const StoredTensor& stored, const OpSpec& op, bool is_norm_weight) {
    const FormedTensor tensor = readable(stored);
    try {
      if (is_norm_weight) return plus_one(tensor, content_.made);
      return aligned(formed(tensor, config_, op, content_.made), content_.made);
    } catch (const Error& error) {
      weights_.fail(stored.name, error.what());
    }
  }

  // The tensors of one module, if the files have it.
  void add(const OpSpec& op, const std::string& from, const std::string& to) {
    if (op.kind == OpKind::kExpertLinear) return add_experts(op, from, to);
    if (op.width == Width::kOtherStreams) return add_matrices(op, to);
    if (has_state(op.kind)) return add_gates(op, from, to);
    const bool is_parameter = op.kind == OpKind::kAttention || op.kind == OpKind::kSelect ||
                              op.kind == OpKind::kAdd || op.kind == OpKind::kStreams ||
                              op.suffix != kWeightSuffix;
    if (is_parameter) return add_vector(op, from, to);
    for (const std::string_view module : hf_modules(*config_.model, op.tensor)) {
      const std::string path = from + std::string(module);
      const std::string name = to + std::string(op.tensor);
      const bool plus =
          op.kind == OpKind::kNorm && config_.model->norm_plus_one && op.n_inputs == 1;
      if (const StoredTensor* weight = weights_.find(path + ".weight")) {
        put(name + ".weight", scaled(form(*weight, op, plus), config_, op.tensor, content_.made));
      } else if (op.weight_per_head) {
        add_heads(op, path, name);
      }
      if (const StoredTensor* bias = weights_.find(path + ".bias")) {
        put(name + ".bias", form(*bias, op, false));
      }
    }
  }

  void add_experts(const OpSpec& op, const std::string& from, const std::string& to) {
    const FindTensor find = [&](const std::string& name) -> std::optional<FormedTensor> {
      const StoredTensor* stored = weights_.find(name);
      return stored == nullptr ? std::nullopt : std::optional(readable(*stored));
    };
    for (const std::string_view suffix : {".weight", ".bias"}) {
      const auto tensor =
          expert_tensor(config_, {folder_, from, op.tensor, suffix}, find, content_.made);
      if (!tensor) continue;
      put(to + std::string(op.tensor) + std::string(suffix), aligned(*tensor, content_.made));
    }
  }

  // A matrix for each residual stream behind the first, as modules of their own.
  void add_matrices(const OpSpec& op, const std::string& to) {
    std::vector<FormedTensor> matrices;
    for (int64_t i = 0; i + 1 < config_.n_streams; ++i) {
      const std::string name = matrix_name(op, i);
      const StoredTensor* stored = weights_.find(name);
      if (stored == nullptr) missing(name);
      matrices.push_back(readable(*stored));
    }
    try {
      put(to + std::string(op.tensor) + ".weight", stacked(matrices, content_.made));
    } catch (const Error& error) {
      weights_.fail(matrix_name(op, 0), error.what());
    }
  }
  std::string matrix_name(const OpSpec& op, int64_t number) const {
    const std::string module(hf_module(*config_.model, op.tensor));
    return fmt::format(fmt::runtime(module + ".weight"), number);
  }

  // The vectors of a state's decay, and of what Mamba-2 adds of its values.
  void add_gates(const OpSpec& op, const std::string& from, const std::string& to) {
    for (const std::string_view tensor : {op.tensor, kStepTensor, kSkipTensor}) {
      const std::string_view path = hf_module(*config_.model, tensor);
      const StoredTensor* stored = path.empty() ? nullptr : weights_.find(from + std::string(path));
      if (stored == nullptr) continue;
      const FormedTensor values = form(*stored, op, false);
      const std::string name = to + std::string(tensor) + (tensor == kStepTensor ? ".bias" : "");
      put(name, tensor == op.tensor ? minus_exp(values, content_.made) : values);
    }
  }

  // Numbers that belong to no module of their own: a parameter, without ".weight" in its name.
  void add_vector(const OpSpec& op, const std::string& from, const std::string& to) {
    for (const std::string_view path : hf_modules(*config_.model, op.tensor_name())) {
      const StoredTensor* stored = weights_.find(from + std::string(path));
      if (stored == nullptr) continue;
      FormedTensor tensor = readable(*stored);
      const bool is_row = op.kind == OpKind::kSelect && config_.model->choice_bias_row;
      if (is_row && tensor.dims.size() == 2 && tensor.dims.back() == 1) tensor.dims.pop_back();
      const std::string_view suffix =
          op.kind == OpKind::kSelect ? config_.architecture->choice_bias_suffix : op.suffix;
      put(to + std::string(op.tensor) + std::string(suffix), aligned(tensor, content_.made));
    }
  }

  // A number of the activation, which a GGUF file states as a key.
  void read_number_of_layers(std::string_view key) {
    std::vector<float> values;
    for (int64_t layer = 0; layer < config_.n_layers; ++layer) {
      const std::string name = fmt::format("{}.{}.mlp.act_fn.{}", config_.model->layers, layer,
                                           key.substr(key.find('.') + 1));
      const StoredTensor* stored = weights_.find(name);
      if (stored == nullptr) missing(name);
      if (!stored->type || std::ranges::any_of(stored->shape, [](auto dim) { return dim != 1; })) {
        weights_.fail(name, "is not one number of F32, F16 or BF16");
      }
      values.push_back(number(*stored->type, stored->data));
    }
    content_.metadata[std::string(key)] = array_of_floats(values, content_.made);
  }

  // A norm of each head, as modules of their own.
  void add_heads(const OpSpec& op, const std::string& path, const std::string& name) {
    std::vector<FormedTensor> rows;
    const StoredTensor* head = nullptr;
    const int64_t most = op.width == Width::kQ ? config_.n_heads : config_.n_kv_heads;
    for (int64_t i = 0; i < most; ++i) {
      head = weights_.find(fmt::format("{}.norms.{}.weight", path, i));
      if (head == nullptr) break;
      rows.push_back(readable(*head));
    }
    if (rows.empty()) return;
    try {
      put(name + ".weight", stacked(rows, content_.made));
    } catch (const Error& error) {
      weights_.fail(path + ".norms", error.what());
    }
  }

  static float number(TensorType type, std::span<const std::byte> data) {
    float value = 0.0F;
    dequantize_row(type, data.data(), 1, &value);
    return value;
  }

  [[noreturn]] void missing(const std::string& name) const {
    throw Error(fmt::format("tensor '{}' is missing", name), folder_, kOtherModels);
  }

  void check_has(const OpSpec& op, const std::string& from, const std::string& to) const {
    const std::string name = to + std::string(op.tensor);
    if (op.kind == OpKind::kSelect || op.kind == OpKind::kAdd) {  // may do without
      const bool asked = !config_.model->choice_bias || has_bias(config_, op);
      if (asked || !names_.contains(name + std::string(config_.architecture->choice_bias_suffix)))
        return;
      weights_.fail(from + std::string(hf_module(*config_.model, op.tensor_name())), kUnasked,
                    kOtherModels);
    }
    if (has_state(op.kind) || op.suffix != kWeightSuffix) {
      return check_has_parameters(op, from, to);
    }
    const std::string_view known = hf_module(*config_.model, op.tensor);
    const std::string module = from + std::string(known.empty() ? op.tensor : known);
    const bool is_module = op.kind != OpKind::kStreams;
    if (!names_.contains(name + ".weight")) missing(module + (is_module ? ".weight" : ""));
    if (op.bias == Presence::kNever) return;
    const bool has = names_.contains(name + ".bias");
    if (has == has_bias(config_, op)) return;
    if (!has) missing(module + ".bias");
    weights_.fail(module + ".bias", kUnasked, kOtherModels);
  }

  // That are no modules' weights.
  void check_has_parameters(const OpSpec& op, const std::string& from,
                            const std::string& to) const {
    const auto check = [&](std::string_view tensor, std::string_view suffix,
                           std::string_view of_module = "") {
      if (names_.contains(fmt::format("{}{}{}", to, tensor, suffix))) return;
      missing(fmt::format("{}{}{}", from, hf_module(*config_.model, tensor), of_module));
    };
    check(op.tensor_name(), "");
    if (has_state(op.kind)) check(kStepTensor, ".bias", has_step_product(op) ? ".bias" : "");
    if (op.kind == OpKind::kSsm) check(kSkipTensor, "");
  }

  void require(const OpSpec& op, const std::string& from, const std::string& to) {
    add(op, from, to);
    check_has(op, from, to);
  }

  // The tensors so far are those of the embedding.
  void check_vocabulary() const {
    const int64_t rows = content_.tensors.back().dims.back();
    if (rows == config_.n_vocab) return;
    throw Error(
        fmt::format("vocab_size is {}, and the embedding has {} rows", config_.n_vocab, rows),
        (fs::path(folder_) / kConfig).string(), kOtherModels);
  }

  void add_output() {
    const bool is_optional = config_.architecture->output_bias == Presence::kOptional;
    const OpSpec output = {
        .kind = OpKind::kEmbedding,
        .tensor = "output",
        .bias = is_optional && config_.parts.logits_bias ? Presence::kAlways : Presence::kNever};
    const std::string bias = std::string(hf_module(*config_.model, "output")) + ".bias";
    if (is_optional && !config_.parts.logits_bias && weights_.find(bias) != nullptr) {
      weights_.fail(bias, "is there, and lm_head_bias in config.json does not ask for it");
    }
    if (!config_.tied_is_stated || !config_.tied) {
      add(output, "", "");
      if (config_.tied_is_stated) check_has(output, "", "");
      return;
    }
    // Files may have it here as well. Where it is another matrix, transformers ties nothing
    // (since its version 5), and its converters write both.
    const auto stored = [&](std::string_view tensor) {
      return weights_.find(std::string(hf_module(*config_.model, tensor)) + ".weight");
    };
    const StoredTensor* matrix = stored("output");
    const StoredTensor* embedding = stored("token_embd");
    if (matrix == nullptr && embedding != nullptr && splits_tied(config_)) {
      put("output.weight", scaled(readable(*embedding), config_, "output", content_.made));
    }
    if (matrix == nullptr || embedding == nullptr) return;
    if (splits_tied(config_) || !std::ranges::equal(matrix->data, embedding->data)) {
      add(output, "", "");
    }
  }

  // What is in front of the layers, with parts of each.
  void add_tables_of_layers() {
    if (config_.ple_length == 0) return;
    for (const LayerVariant& variant : config_.architecture->variants) {
      for (const OpSpec& op : variant.ops) {
        if (op.of_model && !names_.contains(std::string(op.tensor) + ".weight")) {
          require(op, "", "");
        }
      }
    }
  }

  // What config.json says of the tensors by which this architecture's layers differ: a layer that
  // has another one, or lacks it, would be computed as another network's.
  void check_variants(int64_t layer, const std::function<bool(std::string_view)>& has) const {
    std::set<std::string_view> stems;
    const auto add_optional = [&](std::span<const OpSpec> ops) {
      for (const OpSpec& op : ops) {
        if (op.if_present) stems.insert(op.tensor);
      }
    };
    add_optional(config_.architecture->layer);
    for (const LayerVariant& variant : config_.architecture->variants) {
      add_optional(variant.ops);
      for (const auto stem : {variant.tensor, variant.also, variant.without}) stems.insert(stem);
    }
    for (const std::string_view stem : stems) {
      const bool is_shared = stem == "ffn_gate_shexp" || stem == "ffn_up_shexp";
      if (is_shared && !has_part(config_, layer, "ffn_gate_inp")) continue;
      if (has(stem) == stated_part(config_, layer, stem).value_or(has(stem))) continue;
      const std::string_view module = hf_module(*config_.model, stem);
      throw Error(fmt::format("layer {} {} {}{}, which {} {}", layer, has(stem) ? "has" : "lacks",
                              module.empty() ? stem : module, kWeightSuffix, kConfig,
                              has(stem) ? "does not ask for" : "asks for"),
                  folder_, kOtherModels);
    }
  }

  // A tensor of Gemma 4's or MiMo's by which layers differ, and the key that says which have it.
  void check_agrees(int64_t layer, std::string_view tensor, const char* key, bool has) const {
    if (has == has_part(config_, layer, tensor)) return;
    throw Error(
        fmt::format("layer {} {} {}{}, which {} in {} {}", layer, has ? "has" : "lacks",
                    hf_module(*config_.model, tensor), tensor == "attn_sinks" ? "" : kWeightSuffix,
                    key, kConfig, has ? "does not ask for" : "asks for"),
        folder_);
  }

  void add_layer(int64_t layer) {
    const Architecture& architecture = *config_.architecture;
    const std::string from = fmt::format("{}.{}.", config_.model->layers, layer);
    const std::string to = fmt::format("blk.{}.", layer);
    std::set<std::string> done;
    const auto add_all = [&](std::span<const OpSpec> ops) {
      for (const OpSpec& op : ops) {
        const bool is_left_out = op.of_model || (is_of_kv(op.tensor) && config_.shares_kv(layer)) ||
                                 is_of_other_layers(config_, op, layer);
        if (op.tensor.empty() || is_left_out) continue;
        if (done.insert(op.tensor_name()).second) add(op, from, to);
      }
    };
    add_all(architecture.layer);
    for (const LayerVariant& variant : architecture.variants) add_all(variant.ops);
    const auto has = [&](std::string_view stem) {
      return names_.contains(to + std::string(stem) + ".weight");
    };
    if (config_.model->windowed_sinks) {
      check_agrees(layer, "attn_sinks", "layer_types", has("attn_sinks"));
    }
    if (has_checkpoint(architecture, Checkpoint::kPleInput)) {
      check_agrees(layer, "attn_v", "attention_k_eq_v", has("attn_v"));
      check_agrees(layer, "ffn_gate_inp", "enable_moe_block", has("ffn_gate_inp"));
      check_agrees(layer, "inp_gate", "hidden_size_per_layer_input", has("inp_gate"));
    }
    for (const LayerVariant& variant : architecture.variants) {
      if (variant.without != "ffn_norm" || has(variant.without) != config_.parallel_residual)
        continue;
      throw Error(fmt::format("layer {} {} the norm before its feed-forward, and "
                              "use_parallel_residual in {} is {}",
                              layer, has(variant.without) ? "has" : "lacks", kConfig,
                              config_.parallel_residual),
                  folder_);
    }
    check_variants(layer, has);
    const auto is_true = [&](std::string_view key) {
      return key == "use_parallel_residual" && config_.parallel_residual;
    };
    for (const OpSpec& op : layer_ops(architecture, has, is_true)) {
      if (!op.tensor.empty() && !op.of_model) check_has(op, from, to);
    }
  }

  const std::string& folder_;
  HfConfig& config_;
  StoredWeights& weights_;
  GgufContent& content_;
  std::set<std::string> names_;
};

std::string name_of(const std::string& folder) {
  std::error_code failed;
  const fs::path path = fs::absolute(folder, failed).lexically_normal();
  return path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
}

}  // namespace

bool is_folder(const std::string& path) {
  std::error_code failed;
  return fs::is_directory(path, failed);
}

GgufContent read_hf_folder(const std::string& path) {
  GgufContent content;
  const std::string config_path = (fs::path(path) / kConfig).string();
  if (!is_there(config_path)) {
    throw Error(fmt::format("is a directory without {}", kConfig), path,
                "give a model file (GGUF) or a Hugging Face folder");
  }
  const std::span<const std::byte> text = content.files.emplace_back(config_path).bytes();
  if (std::ssize(text) > kMaxConfigBytes) {
    throw Error(fmt::format("has more than {} bytes", kMaxConfigBytes), config_path, kConfigHint);
  }
  HfConfig config =
      read_hf_config({reinterpret_cast<const char*>(text.data()), text.size()}, config_path);
  StoredWeights weights(path, content.files);
  if (config.text_part != nullptr) weights.keep_text(config.text_part->others);
  if (!config.model->stored_model.empty()) weights.rename(config.model->stored_model);
  content.metadata = std::move(config.metadata);
  content.made = std::move(config.made);
  content.metadata["general.name"] = std::string_view(content.made.emplace_back(name_of(path)));
  TensorList(path, config, weights, content).build();
  return content;
}

}  // namespace assay
