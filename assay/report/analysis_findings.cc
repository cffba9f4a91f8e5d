#include "assay/report/analysis_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "assay/report/garbage_group.h"
#include "base/count_of.h"

namespace assay {

std::vector<std::string> findings_of(const Analysis& analysis) {
  std::map<GarbageReason, GarbageGroup> garbage;
  for (const ListedGarbage& listed : analysis.garbage) {
    garbage[listed.garbage.reason].add(listed.token_idx);
  }
  std::map<SuspicionKind, GarbageGroup> odd;
  for (const Suspicion& suspicion : analysis.suspicions) {
    odd[suspicion.kind].add(suspicion.token_idx);
  }
  const auto is_found = [&](GarbageReason reason) { return !garbage[reason].tokens.empty(); };
  const auto tokens_of = [&](GarbageReason reason) {
    return count_of(garbage[reason].tokens.size(), "token");
  };
  const auto is_odd = [&](SuspicionKind kind) { return odd[kind].added > 0; };
  // "3 records, at tokens 0-2, repeat", where it is one "repeats".
  const auto records = [&](SuspicionKind kind, std::string_view one, std::string_view many) {
    return fmt::format("{}, at {}, {}", count_of(odd[kind].added, "record"),
                       odd[kind].tokens_text(), plural(odd[kind].added == 1, one, many));
  };
  std::vector<std::string> findings;
  if (is_found(GarbageReason::kHeapMetadata)) {
    findings.push_back(fmt::format(
        "freed memory: at {} the log holds words that a memory allocator writes into freed "
        "blocks; the logger wrote its records out after it had freed them (a flush in an atexit "
        "handler, say), and the engine's own values there are lost",
        tokens_of(GarbageReason::kHeapMetadata)));
  }
  if (is_odd(SuspicionKind::kNullWords)) {
    const GarbageGroup& null_words = odd[SuspicionKind::kNullWords];
    findings.push_back(fmt::format(
        "zeros in the first places of {}, at {}, where nothing else is zero: {}",
        count_of(null_words.added, "record"), null_words.tokens_text(),
        is_found(GarbageReason::kHeapMetadata)
            ? "more words of freed memory, null or too small for the digits of the log"
            : "words of freed memory that are null or too small for the digits of the log, or two "
              "outputs that are never computed"));
  }
  if (is_found(GarbageReason::kNonfinite)) {
    findings.push_back(
        fmt::format("not a number or infinite at {}", tokens_of(GarbageReason::kNonfinite)));
  }
  if (is_found(GarbageReason::kMagnitude)) {
    findings.push_back(
        fmt::format("values {:.0e} times their tensor's scale or more at {}, in no pattern of an "
                    "allocator: memory that was not written, or a computation that exploded",
                    kMagnitudeScale, tokens_of(GarbageReason::kMagnitude)));
  }
  if (is_found(GarbageReason::kPadding)) {
    findings.push_back("the vocabulary is padded: its last rows hold a constant");
  }
  if (is_odd(SuspicionKind::kRepeat)) {
    findings.push_back(records(SuspicionKind::kRepeat, "repeats", "repeat") +
                       " an earlier one bit for bit: a buffer that was not written again");
  }
  if (is_odd(SuspicionKind::kStale)) {
    findings.push_back(records(SuspicionKind::kStale, "repeats", "repeat") +
                       " a part of the record before bit for bit: a buffer that was written in "
                       "part");
  }
  if (is_odd(SuspicionKind::kContradiction)) {
    findings.push_back(records(SuspicionKind::kContradiction, "contradicts", "contradict") +
                       " what is logged with it: values, summary and sketch are not of one tensor");
  }
  if (is_odd(SuspicionKind::kConflict)) {
    findings.push_back(records(SuspicionKind::kConflict, "is", "are") +
                       " in the log before with other values: a comparison refuses that");
  }
  if (is_odd(SuspicionKind::kReplica)) {
    findings.push_back(records(SuspicionKind::kReplica, "differs", "differ") +
                       " from what another rank has of the same tensor, or the same piece of it");
  }
  if (is_odd(SuspicionKind::kAllZero)) {
    findings.push_back(records(SuspicionKind::kAllZero, "is", "are") + " all zeros");
  }
  if (is_odd(SuspicionKind::kConstant)) {
    findings.push_back(records(SuspicionKind::kConstant, "holds", "hold") + " one value only");
  }
  if (is_odd(SuspicionKind::kFlat)) {
    findings.push_back(records(SuspicionKind::kFlat, "holds", "hold") +
                       " one value in a long run that it hardly has elsewhere: rows that were not "
                       "computed, or memory that was cleared and not written");
  }
  if (is_odd(SuspicionKind::kWhole)) {
    findings.push_back(records(SuspicionKind::kWhole, "holds", "hold") +
                       " whole numbers only: rounded when they were written, or numbers of another "
                       "type");
  }
  if (is_odd(SuspicionKind::kLost)) {
    findings.push_back(records(SuspicionKind::kLost, "is", "are") +
                       " missing, where the log has what is before and after, or what other layers "
                       "have: a part of the log is lost");
  }
  if (is_odd(SuspicionKind::kEmpty)) {
    findings.push_back(records(SuspicionKind::kEmpty, "says", "say") +
                       " nothing: no values, summary, sketch or top is logged");
  }
  return findings;
}

bool is_suspect(const Analysis& analysis) {
  const auto is_bad = [](const auto& count) {
    return count.first != GarbageReason::kPadding && count.second > 0;
  };
  return !analysis.suspicions.empty() || std::ranges::any_of(analysis.garbage_by_reason, is_bad);
}

}  // namespace assay
