#include "assay/compare/log_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "assay/compare/checkpoint_order.h"
#include "base/error.h"

namespace assay {
namespace {

bool same(float a, float b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

std::string unknown_names_warning(const std::string& path,
                                  const std::vector<std::string>& unknown) {
  constexpr size_t kShown = 4;
  std::string shown;
  for (size_t i = 0; i < std::min(kShown, unknown.size()); ++i) {
    shown += (i > 0 ? ", " : "") + printable(unknown[i], 40);
  }
  return fmt::format("{}: {} names that the map does not know were left out: {}{}", printable(path),
                     unknown.size(), shown, unknown.size() > kShown ? ", ..." : "");
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

LogIndex::LogIndex(const std::string& path, const NameMap& map) {
  LogReader log(path, Depth::kKeys);
  file_ = log.file();
  mapped_ = !map.empty();
  NameTable raw_names;
  std::vector<std::vector<Mapping>> mappings;  // of each of raw_names
  std::vector<std::string> unknown;
  bool any = false;
  while (const Record* record = log.next()) {
    any = true;
    IndexEntry entry;
    if (record->team) entry.team = teams_.id(*record->team);
    entry.token_idx = record->token_idx;
    entry.place = log.place();
    if (mapped_) {
      const auto raw = static_cast<size_t>(raw_names.id(record->checkpoint));
      if (raw == mappings.size()) {
        mappings.push_back(mappings_of(record->checkpoint, map, unknown));
      }
      add_mapped(entry, mappings[raw]);
    } else {
      entry.checkpoint = names_.id(record->checkpoint);
      add(entry);
    }
  }
  add_choices();
  header_ = log.header();
  warnings_ = log.warnings();
  if (!any) throw no_records_error(log);
  if (!unknown.empty()) warnings_.push_back(unknown_names_warning(log.file()->path(), unknown));
  if (entries_.empty()) {
    throw Error("the map knows none of the log's names", file_->path(),
                "give the map of the engine that wrote it");
  }
}

std::vector<LogIndex::Mapping> LogIndex::mappings_of(const std::string& name, const NameMap& map,
                                                     std::vector<std::string>& unknown) {
  std::vector<Mapping> mappings;
  const NameMap::Found found = map.find(name);
  if (!found.known) {
    if (parse_checkpoint_name(name).known) {
      mappings.push_back({names_.id(name), -1, {}});
    } else {
      unknown.push_back(name);
    }
  }
  for (const NameMap::Target& target : found.targets) {
    Mapping mapping{names_.id(target.checkpoint), -1, target.take};
    if (!target.transform.is_identity()) {
      mapping.transform = static_cast<int32_t>(transforms_.size());
      transforms_.push_back(target.transform);
    }
    mappings.push_back(mapping);
  }
  return mappings;
}

void LogIndex::add(const IndexEntry& entry) {
  const auto [place, added] = by_key_.try_emplace({entry.checkpoint, entry.token_idx},
                                                  static_cast<int64_t>(entries_.size()));
  if (added) {
    entries_.push_back(entry);
  } else {
    check_duplicate(entries_[static_cast<size_t>(place->second)], entry);
  }
}

void LogIndex::add_mapped(const IndexEntry& entry, const std::vector<Mapping>& mappings) {
  for (const Mapping& mapping : mappings) {
    IndexEntry mapped = entry;
    mapped.checkpoint = mapping.checkpoint;
    mapped.transform = mapping.transform;
    if (!mapping.take) {
      add(mapped);
      continue;
    }
    Choice& choice = choices_[{mapped.checkpoint, mapped.token_idx, *mapping.take}];
    choice.take = *mapping.take;
    choice.entries.push_back(mapped);
  }
}

void LogIndex::add_choices() {
  for (const auto& [key, choice] : choices_) {
    const auto count = std::ssize(choice.entries);
    const int64_t place = choice.take < 0 ? count + choice.take : choice.take;
    if (place >= 0 && place < count) add(choice.entries[static_cast<size_t>(place)]);
  }
  choices_.clear();
}

Record& LogIndex::load(const IndexEntry& entry, RecordLoader& loader) const {
  Record& record = loader.load(entry.place);
  if (!mapped_) return record;
  if (entry.transform >= 0) {
    try {
      apply_transform(transforms_[static_cast<size_t>(entry.transform)], record);
    } catch (const Error& error) {
      throw Error(error.what(), fmt::format("{}:{}", path(), entry.place.line));
    }
  }
  record.checkpoint = names_.name(entry.checkpoint);
  return record;
}

int64_t LogIndex::find(int32_t checkpoint, int64_t token_idx) const {
  const auto place = by_key_.find({checkpoint, token_idx});
  return place == by_key_.end() ? -1 : place->second;
}

void LogIndex::check_duplicate(const IndexEntry& first, const IndexEntry& second) {
  RecordLoader loader_a(file_);
  RecordLoader loader_b(file_);
  const Record& a = load(first, loader_a);
  const Record& b = load(second, loader_b);
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
              fmt::format("{}:{}", path(), second.place.line),
              "keep the log of each run in its own file");
}

}  // namespace assay
