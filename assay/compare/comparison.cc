#include "assay/compare/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>

#include "assay/compare/alignment.h"
#include "assay/compare/coverage.h"
#include "assay/compare/input_tokens.h"
#include "assay/compare/log_index.h"
#include "assay/compare/median.h"
#include "assay/compare/nothing_in_common.h"
#include "assay/compare/pair_comparison.h"
#include "assay/compare/split.h"
#include "assay/compare/verdict.h"
#include "assay/log/log_reader.h"
#include "base/error.h"
#include "base/thread_pool.h"

namespace assay {
namespace {

constexpr double kPoorMatch = 0.1;  // a median rel_l2 above it starts the search for an offset
// A batch, after which progress is told: large enough that threads seldom wait for each other.
constexpr int64_t kBatchBytes = int64_t{1} << 26;
constexpr int64_t kBatchRecords = 8192;

// What one thread needs to read a pair of records.
struct Worker {
  Worker(const LogIndex& ref_log, const LogIndex& got_log)
      : ref(ref_log.loader()), got(got_log.loader()) {}
  RecordLoader ref;
  RecordLoader got;
};

// A pair to compare, or a record without a counterpart, which is only checked.
struct Task {
  int64_t ref = -1;
  int64_t got = -1;
};

void check_sizes(const Record& ref, const Record& got, const IndexEntry& entry,
                 const LogIndex& got_index) {
  // Padding to a multiple of some number never doubles a vocabulary.
  const int64_t shorter = std::min(ref.n, got.n);
  const bool padded = ref.checkpoint == "logits" && std::max(ref.n, got.n) - shorter <= shorter;
  if (ref.n == got.n || padded) return;
  throw Error(fmt::format("'{}' at token {} has {} elements, {} in the reference", got.checkpoint,
                          got.token_idx, got.n, ref.n),
              fmt::format("{}:{}", got_index.path(), entry.place.line),
              "the two are not the same tensor: check the model and the names of the checkpoints");
}

class Comparer {
 public:
  Comparer(const std::string& ref_path, const std::string& got_path, const CompareOptions& options)
      : options_(options), pool_(options.n_threads) {
    read_indices(ref_path, got_path);
    if (options.align == AlignMode::kAuto) shift_ = left_out_offset(*ref_, *got_);
    const bool checked = options.align != AlignMode::kFixed && !shift_;
    if (checked) check_same_input(*ref_, *got_);
    known_tokens_ = known_tokens(
        *ref_, *got_,
        options.align == AlignMode::kFixed ? std::optional<int64_t>(options.offset) : std::nullopt);
    for (const auto* log : {ref_.get(), got_.get()}) {
      result_.warnings.insert(result_.warnings.end(), log->warnings().begin(),
                              log->warnings().end());
    }
    name_checkpoints();
    check_names();
    tell(other_model(*ref_, *got_));
  }

  Comparison compare() {
    result_.ref_path = ref_->path();
    result_.got_path = got_->path();
    result_.alignment.mode = options_.align;
    result_.alignment.offset = options_.align == AlignMode::kFixed ? options_.offset : 0;
    if (shift_) {
      result_.alignment.offset = *shift_;
      tell_shift("their tokens say so");
    }
    compare_to_the_split();
    if (options_.align == AlignMode::kAuto && !shift_ && median_rel_l2() > kPoorMatch) {
      const Alignment found = find_alignment(*ref_, *got_, [&](const Record& a, const Record& b) {
        return compare_pair(a, b, Tolerance(), options_).result.metrics.rel_l2;
      });
      const bool again = found.offset != result_.alignment.offset;
      if (found.by_embedding) {
        shift_ = found.offset;
        tell_shift("their embeddings say so");
      }
      result_.alignment.offset = found.offset;
      result_.alignment.confidence = found.confidence;
      if (again) compare_to_the_split();
    }
    if (result_.results.empty()) throw nothing_in_common();
    if (unseen_split_) {
      result_.warnings.push_back(fmt::format(
          "the logits choose another token before token {}, and what follows is off: if it was "
          "generated, log the embedding or a header with the prompt's tokens, and it is left out",
          unseen_split_->token_idx));
    }
    const std::string others = other_names(*ref_, *got_, options_.selection);
    tell(others.empty() ? missing_checkpoints(*ref_, *got_, options_.selection) : others);
    tell(missing_tokens(result_, *ref_, *got_, options_.selection, shift_.has_value()));
    tell(missing_records(result_, *ref_, *got_, options_.selection));
    judge_comparison(result_);
    result_.ref_log = ref_;
    result_.got_log = got_;
    return std::move(result_);
  }

 private:
  void tell(const std::string& warning) {
    if (!warning.empty()) result_.warnings.push_back(warning);
  }

