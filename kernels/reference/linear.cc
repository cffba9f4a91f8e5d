#include <vector>

#include "kernels/reference/dequantize.h"
#include "kernels/reference/reference.h"

namespace assay::reference {

void get_rows(const WeightMatrix& table, const int32_t* ids, int64_t n_ids, float* out) {
  for (int64_t i = 0; i < n_ids; ++i) {
    dequantize_row(table.type, table.slice(ids[i], 1).data, table.columns, out + i * table.columns);
  }
}

void matmul(const WeightMatrix& w, const float* bias, const float* x, int64_t n_tokens,
            float* out) {
  std::vector<float> row(static_cast<size_t>(w.columns));
  for (int64_t r = 0; r < w.rows; ++r) {
    dequantize_row(w.type, w.slice(r, 1).data, w.columns, row.data());
    for (int64_t t = 0; t < n_tokens; ++t) {
      const float* input = x + t * w.columns;
      double sum = bias != nullptr ? bias[r] : 0.0;
      for (int64_t c = 0; c < w.columns; ++c) {
        sum += static_cast<double>(row[static_cast<size_t>(c)]) * input[c];
      }
      out[t * w.rows + r] = static_cast<float>(sum);
    }
  }
}

}  // namespace assay::reference
