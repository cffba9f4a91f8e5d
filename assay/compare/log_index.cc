#include "assay/compare/log_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "assay/compare/checkpoint_order.h"
#include "assay/compare/log_probabilities.h"
#include "assay/compare/record_content.h"
#include "base/count_of.h"
#include "base/error.h"
#include "model/architecture.h"

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

// The leading dimension of a shape of several that divides the elements; 1 if there is none.
// `bytes`: of the line, which no more rows than that can have values in.
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

// Whether a token has one row of the checkpoint, and no heads or experts.
bool has_one_dimension(const std::string& checkpoint) {
  if (is_logits_name(checkpoint)) return true;
  const CheckpointName name = parse_checkpoint_name(checkpoint);
  const std::optional<Checkpoint> known = find_checkpoint(name.op, name.layer >= 0);
  return known && has_model_width(*known);
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
    check_coordinates(*record, entry.place.line);
    entry.n = record->n;
    entry.rows = leading_rows(*record, entry.place.bytes);
    entry.is_sequence = record->dims && record->dims->starts_with("t");
    if (record->dims && !entry.is_sequence) entry.rows = 1;
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
  find_sequences();
  if (!any) throw no_records_error(log);
  if (!unknown.empty()) warnings_.push_back(unknown_names_warning(log.file()->path(), unknown));
  if (entries_.empty() && missing_records_.empty()) {
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
      missing_records_.push_back({targets_.name(std::get<0>(key)), std::get<1>(key)});
    }
  }
  choices_.clear();
  if (missing_records_.empty()) return;
  const MissingRecord& first = missing_records_.front();
  warnings_.push_back(
      fmt::format("{}: {} missing that the map takes from several of one name: there are too few, "
                  "first for {} at token {}",
                  printable(path()), count_of(missing_records_.size(), "record is", "records are"),
                  printable(first.checkpoint, 40), first.token_idx));
}

// Logs of batches and of several ranks are not put together here.
void LogIndex::check_coordinates(const Record& record, int64_t line) {
  if (!sequence_) sequence_ = record.sequence;
  const bool whole = !record.dims || record.dims->find('[') == std::string::npos;
  const bool good =
      whole && *sequence_ == record.sequence && (!record.rank || *record.rank == Rank());
  if (good) return;
  const std::string where = fmt::format("{}:{}", path(), line);
  if (!whole) {
    throw Error(fmt::format("a record with dims '{}', which is a part of a tensor",
                            printable(*record.dims, 40)),
                where, "the parts of several ranks are not put together yet: log whole tensors");
  }
  if (*sequence_ != record.sequence) {
    throw Error(fmt::format("a record of sequence '{}' in a log of sequence '{}'",
                            printable(record.sequence, 40), printable(*sequence_, 40)),
                where, "several sequences are not compared yet: log each in a file of its own");
  }
  throw Error(fmt::format("a record of rank tp {}, pp {}, ep {}", record.rank->tp, record.rank->pp,
                          record.rank->ep),
              where, "the parts of several ranks are not put together yet: log whole tensors");
}

void LogIndex::find_sequences() {
  std::vector<bool> per_token(static_cast<size_t>(names_.size()));
  for (int32_t id = 0; id < names_.size(); ++id) {
    per_token[static_cast<size_t>(id)] = has_one_dimension(names_.name(id));
  }
  std::map<int64_t, int32_t> rows_at;  // of the sequences, by their first token
  for (const IndexEntry& entry : entries_) {
    const bool shows = entry.is_sequence || per_token[static_cast<size_t>(entry.checkpoint)];
    if (entry.rows > 1 && shows) rows_at[entry.token_idx] = entry.rows;
  }
  expand(rows_at);
}

void LogIndex::expand_like(const LogIndex& other) {
  std::map<std::string, int64_t> widths;
  for (const IndexEntry& entry : other.entries_) {
    widths.emplace(other.names_.name(entry.checkpoint), entry.n / (entry.row < 0 ? 1 : entry.rows));
  }
  std::map<int64_t, int32_t> rows_at;
  for (const IndexEntry& entry : entries_) {
    if (entry.rows == 1 || entry.row >= 0) continue;
    const auto width = widths.find(names_.name(entry.checkpoint));
    if (width == widths.end() || width->second * entry.rows != entry.n) continue;
    rows_at[entry.token_idx] = entry.rows;
  }
  expand(rows_at);
}

// The records that begin at these tokens and have so many rows.
void LogIndex::expand(const std::map<int64_t, int32_t>& rows_at) {
  if (rows_at.empty()) return;
  std::vector<IndexEntry> entries;
  entries.swap(entries_);
  by_key_.clear();
  digests_.clear();
  for (const IndexEntry& entry : entries) {
    const auto found = rows_at.find(entry.token_idx);
    if (entry.rows == 1 || entry.row >= 0 || found == rows_at.end() ||
        found->second != entry.rows) {
      add(entry);
      continue;
    }
    IndexEntry row = entry;
    for (row.row = 0; row.row < entry.rows; ++row.row, ++row.token_idx) add(row);
  }
}

Record& LogIndex::load(const IndexEntry& entry, RecordLoader& loader) const {
  Record& record = entry.row < 0 ? loader.load(entry.place)
                                 : loader.load_row(entry.place, entry.row, entry.rows);
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
  // llama.cpp has several tensors of one name at each token.
  const std::string map = mapped_ ? "" : NameMap::suggest({now.checkpoint});
  RecordLoader again(file_);
  throw Error(fmt::format("'{}' at token {} was logged before, in line {}, with other values: {}",
                          now.checkpoint, now.token_idx, entry.place.line,
                          content_difference(load(entry, again), now)),
              fmt::format("{}:{}", path(), second.place.line),
              map.empty()
                  ? "keep the log of each run in its own file"
                  : fmt::format("the names look like those of {}: give --map {}", map, map));
}

}  // namespace assay
