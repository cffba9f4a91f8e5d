#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engine/gguf.h"
#include "kernels/quantize/quantize.h"
#include "kernels/reference/dequantize.h"

namespace assay {

// A model file that is like another but for some tensors and keys.
class EditedModel {
 public:
  using Values = std::vector<float>;

  explicit EditedModel(const std::string& path) : file_(std::make_shared<Gguf>(path)) {
    metadata = file_->metadata();
    tensors = file_->tensors();
  }

  Values values(const std::string& name) const {
    const GgufTensor& tensor = *file_->find_tensor(name);
    Values all(static_cast<size_t>(tensor.rows() * tensor.columns()));
    dequantize_row(tensor.type, tensor.data.data(), std::ssize(all), all.data());
    return all;
  }

  // Of the tensor as it is now.
  Values values_now(const std::string& name) const {
    const GgufTensor& tensor = *std::ranges::find(tensors, name, &GgufTensor::name);
    Values all(static_cast<size_t>(tensor.rows() * tensor.columns()));
    dequantize_row(tensor.type, tensor.data.data(), std::ssize(all), all.data());
    return all;
  }

  // Stores other values, as `type`.
  void put(const std::string& name, const Values& values, TensorType type) {
    GgufTensor& tensor = at(name);
    std::string bytes(row_bytes(type, std::ssize(values)), '\0');
    quantize_row(type, values.data(), std::ssize(values), bytes.data());
    tensor.type = type;
    tensor.data = std::as_bytes(std::span<const char>(made_.emplace_back(std::move(bytes))));
  }

  // Changes the values, and stores them as what they were.
  void edit(const std::string& name, const std::function<void(Values&)>& change) {
    Values all = values(name);
    change(all);
    put(name, all, at(name).type);
  }

  // Changes each block of a tensor's bytes, and says that it is of another type, if one is given.
  void edit_blocks(const std::string& name, const std::function<void(uint8_t* block)>& change,
                   std::optional<TensorType> type = {}) {
    GgufTensor& tensor = at(name);
    std::string bytes(tensor.data.size(), '\0');
    std::memcpy(bytes.data(), tensor.data.data(), bytes.size());
    for (size_t i = 0; i < bytes.size(); i += tensor_type_info(tensor.type).block_bytes) {
      change(reinterpret_cast<uint8_t*>(bytes.data() + i));
    }
    tensor.type = type.value_or(tensor.type);
    tensor.data = std::as_bytes(std::span<const char>(made_.emplace_back(std::move(bytes))));
  }

  // The values of all matrices whose rows are whole blocks of another type, stored as that.
  void store_as(TensorType type) {
    for (const GgufTensor& tensor : file_->tensors()) {
      if (tensor.dims.size() < 2) continue;
      if (tensor.columns() % tensor_type_info(type).block_elements != 0) continue;
      put(tensor.name, values(tensor.name), type);
    }
  }

  void remove(const std::string& name) {
    std::erase_if(tensors, [&](const GgufTensor& tensor) { return tensor.name == name; });
  }

  GgufTensor& at(const std::string& name) {
    for (GgufTensor& tensor : tensors) {
      if (tensor.name == name) return tensor;
    }
    throw std::out_of_range(name);
  }

  // This must outlive it.
  Gguf gguf(const std::string& path = "edited.gguf") const {
    GgufContent content;
    content.metadata = metadata;
    content.tensors = tensors;
    return Gguf(path, std::move(content));
  }

  std::map<std::string, GgufValue, std::less<>> metadata;
  std::vector<GgufTensor> tensors;

 private:
  std::shared_ptr<Gguf> file_;
  std::deque<std::string> made_;
};

}  // namespace assay
