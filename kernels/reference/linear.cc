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

void run(const MatmulCall& call) {
  const WeightMatrix& w = call.w;
  std::vector<float> row(static_cast<size_t>(w.columns));
  for (int64_t r = 0; r < w.rows; ++r) {
    dequantize_row(w.type, w.slice(r, 1).data, w.columns, row.data());
    for (int64_t t = 0; t < call.n_tokens; ++t) {
      const float* input = call.x + t * w.columns;
      double sum = call.bias != nullptr ? call.bias[r] : 0.0;
      for (int64_t c = 0; c < w.columns; ++c) {
        sum += static_cast<double>(row[static_cast<size_t>(c)]) * input[c];
      }
      call.out[t * w.rows + r] = static_cast<float>(sum);
    }
  }
}

}  // namespace assay::reference
