#include "assay/synth/weights_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "kernels/quantize/quantize.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPieceElements = int64_t{1} << 22;

std::string size_text(uint64_t bytes) {
  const auto count = static_cast<double>(bytes);
  return count < 1e9 ? fmt::format("{:.1f} MB", count / 1e6)
                     : fmt::format("{:.1f} GB", count / 1e9);
}

const std::string& checked_space(const std::string& path, uint64_t needed) {
  std::error_code failed;
  const fs::path folder = fs::absolute(path, failed).parent_path();
  const fs::space_info space = fs::space(folder, failed);
  if (failed) {
    throw Error("cannot be written: " + failed.message(), path, "make its folder first");
  }
  if (space.available < needed) {
    throw Error(fmt::format("needs {}, {} are free", size_text(needed), size_text(space.available)),
                path, "choose another disk or a smaller --type");
  }
  return path;
}

}  // namespace

WeightsFile::WeightsFile(const std::string& path, uint64_t bytes, int n_threads,
                         SynthProgress on_progress)
    : expected_(bytes),
      pool_(n_threads),
      on_progress_(std::move(on_progress)),
      file_(checked_space(path, bytes)) {}

void WeightsFile::write(std::string_view bytes) {
  file_.write(bytes);
  hash_.update(std::as_bytes(std::span(bytes)));
  bytes_ += bytes.size();
  if (on_progress_) on_progress_(static_cast<int64_t>(bytes_), static_cast<int64_t>(expected_));
}

void WeightsFile::write_rows(TensorType type, int64_t rows, int64_t columns, const FillRow& fill) {
  const size_t stride = row_bytes(type, columns);
  const int64_t rows_at_once = std::max<int64_t>(1, kPieceElements / columns);
  for (int64_t first = 0; first < rows; first += rows_at_once) {
    const int64_t count = std::min(rows_at_once, rows - first);
    piece_.resize(static_cast<size_t>(count) * stride);
    pool_.parallel_for(count, 1, [&](int64_t begin, int64_t end) {
      std::vector<float> row(static_cast<size_t>(columns));
      for (int64_t i = begin; i < end; ++i) {
        fill(first + i, row.data());
        quantize_row(type, row.data(), columns, &piece_[static_cast<size_t>(i) * stride]);
      }
    });
    write({piece_.data(), piece_.size()});
  }
}

std::string WeightsFile::finish() {
  file_.finish();
  return hash_.hex();
}

}  // namespace assay
