#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "assay/convert/array_file.h"

namespace assay {

// The safetensors format: eight bytes with the length of a JSON header, the header with type, shape
// and offsets of each tensor, then their data (github.com/huggingface/safetensors, "Format").
class SafetensorsWriter : public ArrayWriter {
 public:
  explicit SafetensorsWriter(std::string path) : path_(std::move(path)) {}

  void add(const std::string& name, ArrayType type, std::vector<int64_t> shape,
           ArraySource source) override;
  void close() override;

 private:
  struct Entry {
    std::string name;
    ArrayInfo info;
    ArraySource source;
  };
  std::string header() const;

  std::string path_;
  std::vector<Entry> entries_;
  std::set<std::string> names_;
};

// Throws Error if `path` is not such a file, its header does not match it, or two arrays share
// bytes.
std::unique_ptr<ArrayReader> open_safetensors(const std::string& path);

}  // namespace assay
