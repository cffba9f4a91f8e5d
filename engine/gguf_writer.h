#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gguf.h"
#include "kernels/tensor_type.h"

namespace assay {

// The part of a GGUF file (version 3) that comes before the tensors' data: metadata, and where each
// tensor is. The data follows in the order of tensor(), each padded to kGgufAlignment.
class GgufHeader {
 public:
  void text(std::string_view key, std::string_view value);
  void u32(std::string_view key, uint32_t value);
  void f32(std::string_view key, float value);
  void boolean(std::string_view key, bool value);
  // A value that was read from another file. The reader widens numbers; they are written as the
  // tokenizer's keys have them: whole numbers as u32 or, in arrays, i32, others as f32. Throws
  // Error where that would lose something.
  void value(std::string_view key, const GgufValue& value);

  // `dims` in GGUF order: dims[0] is the length of a row and fits the type's blocks.
  void tensor(std::string_view name, TensorType type, const std::vector<int64_t>& dims);

  // The header's bytes, padded: the first tensor's data comes next.
  std::string bytes() const;
  // Of the data after the header.
  uint64_t data_bytes() const { return data_bytes_; }

 private:
  void key(std::string_view name, uint32_t type);

  std::string keys_;
  std::string entries_;
  uint64_t n_keys_ = 0;
  uint64_t n_tensors_ = 0;
  uint64_t data_bytes_ = 0;
};

inline constexpr uint64_t kGgufAlignment = 32;

// Bytes from `size` to the next multiple of kGgufAlignment.
constexpr uint64_t gguf_padding(uint64_t size) {
  return (kGgufAlignment - size % kGgufAlignment) % kGgufAlignment;
}

}  // namespace assay
