#include "assay/compare/log_index.h"

#include <fmt/format.h>

#include <algorithm>

#include "assay/compare/checkpoint_order.h"
#include "assay/compare/record_content.h"
#include "base/count_of.h"
#include "base/error.h"

namespace assay {
namespace {

void check_name(const std::string& name, const std::string& path, int64_t line) {
  if (name.size() <= NamePattern::kMaxName) return;
  throw Error(fmt::format("the checkpoint's name has {} bytes, more than {}", name.size(),
                          NamePattern::kMaxName),
              fmt::format("{}:{}", path, line), "give it a shorter name");
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
  MatchBudget budget;
  bool any = false;
  while (const Record* record = log.next()) {
    any = true;
    IndexEntry entry;
    if (record->team) entry.team = teams_.id(*record->team);
    entry.token_idx = record->token_idx;
    entry.place = log.place();
    check_name(record->checkpoint, file_->path(), entry.place.line);
    if (mapped_) {
      const auto raw = static_cast<size_t>(raw_names.id(record->checkpoint));
      if (raw == mappings.size()) {
        mappings.push_back(mappings_of(record->checkpoint, map, budget, unknown));
      }
      add_mapped(entry, mappings[raw]);
    } else {
      entry.checkpoint = names_.id(record->checkpoint);
      add(entry);
    }
  }
  header_ = log.header();
  warnings_ = log.warnings();
  add_choices();
  if (!any) throw no_records_error(log);
  if (!unknown.empty()) warnings_.push_back(unknown_names_warning(log.file()->path(), unknown));
  if (entries_.empty() && untaken_.empty()) {
    throw Error("the map knows none of the log's names", file_->path(),
                "give the map of the engine that wrote it");
  }
}

std::vector<LogIndex::Mapping> LogIndex::mappings_of(const std::string& name, const NameMap& map,
                                                     MatchBudget& budget,
                                                     std::vector<std::string>& unknown) {
  std::vector<Mapping> mappings;
  const NameMap::Found found = map.find(name, budget);
  if (!found.known) {
    if (parse_checkpoint_name(name).known) {
      mappings.push_back({targets_.id(name), -1, {}});
    } else {
      unknown.push_back(name);
    }
  }
  for (const NameMap::Target& target : found.targets) {
    Mapping mapping{targets_.id(target.checkpoint), -1, target.take};
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
    check_duplicate(place->second, entry);
  }
}

void LogIndex::add_target(IndexEntry entry, int32_t target) {
  entry.checkpoint = names_.id(targets_.name(target));
  add(entry);
}

void LogIndex::add_mapped(const IndexEntry& entry, const std::vector<Mapping>& mappings) {
  for (const Mapping& mapping : mappings) {
    IndexEntry mapped = entry;
    mapped.transform = mapping.transform;
    if (!mapping.take) {
      add_target(mapped, mapping.target);
      continue;
    }
    Choice& choice = choices_[{mapping.target, mapped.token_idx, *mapping.take}];
    choice.take = *mapping.take;
    choice.entries.push_back(mapped);
  }
}

void LogIndex::add_choices() {
  for (const auto& [key, choice] : choices_) {
    const auto count = std::ssize(choice.entries);
    const int64_t place = choice.take < 0 ? count + choice.take : choice.take;
    if (place >= 0 && place < count) {
      add_target(choice.entries[static_cast<size_t>(place)], std::get<0>(key));
    } else {
      untaken_.push_back({targets_.name(std::get<0>(key)), std::get<1>(key)});
    }
  }
  choices_.clear();
  if (untaken_.empty()) return;
  const Untaken& first = untaken_.front();
  warnings_.push_back(
      fmt::format("{}: {} missing that the map takes from several of one name: there are too few, "
                  "first for {} at token {}",
                  printable(path()), count_of(untaken_.size(), "record is", "records are"),
                  printable(first.checkpoint, 40), first.token_idx));
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

// The first one is read again only once, however often it is repeated.
void LogIndex::check_duplicate(int64_t first, const IndexEntry& second) {
  RecordLoader loader(file_);
  const IndexEntry& entry = entries_[static_cast<size_t>(first)];
  std::string& digest = digests_[first];
  if (digest.empty()) digest = content_digest(load(entry, loader));
  const Record& now = load(second, loader);
  if (content_digest(now) == digest) return;
  RecordLoader again(file_);
  throw Error(fmt::format("'{}' at token {} was logged before, in line {}, with other values: {}",
                          now.checkpoint, now.token_idx, entry.place.line,
                          content_difference(load(entry, again), now)),
              fmt::format("{}:{}", path(), second.place.line),
              "keep the log of each run in its own file");
}

}  // namespace assay
