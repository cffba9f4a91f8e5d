#include "assay/compare/sequence_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "assay/compare/checkpoint_order.h"
#include "assay/compare/dims.h"
#include "assay/compare/log_probabilities.h"
#include "base/error.h"
#include "model/architecture.h"

namespace assay {

int32_t leading_rows(const Record& record, int64_t bytes) {
  constexpr int64_t kMaxRows = int64_t{1} << 24;
  constexpr int64_t kMaxTokens = int64_t{1} << 62;
  size_t first = 0;
  while (first < record.shape.size() && record.shape[first] == 1) ++first;
  if (record.shape.size() < first + 2) return 1;
  const int64_t rows = record.shape[first];
  const bool fits = rows > 1 && rows <= std::min(kMaxRows, bytes) &&
                    record.token_idx < kMaxTokens && record.n % rows == 0 &&
                    element_count(record.shape) == record.n;
  return fits ? static_cast<int32_t>(rows) : 1;
}

bool has_one_dimension(const std::string& checkpoint) {
  if (is_logits_name(checkpoint)) return true;
  const CheckpointName name = parse_checkpoint_name(checkpoint);
  const std::optional<Checkpoint> known = find_checkpoint(name.op, name.layer >= 0);
  return known && has_model_width(*known);
}

int32_t SequenceRows::rows_of(const Record& record, const RecordPlace& place) {
  const int32_t rows = leading_rows(record, place.bytes);
  if (rows == 1 || shows_sequence(record, place)) return rows;
  if (record.dims) return 1;
  if (!found_) find();
  const auto found = rows_at_.find({record.sequence, record.token_idx});
  return found != rows_at_.end() && found->second == rows ? rows : 1;
}

bool SequenceRows::shows_sequence(const Record& record, const RecordPlace& place) const {
  if (!record.dims) {
    return has_one_dimension(record.checkpoint) &&
           has_several_columns(record.n, leading_rows(record, place.bytes));
  }
  try {
    return parse_dims(*record.dims, record.shape).is_sequence();
  } catch (const Error& error) {
    throw Error(error.what(), fmt::format("{}:{}", path_, place.line));
  }
}

void SequenceRows::find() {
  found_ = true;
  LogReader log(path_, Depth::kKeys);
  while (const Record* record = log.next()) {
    const int32_t rows = leading_rows(*record, log.place().bytes);
    if (rows > 1 && shows_sequence(*record, log.place())) {
      rows_at_[{record->sequence, record->token_idx}] = rows;
    }
  }
}

}  // namespace assay
