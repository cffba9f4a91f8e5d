#include <algorithm>
#include <array>
#include <vector>

#include "kernels/reference/dequantize.h"
#include "kernels/reference/reference.h"

namespace assay::reference {

void run(const GetRowsCall& call) {
  const WeightMatrix& table = call.table;
  for (int64_t i = 0; i < call.n_ids; ++i) {
    dequantize_row(table.type, table.slice(call.ids[i], 1).data, table.columns,
                   call.out + i * table.columns);
  }
}

// Each sum is made in the order of the columns, and waits for its last addition: those of a few
// rows are made side by side.
void run(const MatmulCall& call) {
  constexpr int64_t kSideBySide = 8;
  const WeightMatrix& w = call.w;
  std::vector<float> row(static_cast<size_t>(w.columns));
  std::vector<std::array<double, kSideBySide>> columns(row.size());  // of these rows
  for (int64_t first = 0; first < w.rows; first += kSideBySide) {
    const auto n = static_cast<size_t>(std::min(kSideBySide, w.rows - first));
    std::array<double, kSideBySide> bias = {};
    for (size_t k = 0; k < n; ++k) {
      const int64_t r = first + static_cast<int64_t>(k);
      dequantize_row(w.type, w.slice(r, 1).data, w.columns, row.data());
      for (size_t c = 0; c < row.size(); ++c) columns[c][k] = row[c];
      if (call.bias != nullptr) bias[k] = call.bias[r];
    }
    for (int64_t t = 0; t < call.n_tokens; ++t) {
      const float* input = call.x + t * w.columns;
      std::array<double, kSideBySide> sums = bias;
      for (size_t c = 0; c < row.size(); ++c) {
        for (size_t k = 0; k < sums.size(); ++k) sums[k] += columns[c][k] * input[c];
      }
      std::transform(sums.begin(), sums.begin() + n, call.out + t * w.rows + first,
                     [](double sum) { return static_cast<float>(sum); });
    }
  }
}

}  // namespace assay::reference
