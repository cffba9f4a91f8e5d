#include "assay/report/analysis_findings.h"

#include <fmt/format.h>

#include <map>

#include "assay/report/garbage_group.h"
#include "base/error.h"

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
  const auto count = [&](GarbageReason reason) { return garbage[reason].tokens.size(); };
  const auto records = [&](SuspicionKind kind) { return odd[kind].added; };
  const auto tokens = [&](SuspicionKind kind) {
    return printable(ranges_text(odd[kind].tokens), 60);
  };
  std::vector<std::string> findings;
  if (count(GarbageReason::kHeapMetadata) > 0) {
    findings.push_back(fmt::format(
        "freed memory: at {} tokens the log holds words that a memory allocator writes into freed "
        "blocks; the logger wrote its records out after it had freed them (a flush in an atexit "
        "handler, say), and the engine's own values there are lost",
        count(GarbageReason::kHeapMetadata)));
  }
  if (records(SuspicionKind::kNullWords) > 0) {
    findings.push_back(fmt::format(
        "zeros in the first places of {} records, at tokens {}, where nothing else is zero: {}",
        records(SuspicionKind::kNullWords), tokens(SuspicionKind::kNullWords),
        count(GarbageReason::kHeapMetadata) > 0
            ? "more words of freed memory, null or too small for the digits of the log"
            : "words of freed memory that are null or too small for the digits of the log, or two "
              "outputs that are never computed"));
  }
  if (count(GarbageReason::kNonfinite) > 0) {
    findings.push_back(
        fmt::format("not a number or infinite at {} tokens", count(GarbageReason::kNonfinite)));
  }
  if (count(GarbageReason::kMagnitude) > 0) {
    findings.push_back(fmt::format(
        "values {:.0e} times their tensor's scale or more at {} tokens, in no pattern of an "
        "allocator: memory that was not written, or a computation that exploded",
        kMagnitudeScale, count(GarbageReason::kMagnitude)));
  }
  if (count(GarbageReason::kPadding) > 0) {
    findings.push_back("the vocabulary is padded: its last rows hold a constant");
  }
  if (records(SuspicionKind::kRepeat) > 0) {
    findings.push_back(fmt::format(
        "{} records, at tokens {}, repeat an earlier one bit for bit: a buffer that was not "
        "written again",
        records(SuspicionKind::kRepeat), tokens(SuspicionKind::kRepeat)));
  }
  if (records(SuspicionKind::kStale) > 0) {
    findings.push_back(fmt::format(
        "{} records, at tokens {}, repeat a part of the record before them bit for bit: a buffer "
        "that was written in part",
        records(SuspicionKind::kStale), tokens(SuspicionKind::kStale)));
  }
  if (records(SuspicionKind::kAllZero) > 0) {
    findings.push_back(fmt::format("{} records, at tokens {}, are all zeros",
                                   records(SuspicionKind::kAllZero),
                                   tokens(SuspicionKind::kAllZero)));
  }
  if (records(SuspicionKind::kConstant) > 0) {
    findings.push_back(fmt::format("{} records, at tokens {}, hold one value only",
                                   records(SuspicionKind::kConstant),
                                   tokens(SuspicionKind::kConstant)));
  }
  return findings;
}

}  // namespace assay
