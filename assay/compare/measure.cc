#include "assay/compare/measure.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>

#include "assay/compare/evidence.h"
#include "assay/compare/garbage.h"
#include "assay/compare/log_probabilities.h"
#include "assay/compare/part_comparison.h"
#include "assay/compare/self_check.h"
#include "assay/compare/verdict.h"

namespace assay {
namespace {

// A batch, after which progress is reported: large enough that threads seldom wait for each other.
constexpr int64_t kBatchBytes = int64_t{1} << 26;
constexpr int64_t kBatchRecords = 8192;

// What one thread needs to read a pair of records.
struct Loaders {
  Loaders(const LogIndex& ref_log, const LogIndex& got_log)
      : ref(ref_log.loader()), got(got_log.loader()) {}
  IndexLoader ref;
  IndexLoader got;
};

class Measurer {
 public:
  Measurer(const MeasureRequest& request, ThreadPool& pool) : request_(request), pool_(pool) {}

  Measured measure(const std::vector<RecordPair>& pairs) {
    Measured measured;
    measured.results.reserve(pairs.size());
    const int64_t total = request_.ref.bytes() + request_.got.bytes();
    int64_t done = 0;
    for (int64_t first = 0; first < std::ssize(pairs);) {
      int64_t end = first;
      for (int64_t bytes = 0; end < std::ssize(pairs) && end - first < kBatchRecords; ++end) {
        if (bytes >= kBatchBytes) break;
        bytes += bytes_of(pairs[static_cast<size_t>(end)]);
        done += bytes_of(pairs[static_cast<size_t>(end)]);
      }
      for (PairComparison& found : measure_batch(pairs, first, end)) {
        measured.results.push_back(found.result);
        if (is_remarkable(found)) {
          measured.remarks.push_back({measured.results.size() - 1, std::move(found)});
        }
      }
      first = end;
      if (request_.options.progress) request_.options.progress(done, total);
    }
    return measured;
  }

 private:
  static bool is_remarkable(const PairComparison& found) {
    return !found.ref_garbage.empty() || !found.got_garbage.empty() || found.ref_n != found.got_n;
  }

  std::vector<PairComparison> measure_batch(const std::vector<RecordPair>& pairs, int64_t first,
                                            int64_t last) {
    std::vector<PairComparison> results(static_cast<size_t>(last - first));
    std::vector<std::exception_ptr> errors(results.size());
    pool_.parallel_for(last - first, 1, [&](int64_t begin, int64_t end) {
      std::unique_ptr<Loaders> loaders = take_loaders();
      for (int64_t i = begin; i < end; ++i) {
        const auto at = static_cast<size_t>(i);
        try {
          results[at] = compare(pairs[static_cast<size_t>(first + i)], *loaders);
        } catch (...) {
          errors[at] = std::current_exception();
        }
      }
      give_back(std::move(loaders));
    });
    for (const std::exception_ptr& error : errors) {
      if (error) std::rethrow_exception(error);
    }
    return results;
  }

  PairComparison compare(const RecordPair& pair, Loaders& loaders) const {
    const IndexEntry& got = request_.got.entry(pair.got);
    Record& b = request_.got.load(got, loaders.got);
    read_as_logits(b);
    if (!pair.selected) return left_out(pair, b, loaders);
    if (pair.ref < 0) return alone(got, b, loaders.got.parts());
    const IndexEntry& ref = request_.ref.entries()[static_cast<size_t>(pair.ref)];
    Record& a = request_.ref.load(ref, loaders.ref);
    read_as_logits(a);
    const int32_t checkpoint =
        request_.names.checkpoints.find(request_.ref.names().name(ref.checkpoint));
    PairComparison result =
        compare_pair(a, b, request_.tolerances[static_cast<size_t>(checkpoint)], request_.options);
    const bool first_of_ref = ref.row == 0 && ref.group < 0;
    const bool first_of_got = got.row == 0 && got.group < 0;
    if (first_of_ref || first_of_got) {
      hold_sequences(first_of_ref ? contradiction_of(loaders.ref.sequence()) : "",
                     first_of_got ? contradiction_of(loaders.got.sequence()) : "", result.result);
    }
    if (ref.group >= 0 || got.group >= 0) {
      hold_parts({a, loaders.ref.parts(), request_.ref.sizes()},
                 {b, loaders.got.parts(), request_.got.sizes()},
                 request_.tolerances[static_cast<size_t>(checkpoint)], request_.options,
                 result.result);
    }
    if (ref.lacks_replica || got.lacks_replica) lacks_replica(result.result);
    result.result.checkpoint = checkpoint;
    result.result.token_idx = ref.token_idx;
    result.result.ref_team = team_of(request_.ref, ref);
    result.result.got_team = team_of(request_.got, got);
    if (pair.restated) {
      result.result.of_ref = false;
      result.result.checkpoint =
          request_.names.checkpoints.find(request_.got.names().name(got.checkpoint));
    }
    return result;
  }

