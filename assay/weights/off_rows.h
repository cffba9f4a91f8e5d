#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace assay {

// Sums over a row of a tensor.
struct RowSquares {
  double difference = 0.0;  // of the squares of got - ref
  double storing = 0.0;     // the same that the types cost
  double of_storing = 0.0;  // of the squares of what storing each block costs
  double ref = 0.0;         // of the reference's squares
};

// Rows of a tensor that are off by too much.
struct OffRows {
  int64_t first = 0;
  int64_t last = 0;  // included
  double rel_l2 = 0.0;
  double expected = 0.0;
  bool is_one_of_several = false;
};

// The first such rows: neighbours that make up blocks enough for what quantisers choose differently
// to average out, and are off by more than `k` times of what storing them costs, as where a thread
// or the last rows take another path than the others. Nothing where there are none, and where all
// rows are.
std::optional<OffRows> off_rows(std::span<const RowSquares> rows, double k);

}  // namespace assay
