#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace assay::mistakes {

// A tensor at several token positions: [rows, columns], one row a position.
struct Matrix {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<float> values;

  Matrix() = default;
  Matrix(int64_t n_rows, int64_t n_columns)
      : rows(n_rows), columns(n_columns), values(static_cast<size_t>(n_rows * n_columns)) {}

  bool empty() const { return values.empty(); }
  float* row(int64_t i) { return values.data() + i * columns; }
  const float* row(int64_t i) const { return values.data() + i * columns; }
  std::span<const float> row_span(int64_t i) const {
    return {row(i), static_cast<size_t>(columns)};
  }
};

}  // namespace assay::mistakes
