#include "assay/synth/folder_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string_view>
#include <utility>

#include "assay/synth/random_weights.h"
#include "base/error.h"
#include "engine/hf/expert_tensors.h"
#include "engine/hf/linear_attention.h"
#include "engine/hf/tensor_forms.h"
#include "model/hf_names.h"
#include "model/hyperparameter_keys.h"

namespace assay {
namespace {

constexpr int64_t kMostTensors = 1'000'000;

// The numbers of a GGUF file's tensor, as a folder has them: without what is added.
struct Numbers {
  Numbers(const SynthTensor& of, uint64_t seed) : tensor(&of), random(seed, of.name) {}

  void row(int64_t number, float* out) const { tensor->draw_row(random, number, out); }
  // Element `column` of `count` rows from `first` on.
  void column(int64_t column, int64_t first, int64_t count, float* out, int64_t step = 1) const {
    for (int64_t i = 0; i < count; ++i) {
      random.draw((first + i) * tensor->columns() + column, 1, tensor->mean, tensor->deviation,
                  out + i * step);
    }
  }

  const SynthTensor* tensor;
  RandomWeights random;
};

class FolderLister {
 public:
  FolderLister(const SynthConfig& config, std::span<const SynthTensor> tensors, uint64_t seed)
      : config_(config.hf), file_(*config.file), tensors_(tensors), seed_(seed) {
    for (const SynthTensor& tensor : tensors) by_name_.emplace(tensor.name, &tensor);
    if (config_.n_layers * (config_.n_experts + 1) * 3 > kMostTensors) {
      throw Error(fmt::format("has experts of more than {} tensors", kMostTensors),
                  config.file->path());
    }
  }

  std::vector<FolderTensor> list() && {
    for (const SynthTensor& tensor : tensors_) {
      const bool is_tied = !tensor.drawn_as.empty();
      if (tensor.values.empty() && !is_tied) add(tensor);  // the others are in config.json
    }
    for (const std::string_view key : hyperparameter::kXieluKeys) put_numbers_of_layers(key);
    return std::move(made_);
  }

 private:
  // Of an activation, which a GGUF file has as a key.
  void put_numbers_of_layers(std::string_view key) {
    if (file_.find(key) == nullptr) return;
    const std::vector<double> numbers = file_.get_floats(key);
    const bool is_alpha = key.find(".alpha") != key.npos;  // others are without an axis
    for (size_t layer = 0; layer < numbers.size(); ++layer) {
      put(fmt::format("{}.{}.mlp.act_fn.{}", config_.model->layers, layer,
                      key.substr(key.find('.') + 1)),
          is_alpha ? std::vector<int64_t>{1} : std::vector<int64_t>(),
          [number = static_cast<float>(numbers[layer])](int64_t, float* out) { *out = number; });
    }
  }

  void add(const SynthTensor& tensor) {
    const size_t dot = tensor.name.rfind('.');
    const std::string suffix = tensor.name.substr(dot);
    if (tensor.op == nullptr) {
      const std::string_view stem = std::string_view(tensor.name).substr(0, dot);
      if (tensor.dims.size() == 3) return put_matrices(stem, suffix, tensor);
      return put_plain(std::string(hf_modules(*config_.model, stem).back()) + suffix, tensor);
    }
    const OpSpec& op = *tensor.op;
    const std::string layer = tensor.name.substr(4, tensor.name.find('.', 4) - 3);  // "7."
    const std::string path = std::string(config_.model->layers) + "." + layer;
    if (op.kind == OpKind::kExpertLinear) return add_experts(tensor, path, suffix);
    if (has_state(op.kind)) return add_gates(tensor, path);
    if (op.suffix != kWeightSuffix) {  // a parameter
      return put_plain(path + std::string(hf_module(*config_.model, op.tensor_name())), tensor);
    }
    const std::string module = path + std::string(module_of(op));
    if (shared_module_rows(config_, op) > 0) return add_shared(module + suffix, tensor);
    if (op.kind == OpKind::kSelect && config_.model->choice_bias_row) {
      return put_rows(module, {1, tensor.columns()}, tensor, 0);
    }
    if (op.kind == OpKind::kAttention || op.kind == OpKind::kSelect || op.kind == OpKind::kAdd ||
        op.kind == OpKind::kStreams) {
      return put_plain(module, tensor);
    }
    if (op.kind == OpKind::kConv && suffix == ".bias") return put_plain(module + suffix, tensor);
    if (op.norm_width == Width::kSsmGroup) return put_as_vector(module + suffix, tensor);
    if (op.kind == OpKind::kConv) {
      return put_reordered(module + suffix, tensor, {tensor.rows(), 1, tensor.columns()});
    }
    if (const auto columns = linear_attention_columns(config_, op); !columns.empty()) {
      return put_columns(module + suffix, tensor, columns);
    }
    if (op.weight_per_head && config_.model->norm_modules) {
      for (int64_t head = 0; head < tensor.rows(); ++head) {
        put_rows(fmt::format("{}.norms.{}{}", module, head, suffix), {tensor.columns()}, tensor,
                 head);
      }
      return;
    }
    if (config_.model->transposed && op.kind == OpKind::kLinear && tensor.dims.size() == 2) {
      return put_transposed(module + suffix, tensor);
    }
    put_reordered(module + suffix, tensor);
  }

