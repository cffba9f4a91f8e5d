#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/new_file.h"
#include "base/sha256.h"
#include "base/thread_pool.h"
#include "kernels/tensor_type.h"

namespace assay {

// Gets the bytes written so far and the total; may be empty.
using SynthProgress = std::function<void(int64_t done, int64_t total)>;

// A file of weights, hashed while it is written. Tensors are made in pieces of whole rows, each
// piece with all threads: memory use is a few tens of megabytes for any size.
class WeightsFile {
 public:
  // `bytes` is the size that the file will have. Throws Error if it cannot be created, or if the
  // disk has less space.
  WeightsFile(const std::string& path, uint64_t bytes, int n_threads, SynthProgress on_progress);

  void write(std::string_view bytes);
  // `fill` writes the row of this number to out[columns]; threads call it.
  using FillRow = std::function<void(int64_t row, float* out)>;
  void write_rows(TensorType type, int64_t rows, int64_t columns, const FillRow& fill);

  // Puts the file in its place; its SHA-256.
  std::string finish();

 private:
  uint64_t expected_;
  ThreadPool pool_;
  SynthProgress on_progress_;
  NewFile file_;
  Sha256 hash_;
  uint64_t bytes_ = 0;
  std::string piece_;
};

}  // namespace assay