  // Of an engine that leaves out tokens at the beginning, or adds some, everything else diverges
  // too: that must not be looked for in its layers.
  void tell_shift(const char* why) {
    const int64_t count = std::abs(*shift_);
    result_.warnings.push_back(fmt::format(
        "{} {} the first {} of {} ({}): position N of the reference is compared with {}; check "
        "whether both begin with the same token (BOS)",
        got_->path(), *shift_ < 0 ? "leaves out" : "has tokens before",
        count == 1 ? "token" : fmt::format("{} tokens", count), ref_->path(), why,
        *shift_ < 0 ? fmt::format("N-{}", count) : fmt::format("N+{}", count)));
  }

  NothingInCommon nothing_in_common() const {
    std::string hint = "compare logs of the same checkpoints and tokens, or give --align N";
    if (!options_.selection.is_all()) hint += ", or select more with --tokens and --checkpoints";
    const std::string fitting = fitting_map(*ref_, *got_);
    if (!fitting.empty()) hint = fitting;
    return NothingInCommon(fmt::format("no record in common with the reference {}", ref_->path()),
                           got_->path(), hint);
  }

  // Compares what comes before the place where the two generations part.
  void compare_to_the_split() {
    result_.split.reset();
    compare_aligned();
    const auto& prompt = known_tokens_;
    const int64_t offset = result_.alignment.offset;
    KnownTokens tokens;
    tokens.n_prompt = prompt.n_prompt;
    tokens.ref = prompt.ref;
    tokens.got = [&](int64_t token_idx) -> std::optional<int64_t> {
      int64_t there = 0;
      if (__builtin_add_overflow(token_idx, offset, &there)) return std::nullopt;
      return prompt.got(there);
    };
    result_.split = find_split(result_, tokens);
    unseen_split_ = result_.split && !result_.split->seen ? result_.split : std::nullopt;
    if (unseen_split_) result_.split.reset();
    if (result_.split) compare_aligned();
  }

  void read_indices(const std::string& ref_path, const std::string& got_path) {
    const std::string* paths[2] = {&ref_path, &got_path};
    NameMap maps[2] = {options_.ref_map, options_.got_map};
    if (!maps[0].empty() || !maps[1].empty()) {
      // Either header may say what the other log leaves out.
      for (const std::string* path : paths) {
        const std::optional<LogHeader> header = read_log_header(*path);
        if (!header) continue;
        for (NameMap& map : maps) map.set_arch(header->model.arch);
      }
    }
    std::exception_ptr errors[2];
    pool_.parallel_for(2, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        try {
          (i == 0 ? ref_ : got_) = std::make_shared<LogIndex>(*paths[i], maps[i]);
        } catch (...) {
          errors[i] = std::current_exception();
        }
      }
    });
    for (const std::exception_ptr& error : errors) {
      if (error) std::rethrow_exception(error);
    }
  }

  // One table for the names of both logs.
  void name_checkpoints() {
    for (const auto* log : {ref_.get(), got_.get()}) {
      for (int32_t id = 0; id < log->names().size(); ++id) checkpoints_.id(log->names().name(id));
      for (int32_t id = 0; id < log->teams().size(); ++id) teams_.id(log->teams().name(id));
    }
    for (int32_t id = 0; id < checkpoints_.size(); ++id) {
      result_.checkpoints.push_back(parse_checkpoint_name(checkpoints_.name(id)));
      const std::string& name = checkpoints_.name(id);
      const bool in_both = ref_->names().find(name) >= 0 && got_->names().find(name) >= 0;
      tolerances_.push_back(in_both ? options_.policy.tolerance(name) : Tolerance());
    }
    for (int32_t id = 0; id < teams_.size(); ++id) result_.teams.push_back(teams_.name(id));
  }

  // A mistyped name must not leave out what it was to select or to judge.
  void check_names() {
    const auto all = [](const NameTable& table) {
      std::vector<std::string> names;
      names.reserve(static_cast<size_t>(table.size()));
      for (int32_t id = 0; id < table.size(); ++id) names.push_back(table.name(id));
      return names;
    };
    options_.selection.check_checkpoints(all(ref_->names()), all(got_->names()), ref_->path(),
                                         got_->path());
    for (const std::string& glob : options_.policy.unused_globs(all(checkpoints_))) {
      result_.warnings.push_back(
          fmt::format("no checkpoint of either log is '{}', of which the policy has a tolerance",
                      printable(glob, 60)));
    }
  }