  // Of each residual stream behind the first, as modules of their own.
  void put_matrices(std::string_view stem, const std::string& suffix, const SynthTensor& tensor) {
    const std::string module = std::string(hf_modules(*config_.model, stem).back()) + suffix;
    const int64_t rows = tensor.dims[1];
    for (int64_t i = 0; i < tensor.dims[2]; ++i) {
      put_rows(fmt::format(fmt::runtime(module), i), {rows, tensor.columns()}, tensor, i * rows);
    }
  }

  // A module that has the rows of another tensor, too: the gate of linear attention, or what the
  // gate of a feed-forward multiplies.
  void add_shared(const std::string& module, const SynthTensor& tensor) {
    static constexpr std::pair<std::string_view, std::string_view> kShared[] = {
        {"attn_qkv", "attn_gate"}, {"ffn_gate", "ffn_up"}};
    for (const auto& [first, second] : kShared) {
      std::string other = tensor.name;
      const size_t at = other.find(first);
      if (at == std::string::npos) continue;
      other.replace(at, first.size(), second);
      return put_shared(module, {&tensor, by_name_.at(other)});
    }
  }

  // Where a module was renamed, published files have the older name, which comes last.
  std::string_view module_of(const OpSpec& op) const {
    const std::string special = fmt::format("{}/{}", op.tensor, checkpoint_op(op.out));
    for (const HfName& name : config_.model->names) {
      if (name.tensor == special) return name.module;
    }
    return hf_modules(*config_.model, op.tensor).back();
  }

  void put(std::string name, std::vector<int64_t> shape, WeightsFile::FillRow fill) {
    constexpr std::string_view kModel = "model.";
    if (!config_.model->stored_model.empty() && name.starts_with(kModel)) {
      name.replace(0, kModel.size(), config_.model->stored_model);
    }
    made_.push_back({std::move(name), std::move(shape), std::move(fill)});
  }

  // Rows of a tensor from `first` on.
  void put_rows(std::string name, std::vector<int64_t> shape, const SynthTensor& tensor,
                int64_t first) {
    put(std::move(name), std::move(shape),
        [numbers = Numbers(tensor, seed_), first](int64_t row, float* out) {
          numbers.row(first + row, out);
        });
  }
  void put_plain(std::string name, const SynthTensor& tensor) {
    put_rows(std::move(name), {tensor.dims.rbegin(), tensor.dims.rend()}, tensor, 0);
  }

  // All rows one after the other.
  void put_as_vector(std::string name, const SynthTensor& tensor) {
    put(std::move(name), {tensor.rows() * tensor.columns()},
        [numbers = Numbers(tensor, seed_)](int64_t, float* out) {
          const int64_t columns = numbers.tensor->columns();
          for (int64_t row = 0; row < numbers.tensor->rows(); ++row) {
            numbers.row(row, out + row * columns);
          }
        });
  }

  void put_transposed(std::string name, const SynthTensor& tensor) {
    put(std::move(name), tensor.dims, [numbers = Numbers(tensor, seed_)](int64_t row, float* out) {
      numbers.column(row, 0, numbers.tensor->rows(), out);
    });
  }

