#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/tensor_type.h"

namespace assay::testing_support {

// Writes GGUF files byte by byte, good ones and broken ones: it checks nothing.
class GgufBuilder {
 public:
  enum Type : uint32_t {
    kUint8 = 0,
    kUint32 = 4,
    kInt32 = 5,
    kFloat32 = 6,
    kBool = 7,
    kString = 8,
    kArray = 9,
    kUint64 = 10,
    kFloat64 = 12,
  };

  uint32_t version = 3;
  std::string magic = "GGUF";
  uint64_t extra_keys = 0;     // told in the header, not there
  uint64_t extra_tensors = 0;  // likewise
  uint64_t alignment = 32;

  template <typename T>
  static std::string raw(T value) {
    std::string bytes(sizeof(T), '\0');
    std::memcpy(bytes.data(), &value, sizeof(T));
    return bytes;
  }
  static std::string raw_string(std::string_view text) {
    return raw(uint64_t{text.size()}).append(text);
  }

  // `payload` is the value's bytes after its type.
  GgufBuilder& key(std::string_view name, uint32_t type, const std::string& payload) {
    keys_ += raw_string(name) + raw(type) + payload;
    ++n_keys_;
    return *this;
  }
  GgufBuilder& u32(std::string_view name, uint32_t value) { return key(name, kUint32, raw(value)); }
  GgufBuilder& f32(std::string_view name, float value) { return key(name, kFloat32, raw(value)); }
  GgufBuilder& f64(std::string_view name, double value) { return key(name, kFloat64, raw(value)); }
  GgufBuilder& boolean(std::string_view name, bool value) {
    return key(name, kBool, raw(static_cast<uint8_t>(value)));
  }
  GgufBuilder& text(std::string_view name, std::string_view value) {
    return key(name, kString, raw_string(value));
  }
  GgufBuilder& strings(std::string_view name, const std::vector<std::string>& values) {
    std::string payload = raw(uint32_t{kString}) + raw(uint64_t{values.size()});
    for (const std::string& value : values) payload += raw_string(value);
    return key(name, kArray, payload);
  }
  GgufBuilder& floats(std::string_view name, const std::vector<float>& values) {
    std::string payload = raw(uint32_t{kFloat32}) + raw(uint64_t{values.size()});
    for (const float value : values) payload += raw(value);
    return key(name, kArray, payload);
  }
  GgufBuilder& doubles(std::string_view name, const std::vector<double>& values) {
    std::string payload = raw(uint32_t{kFloat64}) + raw(uint64_t{values.size()});
    for (const double value : values) payload += raw(value);
    return key(name, kArray, payload);
  }
  GgufBuilder& ints(std::string_view name, const std::vector<int32_t>& values) {
    std::string payload = raw(uint32_t{kInt32}) + raw(uint64_t{values.size()});
    for (const int32_t value : values) payload += raw(value);
    return key(name, kArray, payload);
  }

  // A tensor with its entry as given; `data` is put at the next multiple of the alignment.
  GgufBuilder& tensor(std::string_view name, uint32_t type, const std::vector<uint64_t>& dims,
                      const std::string& data) {
    data_.resize((data_.size() + alignment - 1) / alignment * alignment, '\0');
    return tensor_at(name, type, dims, data_.size(), data);
  }
  GgufBuilder& tensor_at(std::string_view name, uint32_t type, const std::vector<uint64_t>& dims,
                         uint64_t offset, const std::string& data) {
    entries_ += raw_string(name) + raw(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) entries_ += raw(dim);
    entries_ += raw(type) + raw(offset);
    data_ += data;
    ++n_tensors_;
    return *this;
  }
  GgufBuilder& f32_tensor(std::string_view name, const std::vector<uint64_t>& dims,
                          const std::vector<float>& values) {
    std::string data(values.size() * sizeof(float), '\0');
    std::memcpy(data.data(), values.data(), data.size());
    return tensor(name, static_cast<uint32_t>(TensorType::kF32), dims, data);
  }

  std::string bytes() const {
    std::string file = magic + raw(version) + raw(n_tensors_ + extra_tensors) +
                       raw(n_keys_ + extra_keys) + keys_ + entries_;
    file.resize((file.size() + alignment - 1) / alignment * alignment, '\0');
    return file + data_;
  }

  // Writes the file and gives its path.
  std::string write(const std::string& path) const { return write_bytes(path, bytes()); }
  static std::string write_bytes(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

 private:
  std::string keys_;
  std::string entries_;
  std::string data_;
  uint64_t n_keys_ = 0;
  uint64_t n_tensors_ = 0;
};

}  // namespace assay::testing_support
