#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "assay/convert/array_file.h"

namespace assay {

// Writes an NPZ archive: what numpy.load() reads as named arrays. Format: "NPY format" in numpy's
// reference, version 1.0 or 2.0 of its header, in a ZIP archive without compression, through
// libzip.
//
// The archive appears at its path whole, when close() returns, or not at all.
class NpzWriter : public ArrayWriter {
 public:
  explicit NpzWriter(std::string path);
  ~NpzWriter() override;
  NpzWriter(const NpzWriter&) = delete;
  NpzWriter& operator=(const NpzWriter&) = delete;

  void add(const std::string& name, ArrayType type, std::vector<int64_t> shape,
           ArraySource source) override;

  // The same for 64-bit integers, which are copied at once.
  void add(const std::string& name, std::vector<int64_t> shape, std::span<const int64_t> values);
  void close() override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace assay
