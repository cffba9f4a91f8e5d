#include "assay/compare/record_transform.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/error.h"

namespace assay {
namespace {

void take_part(const RecordTransform& transform, Record& record) {
  if (record.n % transform.part_count != 0) {
    throw Error(fmt::format("'{}' has {} elements, which do not divide into {} parts",
                            record.checkpoint, record.n, transform.part_count),
                {}, "check the part, heads and kv_heads of the map");
  }
  const int64_t unit = record.n / transform.part_count;
  const auto held = std::ssize(record.values);
  const int64_t begin = std::min(held, unit * transform.part_begin);
  const int64_t end = std::min(held, unit * transform.part_end);
  record.values.erase(record.values.begin() + end, record.values.end());
  record.values.erase(record.values.begin(), record.values.begin() + begin);
  record.n = unit * (transform.part_end - transform.part_begin);
  record.shape = {record.n};
  record.summary.reset();
  record.sketch.reset();
}

void put_pairs_together(int64_t head_dim, Record& record) {
  if (record.n % head_dim != 0) {
    throw Error(fmt::format("'{}' has {} elements, which are not whole heads of {}",
                            record.checkpoint, record.n, head_dim),
                {}, "check the head_dim of the map");
  }
  const auto size = static_cast<size_t>(head_dim);
  const size_t half = size / 2;
  const bool whole = record.has_all_values();
  record.values.resize(record.values.size() / size * size);
  std::vector<float> head(std::min(size, record.values.size()));
  for (size_t begin = 0; begin < record.values.size(); begin += size) {
    std::copy_n(record.values.begin() + static_cast<std::ptrdiff_t>(begin), size, head.begin());
    for (size_t i = 0; i < half; ++i) {
      record.values[begin + 2 * i] = head[i];
      record.values[begin + 2 * i + 1] = head[half + i];
    }
  }
  record.sketch.reset();
  if (record.summary && !whole) {
    record.summary->argmax = -1;
    record.summary->top.clear();
  } else {
    record.summary.reset();
  }
}

}  // namespace

void apply_transform(const RecordTransform& transform, Record& record) {
  if (transform.part_count > 0) take_part(transform, record);
  if (transform.halves_to_adjacent > 0) put_pairs_together(transform.halves_to_adjacent, record);
}

}  // namespace assay