  std::vector<Task> match() {
    std::vector<Task> tasks;
    std::vector<bool> matched(got_->entries().size(), false);
    result_.unmatched_ref = 0;
    for (size_t i = 0; i < ref_->entries().size(); ++i) {
      const IndexEntry& entry = ref_->entries()[i];
      if (!is_selected(ref_->names().name(entry.checkpoint), entry.token_idx, 0)) continue;
      if (result_.split && entry.token_idx >= result_.split->token_idx) {
        ++result_.split->left_out;
        continue;
      }
      Task task{static_cast<int64_t>(i), -1};
      int64_t token = 0;
      const int32_t checkpoint = got_->names().find(ref_->names().name(entry.checkpoint));
      if (checkpoint >= 0 &&
          !__builtin_add_overflow(entry.token_idx, result_.alignment.offset, &token)) {
        task.got = got_->find(checkpoint, token);
      }
      if (task.got >= 0) matched[static_cast<size_t>(task.got)] = true;
      result_.unmatched_ref += task.got < 0 ? 1 : 0;
      tasks.push_back(task);
    }
    const int64_t offset = result_.alignment.offset;
    result_.unmatched_ref += count_untaken(*ref_, 0);
    result_.unmatched_got = count_untaken(*got_, offset);
    for (size_t i = 0; i < matched.size(); ++i) {
      const IndexEntry& entry = got_->entries()[i];
      if (matched[i] || is_after_split(entry.token_idx, offset) ||
          !is_selected(got_->names().name(entry.checkpoint), entry.token_idx, offset)) {
        continue;
      }
      ++result_.unmatched_got;
      tasks.push_back({-1, static_cast<int64_t>(i)});
    }
    return tasks;
  }

  // `offset`: what the log's token_idx is ahead of the reference's.
  bool is_selected(const std::string& checkpoint, int64_t token_idx, int64_t offset) const {
    const Selection& selection = options_.selection;
    if (selection.is_all()) return true;
    int64_t token = 0;
    return !__builtin_sub_overflow(token_idx, offset, &token) && selection.has_token(token) &&
           selection.has_checkpoint(checkpoint);
  }

  bool is_after_split(int64_t token_idx, int64_t offset) const {
    int64_t token = 0;
    return result_.split && !__builtin_sub_overflow(token_idx, offset, &token) &&
           token >= result_.split->token_idx;
  }

  int64_t count_untaken(const LogIndex& log, int64_t offset) const {
    return std::count_if(log.untaken().begin(), log.untaken().end(), [&](const auto& untaken) {
      return is_selected(untaken.checkpoint, untaken.token_idx, offset) &&
             !is_after_split(untaken.token_idx, offset);
    });
  }

  void compare_aligned() {
    const std::vector<Task> tasks = match();
    result_.results.clear();
    result_.quarantine.clear();
    result_.quarantined = 0;
    result_.quarantined_by_reason.clear();
    const int64_t total_bytes = ref_->bytes() + got_->bytes();
    int64_t done = 0;
    for (int64_t first = 0; first < std::ssize(tasks);) {
      int64_t count = 0;
      for (int64_t bytes = 0;
           bytes < kBatchBytes && count < kBatchRecords && first + count < std::ssize(tasks);
           ++count) {
        bytes += bytes_of(tasks[static_cast<size_t>(first + count)]);
      }
      std::vector<PairComparison> pairs(static_cast<size_t>(count));
      std::vector<std::exception_ptr> errors(static_cast<size_t>(count));
      pool_.parallel_for(count, 1, [&](int64_t begin, int64_t end) {
        std::unique_ptr<Worker> worker = take_worker();
        for (int64_t i = begin; i < end; ++i) {
          try {
            pairs[static_cast<size_t>(i)] = run(tasks[static_cast<size_t>(first + i)], *worker);
          } catch (...) {
            errors[static_cast<size_t>(i)] = std::current_exception();
          }
        }
        give_back(std::move(worker));
      });
      for (const std::exception_ptr& error : errors) {
        if (error) std::rethrow_exception(error);
      }
      for (int64_t i = 0; i < count; ++i) {
        const Task& task = tasks[static_cast<size_t>(first + i)];
        if (task.ref >= 0 && task.got >= 0) keep(task, pairs[static_cast<size_t>(i)]);
        done += bytes_of(task);
      }
      first += count;
      if (options_.progress) options_.progress(done, total_bytes);
    }
    sort_results();
  }

  std::unique_ptr<Worker> take_worker() {
    const std::lock_guard lock(mutex_);
    if (workers_.empty()) return std::make_unique<Worker>(*ref_, *got_);
    std::unique_ptr<Worker> worker = std::move(workers_.back());
    workers_.pop_back();
    return worker;
  }

  void give_back(std::unique_ptr<Worker> worker) {
    const std::lock_guard lock(mutex_);
    workers_.push_back(std::move(worker));
  }

