#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "assay/convert/array_file.h"

namespace assay {

using NpyType = ArrayType;
using NpySource = ArraySource;

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

  // Adds the array `name` of `shape`, in C order. Its data is asked of `source` in close(), piece
  // by piece, so that an archive may be larger than memory. Throws Error if the name was added
  // before or `shape` has no size.
  void add(const std::string& name, NpyType type, std::vector<int64_t> shape,
           NpySource source) override;

  // The same with the data copied now.
  void add(const std::string& name, std::vector<int64_t> shape, std::span<const float> values);
  void add(const std::string& name, std::vector<int64_t> shape, std::span<const double> values);
  void add(const std::string& name, std::vector<int64_t> shape, std::span<const int64_t> values);

  // Writes the archive. Throws Error naming the file, or what a source threw.
  void close() override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace assay