  // The vectors of a state's decay; the logarithm of 1, which all of the one are, is 0. And of what
  // Mamba-2 adds of its values.
  void add_gates(const SynthTensor& tensor, const std::string& path) {
    const bool is_step = tensor.name.ends_with(".bias");
    const bool is_skip = tensor.name.ends_with(kSkipTensor);
    const std::string_view stem = is_step ? kStepTensor : is_skip ? kSkipTensor : tensor.op->tensor;
    const bool of_product = is_step && has_step_product(*tensor.op);
    const std::string name =
        path + std::string(hf_module(*config_.model, stem)) + (of_product ? ".bias" : "");
    if (is_step) return put_reordered(name, tensor, tensor.dims);
    if (is_skip && tensor.dims.size() == 1) return put_plain(name, tensor);
    std::vector<int64_t> dims = {tensor.dims.back()};
    if (is_skip) {
      return put(name, dims,
                 [numbers = Numbers(tensor, seed_), count = dims[0]](int64_t, float* out) {
                   numbers.column(0, 0, count, out);
                 });
    }
    if (has_step_product(*tensor.op)) dims.push_back(tensor.columns());
    put(name, dims, [count = dims.back()](int64_t, float* out) { std::fill_n(out, count, 0.0F); });
  }

  // Column `order[i]` is column i of the file.
  void put_columns(std::string name, const SynthTensor& tensor, std::vector<int64_t> order) {
    put(std::move(name), {tensor.dims.rbegin(), tensor.dims.rend()},
        [numbers = Numbers(tensor, seed_), order = std::move(order)](int64_t row, float* out) {
          std::vector<float> values(order.size());
          numbers.row(row, values.data());
          for (size_t i = 0; i < order.size(); ++i) out[order[i]] = values[i];
        });
  }

  // In transformers' order of the rows of q, k and v, or of value heads.
  void put_reordered(std::string name, const SynthTensor& tensor) {
    put_reordered(std::move(name), tensor, {tensor.dims.rbegin(), tensor.dims.rend()});
  }
  void put_reordered(std::string name, const SynthTensor& tensor, std::vector<int64_t> shape) {
    const std::vector<int64_t> order = module_rows(config_, *tensor.op);
    if (order.empty()) return put_rows(std::move(name), std::move(shape), tensor, 0);
    const auto from = std::make_shared<std::vector<int64_t>>(order.size());
    for (size_t row = 0; row < order.size(); ++row) {
      (*from)[static_cast<size_t>(order[row])] = static_cast<int64_t>(row);
    }
    const bool is_bias = tensor.dims.size() == 1;
    put(std::move(name), std::move(shape),
        [numbers = Numbers(tensor, seed_), from, is_bias](int64_t row, float* out) {
          if (!is_bias) return numbers.row((*from)[static_cast<size_t>(row)], out);
          for (size_t i = 0; i < from->size(); ++i) numbers.column((*from)[i], 0, 1, out + i);
        });
  }

  // A module whose rows are those of several tensors.
  void put_shared(std::string name, const std::vector<const SynthTensor*>& parts) {
    std::vector<Numbers> numbers;
    std::vector<std::pair<size_t, int64_t>> from;  // the part, and its row
    for (const SynthTensor* part : parts) {
      from.resize(from.size() + static_cast<size_t>(part->rows()));
      numbers.emplace_back(*part, seed_);
    }
    for (size_t part = 0; part < parts.size(); ++part) {
      const std::vector<int64_t> order = module_rows(config_, *parts[part]->op);
      for (size_t row = 0; row < order.size(); ++row) {
        from[static_cast<size_t>(order[row])] = {part, static_cast<int64_t>(row)};
      }
    }
    const std::vector<int64_t> shape = {std::ssize(from), parts.front()->columns()};
    put(std::move(name), shape,
        [numbers = std::move(numbers), from = std::move(from)](int64_t row, float* out) {
          const auto& [part, number] = from[static_cast<size_t>(row)];
          numbers[part].row(number, out);
        });
  }