  // Statements of a record about a whole sequence are checked with its first row.
  static void hold_sequences(std::string_view in_ref, std::string_view in_got,
                             RecordResult& result) {
    result.contradicts_itself = result.contradicts_itself || !in_got.empty();
    if (result.failed()) return;
    if (!in_got.empty()) {
      fail_record(Metric::kContradiction, std::numeric_limits<double>::quiet_NaN(), 0, result);
      result.reason = in_got;
    } else if (!in_ref.empty()) {
      result.evidence = Evidence::kUnproven;
      result.status = Verdict::kIncomplete;
      result.reason = kReferenceUnsound;
    }
  }

  // Of a record that is not compared only a NaN or infinity counts that the reference does not
  // have.
  PairComparison left_out(const RecordPair& pair, Record& record, Loaders& loaders) const {
    PairComparison result = alone(request_.got.entry(pair.got), record, loaders.got.parts());
    result.result.selected = false;
    const bool any = result.result.failing_metric == Metric::kNonfinite;
    if (any && pair.ref >= 0) {
      Record& ref =
          request_.ref.load(request_.ref.entries()[static_cast<size_t>(pair.ref)], loaders.ref);
      read_as_logits(ref);
      if (has_nonfinite_beside(ref, record)) return result;
    }
    if (any && pair.ref < 0) return result;
    PairComparison nothing;
    nothing.result.of_ref = nothing.result.selected = false;
    return nothing;
  }

  PairComparison alone(const IndexEntry& got, const Record& record,
                       const std::vector<RankPart>& parts) const {
    PairComparison result = check_alone(record);
    for (const RankPart& part : parts) {
      if (!result.result.failed()) result = check_alone(part.record);
    }
    result.result.checkpoint =
        request_.names.checkpoints.find(request_.got.names().name(got.checkpoint));
    if (__builtin_sub_overflow(got.token_idx, request_.offset, &result.result.token_idx)) {
      result.result.token_idx = got.token_idx;
    }
    result.result.got_team = team_of(request_.got, got);
    return result;
  }

  int32_t team_of(const LogIndex& log, const IndexEntry& entry) const {
    return entry.team < 0 ? -1 : request_.names.teams.find(log.teams().name(entry.team));
  }

  int64_t bytes_of(const RecordPair& pair) const {
    int64_t bytes = request_.got.entry(pair.got).place.bytes;
    if (pair.ref >= 0) bytes += request_.ref.entries()[static_cast<size_t>(pair.ref)].place.bytes;
    return bytes;
  }

  std::unique_ptr<Loaders> take_loaders() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      return std::make_unique<Loaders>(request_.ref, request_.got);
    }
    std::unique_ptr<Loaders> loaders = std::move(free_.back());
    free_.pop_back();
    return loaders;
  }

  void give_back(std::unique_ptr<Loaders> loaders) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(loaders));
  }

  const MeasureRequest& request_;
  ThreadPool& pool_;
  std::mutex mutex_;  // guards free_
  std::vector<std::unique_ptr<Loaders>> free_;
};

}  // namespace

Measured measure(const std::vector<RecordPair>& pairs, const MeasureRequest& request,
                 ThreadPool& pool) {
  return Measurer(request, pool).measure(pairs);
}

}  // namespace assay
