#include "assay/compare/unmapped_nan.h"

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "assay/compare/pair_comparison.h"
#include "assay/compare/verdict.h"

namespace assay {
namespace {

using Key = std::pair<std::string, int64_t>;  // name and token_idx

// How many NaN each unmapped record of the log holds.
std::vector<int64_t> count_each(const LogIndex& log, ThreadPool& pool) {
  std::vector<int64_t> counts(log.unmapped().size());
  std::exception_ptr error;
  std::mutex mutex;  // guards `error`
  pool.parallel_for(std::ssize(counts), 16, [&](int64_t begin, int64_t end) {
    try {
      IndexLoader loader = log.loader();
      for (int64_t i = begin; i < end; ++i) {
        const auto at = static_cast<size_t>(i);
        counts[at] = count_nan(loader.load(log.unmapped()[at].place));
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      error = std::current_exception();
    }
  });
  if (error) std::rethrow_exception(error);
  return counts;
}

// The checkpoint's place in the comparison, where it becomes the last if it is not there.
int32_t place_of(const std::string& name, Comparison& comparison) {
  const auto found = std::ranges::find(comparison.checkpoints, name, &CheckpointName::name);
  const auto place = static_cast<int32_t>(found - comparison.checkpoints.begin());
  if (found == comparison.checkpoints.end()) {
    comparison.checkpoints.push_back(parse_checkpoint_name(name));
    comparison.order.push_back(std::ssize(comparison.order));
  }
  return place;
}

}  // namespace

void fail_unmapped_nan(const LogIndex& ref, const LogIndex& got, ThreadPool& pool,
                       Comparison& comparison) {
  if (got.unmapped().empty()) return;
  const std::vector<int64_t> counts = count_each(got, pool);
  if (std::ranges::count(counts, 0) == std::ssize(counts)) return;
  std::map<Key, int64_t> of_ref;
  const std::vector<int64_t> ref_counts = count_each(ref, pool);
  for (size_t i = 0; i < ref_counts.size(); ++i) {
    const IndexEntry& entry = ref.unmapped()[i];
    int64_t& most = of_ref[{ref.unmapped_names().name(entry.checkpoint), entry.token_idx}];
    most = std::max(most, ref_counts[i]);
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    const IndexEntry& entry = got.unmapped()[i];
    const std::string& name = got.unmapped_names().name(entry.checkpoint);
    int64_t token = 0;
    if (__builtin_sub_overflow(entry.token_idx, comparison.alignment.offset, &token)) {
      token = entry.token_idx;
    }
    const auto known = of_ref.find({name, token});
    if (counts[i] <= (known == of_ref.end() ? 0 : known->second)) continue;
    RecordResult result = failed_result(Metric::kNonfinite, static_cast<double>(counts[i]), 0);
    result.of_ref = result.selected = false;
    result.checkpoint = place_of(name, comparison);
    result.token_idx = token;
    result.metrics.n = entry.n;
    result.metrics.nonfinite = counts[i];
    comparison.results.push_back(std::move(result));
  }
}

}  // namespace assay