  void add_experts(const SynthTensor& tensor, const std::string& layer, const std::string& suffix) {
    const HfExperts form = config_.model->experts;
    const std::string_view stem = tensor.op->tensor;
    const std::string path = layer + std::string(expert_path(form, stem));
    const bool is_bias = suffix == ".bias";
    if (path.find("{}") != std::string::npos) {
      const int64_t rows = is_bias ? 1 : tensor.dims[1];
      std::vector<int64_t> shape = {tensor.columns()};
      if (!is_bias) shape.insert(shape.begin(), rows);
      for (int64_t expert = 0; expert < tensor.dims.back(); ++expert) {
        put_rows(fmt::format(fmt::runtime(path), expert) + suffix, shape, tensor, expert * rows);
      }
      return;
    }
    if (form == HfExperts::kOfRows) return put_rows_of_experts(path, tensor);
    if (stem == "ffn_up_exps") return;  // with gate
    const std::string name = path + (is_bias ? "_bias" : "");
    if (stem == "ffn_down_exps") return put_together(name, {&tensor});
    std::string up = tensor.name;
    up.replace(up.find("gate"), 4, "up");
    put_together(name, {&tensor, by_name_.at(up)});
  }

  // [experts * inner, width], where the last product is transposed.
  void put_rows_of_experts(const std::string& name, const SynthTensor& tensor) {
    const int64_t columns = tensor.columns();
    const int64_t rows = tensor.dims[1];
    if (tensor.op->tensor != "ffn_down_exps") {
      return put_rows(name, {tensor.dims[2] * rows, columns}, tensor, 0);
    }
    put(name, {tensor.dims[2] * columns, rows},
        [numbers = Numbers(tensor, seed_), columns, rows](int64_t row, float* out) {
          numbers.column(row % columns, row / columns * rows, rows, out);
        });
  }

  // All experts' rows of one matrix, or of two.
  void put_together(const std::string& name, const std::vector<const SynthTensor*>& parts) {
    std::vector<Numbers> numbers;
    for (const SynthTensor* part : parts) numbers.emplace_back(*part, seed_);
    const auto count = std::ssize(parts);
    const std::vector<int64_t>& dims = parts[0]->dims;
    const int64_t columns = dims[0];
    if (dims.size() == 2) {  // biases
      return put(name, {dims[1], count * columns}, [=](int64_t expert, float* out) {
        std::vector<float> row(static_cast<size_t>(columns));
        for (int64_t part = 0; part < count; ++part) {
          numbers[static_cast<size_t>(part)].row(expert, row.data());
          for (int64_t i = 0; i < columns; ++i) {
            out[i * count + part] = row[static_cast<size_t>(i)];
          }
        }
      });
    }
    const int64_t rows = dims[1];
    const bool in_turn = config_.model->experts == HfExperts::kInterleaved;
    if (in_turn || config_.model->experts == HfExperts::kTransposed) {
      return put(name, {dims[2], columns, count * rows}, [=](int64_t row, float* out) {
        for (int64_t part = 0; part < count; ++part) {
          numbers[static_cast<size_t>(part)].column(row % columns, row / columns * rows, rows,
                                                    out + part * (in_turn ? 1 : rows),
                                                    in_turn ? count : 1);
        }
      });
    }
    put(name, {dims[2], count * rows, columns}, [=](int64_t row, float* out) {
      const int64_t expert = row / (count * rows);
      const int64_t within = row % (count * rows);
      numbers[static_cast<size_t>(within / rows)].row(expert * rows + within % rows, out);
    });
  }

  const HfConfig& config_;
  const Gguf& file_;
  std::span<const SynthTensor> tensors_;
  uint64_t seed_;
  std::map<std::string_view, const SynthTensor*> by_name_;
  std::vector<FolderTensor> made_;
};

}  // namespace

int64_t FolderTensor::rows() const {
  if (shape.empty()) return 1;
  return std::accumulate(shape.begin(), shape.end() - 1, int64_t{1}, std::multiplies());
}

std::vector<FolderTensor> folder_tensors(const SynthConfig& config,
                                         std::span<const SynthTensor> tensors, uint64_t seed) {
  return FolderLister(config, tensors, seed).list();
}

}  // namespace assay
