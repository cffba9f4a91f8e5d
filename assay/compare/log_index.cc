#include "assay/compare/log_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "assay/compare/checkpoint_order.h"
#include "assay/compare/record_content.h"
#include "assay/compare/run_index.h"
#include "assay/compare/sequence_rows.h"
#include "base/count_of.h"
#include "base/error.h"

namespace assay {

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
  std::vector<std::shared_ptr<LogIndex>> all = read_run(path, map);
  if (all.size() > 1) {
    throw Error(fmt::format("the log holds {} sequences, such as '{}' and '{}'", all.size(),
                            printable(all[0]->sequence(), 40), printable(all[1]->sequence(), 40)),
                path, "give the log of one sequence; assay compare takes several");
  }
  *this = std::move(*all.front());
  leave_out_padding();
  if (!incomplete_.empty()) throw Error(warnings_.back(), "", "log the parts of all ranks");
}

std::vector<std::shared_ptr<LogIndex>> LogIndex::read_run(const std::string& path,
                                                          const NameMap& map) {
  return RunIndexer(path, map).read();
}

std::shared_ptr<LogIndex> LogIndex::without_records(const LogIndex& other) {
  std::shared_ptr<LogIndex> none(new LogIndex());
  none->run_ = other.run_;
  return none;
}

std::string LogIndex::where(const IndexEntry& entry) const {
  return fmt::format("{}:{}", run_->files[static_cast<size_t>(entry.place.file)]->path(),
                     entry.place.line);
}

void LogIndex::add(const IndexEntry& entry) {
  const auto [place, added] = by_key_.try_emplace({entry.checkpoint, entry.token_idx},
                                                  static_cast<int64_t>(entries_.size()));
  if (added) {
    entries_.push_back(entry);
    if (entry.part < 0) return;
    const PartKind& part = run_->parts[static_cast<size_t>(entry.part)];
    if (!part.dims.is_whole()) add_to_group(entries_.back(), entry);
    return;
  }
  IndexEntry& first = entries_[static_cast<size_t>(place->second)];
  if (entry.part < 0 && first.part < 0) {
    check_duplicate(place->second, entry);
    return;
  }
  if (first.group < 0) add_to_group(first, first);
  add_to_group(first, entry);
}

void LogIndex::add_to_group(IndexEntry& first, const IndexEntry& entry) {
  if (first.group < 0) {
    first.group = static_cast<int32_t>(groups_.size());
    groups_.emplace_back();
  }
  groups_[static_cast<size_t>(first.group)].push_back(entry);
  groups_[static_cast<size_t>(first.group)].back().group = -1;
}

void LogIndex::index_entries(std::vector<IndexEntry> entries) {
  entries_.clear();
  incomplete_.clear();
  groups_.clear();
  by_key_.clear();
  digests_.clear();
  missing_records_.resize(missing_of_map_);
  for (const IndexEntry& entry : entries) add(entry);
  check_groups();
}

void LogIndex::finish() {
  missing_of_map_ = missing_records_.size();
  index_entries(std::exchange(entries_, {}));
  find_rows();
}

