#include "assay/compare/log_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace assay {
namespace {

constexpr size_t kRecordsPerReport = 64;

bool same(float a, float b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

}  // namespace

int32_t NameTable::id(std::string_view name) {
  const auto [place, added] = ids_.try_emplace(std::string(name), size());
  if (added) names_.emplace_back(name);
  return place->second;
}

int32_t NameTable::find(const std::string& name) const {
  const auto place = ids_.find(name);
  return place == ids_.end() ? -1 : place->second;
}

LogIndex::LogIndex(const std::string& path, const std::function<void(int64_t)>& progress) {
  LogReader log(path, Depth::kKeys);
  file_ = log.file();
  for (size_t count = 0; const Record* record = log.next(); ++count) {
    IndexEntry entry;
    entry.checkpoint = names_.id(record->checkpoint);
    if (record->team) entry.team = teams_.id(*record->team);
    entry.token_idx = record->token_idx;
    entry.place = log.place();
    const auto [place, added] = by_key_.try_emplace({entry.checkpoint, entry.token_idx},
                                                    static_cast<int64_t>(entries_.size()));
    if (added) {
      entries_.push_back(entry);
    } else {
      check_duplicate(entries_[static_cast<size_t>(place->second)], entry.place);
    }
    if (progress && count % kRecordsPerReport == 0) progress(entry.place.offset);
  }
  header_ = log.header();
  warnings_ = log.warnings();
  if (entries_.empty()) throw no_records_error(log);
}

int64_t LogIndex::find(int32_t checkpoint, int64_t token_idx) const {
  const auto place = by_key_.find({checkpoint, token_idx});
  return place == by_key_.end() ? -1 : place->second;
}

void LogIndex::check_duplicate(const IndexEntry& first, const RecordPlace& second) {
  RecordLoader loader_a(file_);
  RecordLoader loader_b(file_);
  const Record& a = loader_a.load(first.place);
  const Record& b = loader_b.load(second);
  const size_t common = std::min(a.values.size(), b.values.size());
  size_t i = 0;
  while (i < common && same(a.values[i], b.values[i])) ++i;
  std::string what;
  if (i < common) {
    what = fmt::format("value {} was {} and is {}", i, a.values[i], b.values[i]);
  } else if (a.n != b.n || a.values.size() != b.values.size()) {
    what = fmt::format("it had {} values of {} and has {} of {}", a.values.size(), a.n,
                       b.values.size(), b.n);
  } else {
    return;
  }
  throw Error(fmt::format("'{}' at token {} was logged before, in line {}, with other values: {}",
                          a.checkpoint, a.token_idx, first.place.line, what),
              fmt::format("{}:{}", path(), second.line),
              "keep the log of each run in its own file");
}

}  // namespace assay
