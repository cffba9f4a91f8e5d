#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace assay {

// The element types of the arrays, little-endian.
enum class NpyType : uint8_t { kFloat32, kFloat64, kInt64 };

// The next bytes of an array's data, appended to `bytes`, which is empty; at least one.
using NpySource = std::function<void(std::string& bytes)>;

// Writes an NPZ archive: what numpy.load() reads as named arrays. Format: "NPY format" in numpy's
// reference, version 1.0 or 2.0 of its header, in a ZIP archive without compression, through
// libzip.
//
// The archive appears at its path whole, when close() returns, or not at all.
class NpzWriter {
 public:
  explicit NpzWriter(std::string path);
  ~NpzWriter();
  NpzWriter(const NpzWriter&) = delete;
  NpzWriter& operator=(const NpzWriter&) = delete;

  // Adds the array `name` of `shape`, in C order. Its data is asked of `source` in close(), piece
  // by piece, so that an archive may be larger than memory. Throws Error if the name was added
  // before or `shape` has no size.
  void add(const std::string& name, NpyType type, std::vector<int64_t> shape, NpySource source);

  // The same with the data copied now.
  void add(const std::string& name, std::vector<int64_t> shape, std::span<const float> values);
  void add(const std::string& name, std::vector<int64_t> shape, std::span<const double> values);
  void add(const std::string& name, std::vector<int64_t> shape, std::span<const int64_t> values);

  // Writes the archive. Throws Error naming the file, or what a source threw.
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace assay