  PairComparison run(const Task& task, Worker& worker) {
    const IndexEntry* ref =
        task.ref < 0 ? nullptr : &ref_->entries()[static_cast<size_t>(task.ref)];
    const IndexEntry* got =
        task.got < 0 ? nullptr : &got_->entries()[static_cast<size_t>(task.got)];
    const Record* a = ref == nullptr ? nullptr : &ref_->load(*ref, worker.ref);
    const Record* b = got == nullptr ? nullptr : &got_->load(*got, worker.got);
    if (a == nullptr || b == nullptr) return {};
    check_sizes(*a, *b, *got, *got_);
    const int32_t checkpoint = checkpoints_.find(ref_->names().name(ref->checkpoint));
    PairComparison pair =
        compare_pair(*a, *b, tolerances_[static_cast<size_t>(checkpoint)], options_);
    pair.result.checkpoint = checkpoint;
    pair.result.token_idx = ref->token_idx;
    if (ref->team >= 0) pair.result.ref_team = teams_.find(ref_->teams().name(ref->team));
    if (got->team >= 0) pair.result.got_team = teams_.find(got_->teams().name(got->team));
    return pair;
  }

  int64_t bytes_of(const Task& task) const {
    int64_t bytes = 0;
    if (task.ref >= 0) bytes += ref_->entries()[static_cast<size_t>(task.ref)].place.bytes;
    if (task.got >= 0) bytes += got_->entries()[static_cast<size_t>(task.got)].place.bytes;
    return bytes;
  }

  // Takes a finished pair over.
  void keep(const Task& task, const PairComparison& pair) {
    result_.results.push_back(pair.result);
    const int64_t got_token = got_->entries()[static_cast<size_t>(task.got)].token_idx;
    if (pair.ref_n != pair.got_n && !sizes_told_) {
      result_.warnings.push_back(fmt::format(
          "'logits' has {} elements in {} and {} in {}: the first {} are compared{}", pair.ref_n,
          ref_->path(), pair.got_n, got_->path(), std::min(pair.ref_n, pair.got_n),
          pair.longer_is_partial ? ", as far as both log them; the longer one's sketch and summary "
                                   "are of more than these and were left out"
                                 : ""));
      sizes_told_ = true;
    }
    list_garbage(pair.ref_garbage, true, pair.result.checkpoint, pair.result.token_idx);
    list_garbage(pair.got_garbage, false, pair.result.checkpoint, got_token);
  }

  void list_garbage(const std::vector<Garbage>& garbage, bool in_ref, int32_t checkpoint,
                    int64_t token_idx) {
    int listed[4] = {};
    for (const Garbage& found : garbage) {
      ++result_.quarantined;
      ++result_.quarantined_by_reason[{in_ref, found.reason}];
      if (listed[static_cast<size_t>(found.reason)]++ < kMaxListed) {
        result_.quarantine.push_back({in_ref, checkpoint, token_idx, found});
      }
    }
  }

  double median_rel_l2() const {
    std::vector<double> errors;
    for (const RecordResult& result : result_.results) {
      const double rel_l2 = result.metrics.rel_l2;
      errors.push_back(rel_l2 <= 1e300 ? rel_l2 : 1e300);  // NaN and infinite are poor matches
    }
    if (errors.empty()) return 1e300;
    return upper_median(errors);
  }

  void sort_results() {
    std::vector<ComputeOrder> orders;
    for (const CheckpointName& name : result_.checkpoints) {
      orders.push_back(compute_order(name, std::ssize(orders)));
    }
    const auto key = [&](int64_t token_idx, int32_t checkpoint) {
      return std::make_pair(token_idx, orders[static_cast<size_t>(checkpoint)]);
    };
    std::stable_sort(result_.results.begin(), result_.results.end(),
                     [&](const RecordResult& a, const RecordResult& b) {
                       return key(a.token_idx, a.checkpoint) < key(b.token_idx, b.checkpoint);
                     });
    std::stable_sort(result_.quarantine.begin(), result_.quarantine.end(),
                     [&](const QuarantinedValue& a, const QuarantinedValue& b) {
                       return key(a.token_idx, a.checkpoint) < key(b.token_idx, b.checkpoint);
                     });
  }

  const CompareOptions& options_;
  ThreadPool pool_;
  std::shared_ptr<LogIndex> ref_;
  std::shared_ptr<LogIndex> got_;
  NameTable checkpoints_;
  NameTable teams_;
  KnownTokens known_tokens_;
  std::optional<int64_t> shift_;       // where one of the two has tokens before the other's first
  std::vector<Tolerance> tolerances_;  // of each of checkpoints_
  std::optional<Split> unseen_split_;
  bool sizes_told_ = false;  // that the logits of the two differ in size
  Comparison result_;
  std::mutex mutex_;  // guards workers_
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace

bool has_floors(const Comparison& comparison) {
  return std::any_of(comparison.results.begin(), comparison.results.end(),
                     [](const RecordResult& result) { return result.floor.has_value(); });
}

Comparison compare_logs(const std::string& ref_path, const std::string& got_path,
                        const CompareOptions& options) {
  return Comparer(ref_path, got_path, options).compare();
}

}  // namespace assay
