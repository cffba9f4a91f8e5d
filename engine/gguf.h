#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/mapped_file.h"
#include "kernels/tensor_type.h"

namespace assay {

// A tensor as the file describes it. Checked: the type is known, the sizes do not overflow, the
// data lies inside the file.
struct GgufTensor {
  std::string name;
  TensorType type = TensorType::kF32;
  std::vector<int64_t> dims;  // GGUF order: dims[0] is the length of a row
  std::span<const std::byte> data;

  int64_t columns() const { return dims[0]; }
  int64_t rows() const;
};

// Numbers of an array as they stand in the mapped file, where they need not be aligned. A hostile
// file may be one large array: a copy, and more so a wider one, would take its size again.
template <typename T>
class GgufNumbers {
 public:
  using value_type = T;

  GgufNumbers() = default;
  explicit GgufNumbers(std::span<const std::byte> bytes) : bytes_(bytes) {}

  size_t size() const { return bytes_.size() / sizeof(T); }
  T operator[](size_t i) const {
    T value;
    std::memcpy(&value, bytes_.data() + i * sizeof(T), sizeof(T));
    return value;
  }
  bool operator==(const GgufNumbers& other) const {
    return std::ranges::equal(bytes_, other.bytes_);
  }

 private:
  std::span<const std::byte> bytes_;
};

// An array in the metadata, of the file's own type; strings point into the mapped file, too.
struct GgufArray {
  std::variant<GgufNumbers<uint8_t>, GgufNumbers<int8_t>, GgufNumbers<uint16_t>,
               GgufNumbers<int16_t>, GgufNumbers<uint32_t>, GgufNumbers<int32_t>,
               GgufNumbers<uint64_t>, GgufNumbers<int64_t>, GgufNumbers<float>, GgufNumbers<double>,
               GgufNumbers<bool>, std::vector<std::string_view>>
      items;
  size_t size() const;
};

using GgufValue = std::variant<int64_t, uint64_t, double, bool, std::string_view, GgufArray>;

// What a GGUF file holds, or a folder that says the same in another format (hf/folder.h).
struct GgufContent {
  std::vector<MappedFile> files;  // what the metadata and tensors point to
  std::deque<std::string> made;   // and bytes that no file has in this form
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::vector<GgufTensor> tensors;
};

// A model file in the GGUF format, version 2 or 3, little-endian; or a Hugging Face folder, which
// is shown as the GGUF file of the same model. Files are hostile until proven otherwise: the
// constructor checks every count, length, offset and type before it uses it.
class Gguf {
 public:
  // Throws Error that names the file and the key or tensor at fault.
  explicit Gguf(const std::string& path);
  // `path` is only for messages.
  Gguf(const std::string& path, GgufContent content);

  // Reads the data of a GGUF file's tensors into memory of our own. Worth its time (that of a copy
  // of the file) where the weights will be read many times.
  void read_tensors(ThreadPool& pool);

  // Maps the pages of the tensors' data at once, for a use that reads all of it. Does nothing where
  // the files are larger than half of the system's available memory.
  void map_tensors(ThreadPool& pool) const;

  // Gives back the memory of the metadata's arrays, which are a vocabulary and may be 2 % of a
  // small model; find() knows them no longer.
  void release_arrays();

  const std::string& path() const { return path_; }
  uint32_t version() const { return version_; }  // 0 of a folder
  size_t file_bytes() const;                     // of all files
  // Of the file; of a folder, of config.json and then its safetensors files, by name.
  std::string sha256() const;
  const std::map<std::string, GgufValue, std::less<>>& metadata() const {
    return content_.metadata;
  }
  const std::vector<GgufTensor>& tensors() const { return content_.tensors; }

  // Null if there is no such key or tensor.
  const GgufValue* find(std::string_view key) const;
  const GgufTensor* find_tensor(std::string_view name) const;

  // Typed access. The first form throws Error if the key is missing, both if its type or range is
  // wrong. Integers of any width convert where the value fits, floats only from floats or integers.
  int64_t get_int(std::string_view key) const;
  int64_t get_int(std::string_view key, int64_t fallback) const;
  double get_float(std::string_view key) const;
  double get_float(std::string_view key, double fallback) const;
  bool get_bool(std::string_view key, bool fallback) const;
  std::string_view get_string(std::string_view key) const;
  std::string_view get_string(std::string_view key, std::string_view fallback) const;
  // Empty if the key is missing.
  std::vector<std::string_view> get_strings(std::string_view key) const;
  std::vector<int64_t> get_ints(std::string_view key) const;
  std::vector<double> get_floats(std::string_view key) const;
  std::vector<bool> get_bools(std::string_view key) const;

 private:
  void read_file();
  void index_tensors();

  std::string path_;
  GgufContent content_;
  uint32_t version_ = 0;
  size_t data_begin_ = 0;  // of the tensors in a GGUF file
  std::map<std::string, size_t, std::less<>> tensor_index_;
};

}  // namespace assay
