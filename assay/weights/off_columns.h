#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "assay/weights/weights_comparison.h"

namespace assay {

// Sums over a column of a tensor.
struct ColumnSquares {
  double difference = 0.0;  // of the squares of got - ref
  double storing = 0.0;     // the same that the types cost
  double ref = 0.0;         // of the reference's squares
  double along = 0.0;       // of ref * (got - ref)

  void add(const ColumnSquares& other) {
    difference += other.difference;
    storing += other.storing;
    ref += other.ref;
    along += other.along;
  }
};

// Columns first to last, included, of each `period`, which are off by too much.
struct OffColumns {
  int64_t first = 0;
  int64_t last = 0;
  int64_t period = 0;
  double rel_l2 = 0.0;
  double expected = 0.0;
  bool is_one_of_several = false;
};

// The places of each so many columns, a power of two up to the largest block, at which every
// column is off by more than `k` times of what storing it costs, and by `k` times more than the
// other columns are, as where one place in a block is packed wrongly. By more where a row has fewer
// than eight such places, and nothing of fewer than four: an honest quantiser may round some
// columns much worse, for others' sake.
std::optional<OffColumns> off_columns(std::span<const ColumnSquares> columns, double k);

// Over the columns, apart from a factor that all have.
ColumnSpread column_spread(std::span<const ColumnSquares> columns);

}  // namespace assay