void LogIndex::find_rows() {
  std::vector<bool> per_token(static_cast<size_t>(names_.size()));
  for (int32_t id = 0; id < names_.size(); ++id) {
    per_token[static_cast<size_t>(id)] = has_one_dimension(names_.name(id));
  }
  std::map<int64_t, int32_t> rows_at;  // of the sequences, by their first token
  const auto look_at = [&](const IndexEntry& entry) {
    const bool shows = entry.is_sequence || (per_token[static_cast<size_t>(entry.checkpoint)] &&
                                             has_several_columns(entry.n, entry.rows));
    if (entry.rows > 1 && shows) rows_at[entry.token_idx] = entry.rows;
  };
  for (const IndexEntry& entry : entries_) {
    look_at(entry);
    if (entry.group < 0) continue;
    for (const IndexEntry& member : groups_[static_cast<size_t>(entry.group)]) look_at(member);
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
  const auto take = [&](IndexEntry entry) {
    entry.group = -1;
    const auto found = rows_at.find(entry.token_idx);
    if (entry.rows == 1 || entry.row >= 0 || found == rows_at.end() ||
        found->second != entry.rows) {
      entries.push_back(entry);
      return;
    }
    for (entry.row = 0; entry.row < entry.rows; ++entry.row, ++entry.token_idx) {
      entries.push_back(entry);
    }
  };
  for (const std::vector<IndexEntry>* all : {&entries_, &incomplete_}) {
    for (const IndexEntry& entry : *all) {
      if (entry.group < 0) {
        take(entry);
      } else {
        for (const IndexEntry& member : groups_[static_cast<size_t>(entry.group)]) take(member);
      }
    }
  }
  index_entries(std::move(entries));
}

void LogIndex::leave_out_padding() {
  if (!header_ || header_->mask.empty()) return;
  const std::vector<int64_t> mask = std::exchange(header_->mask, {});
  std::vector<int64_t> position(mask.size() + 1);  // of each column: those before it that count
  for (size_t i = 0; i < mask.size(); ++i) position[i + 1] = position[i] + (mask[i] != 0 ? 1 : 0);
  const auto columns = std::ssize(mask);
  const auto is_padding = [&](int64_t column) {
    return column < columns && mask[static_cast<size_t>(column)] == 0;
  };
  const auto move = [&](int64_t& token_idx) {
    token_idx = token_idx < columns ? position[static_cast<size_t>(token_idx)]
                                    : token_idx - columns + position.back();
  };
  const auto leave_out = [&](auto& records) {
    const size_t count =
        std::erase_if(records, [&](const auto& record) { return is_padding(record.token_idx); });
    for (auto& record : records) move(record.token_idx);
    return count;
  };
  std::vector<MissingRecord> unproven;
  for (const IndexEntry& entry : entries_) {
    if (mask_is_guess_ && is_padding(entry.token_idx)) {
      unproven.push_back({names_.name(entry.checkpoint), entry.token_idx});
    }
  }
  const size_t left_out = leave_out(entries_);
  leave_out(incomplete_);
  leave_out(unmapped_);
  for (const MissingRecord& record : missing_records_) {
    if (mask_is_guess_ && is_padding(record.token_idx)) unproven.push_back(record);
  }
  leave_out(missing_records_);
  missing_records_.insert(missing_records_.end(), unproven.begin(), unproven.end());
  index_keys();
  size_t column = 0;
  std::erase_if(header_->tokens, [&](int64_t) { return mask[column++] == 0; });
  if (left_out == 0) return;
  if (mask_is_guess_) {
    warnings_.push_back(fmt::format(
        "{}: {} at tokens that the other log's sequence '{}' lacks. If they are padding, say so by "
        "'mask' in the header",
        printable(path()), count_of(left_out, "record is", "records are"),
        printable(sequence_, 40)));
    return;
  }
  warnings_.push_back(fmt::format("{}: {} of padding of sequence '{}' left out", printable(path()),
                                  count_of(left_out, "record is", "records are"),
                                  printable(sequence_, 40)));
}

Record& LogIndex::load(const IndexEntry& entry, IndexLoader& loader) const {
  loader.parts_.clear();
  Record& record = entry.group >= 0 ? load_group(entry, loader)
                   : entry.row < 0  ? loader.RecordLoader::load(entry.place)
                                    : loader.load_row(entry.place, entry.row, entry.rows);
  record.token_idx = entry.token_idx;
  if (!run_->mapped) return record;
  if (entry.transform >= 0) {
    try {
      apply_transform(run_->transforms[static_cast<size_t>(entry.transform)], record);
    } catch (const Error& error) {
      throw Error(error.what(), where(entry));
    }
  }
  record.checkpoint = names_.name(entry.checkpoint);
  return record;
}

void LogIndex::index_keys() {
  by_key_.clear();
  for (int64_t i = 0; i < std::ssize(entries_); ++i) {
    const IndexEntry& entry = entries_[static_cast<size_t>(i)];
    by_key_.emplace(std::pair(entry.checkpoint, entry.token_idx), i);
  }
}

int64_t LogIndex::find(int32_t checkpoint, int64_t token_idx) const {
  const auto place = by_key_.find({checkpoint, token_idx});
  return place == by_key_.end() ? -1 : place->second;
}

// The first one is read again only once, however often it is repeated.
void LogIndex::check_duplicate(int64_t first, const IndexEntry& second) {
  IndexLoader loader = this->loader();
  const IndexEntry& entry = entries_[static_cast<size_t>(first)];
  std::string& digest = digests_[first];
  if (digest.empty()) digest = content_digest(load(entry, loader));
  const Record& now = load(second, loader);
  if (content_digest(now) == digest) return;
  // llama.cpp has several tensors of one name at each token.
  const std::string map = run_->mapped ? "" : NameMap::suggest({now.checkpoint});
  IndexLoader again = this->loader();
  const bool same_file = entry.place.file == second.place.file;
  throw Error(fmt::format("'{}' at token {} was logged before, in {}, with other values: {}",
                          now.checkpoint, now.token_idx,
                          same_file ? fmt::format("line {}", entry.place.line) : where(entry),
                          content_difference(load(entry, again), now)),
              where(second),
              map.empty()
                  ? "keep the log of each run in its own file"
                  : fmt::format("the names look like those of {}: give --map {}", map, map));
}

}  // namespace assay
