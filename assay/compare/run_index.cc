#include "assay/compare/run_index.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "assay/compare/checkpoint_order.h"
#include "assay/compare/sequence_rows.h"
#include "base/count_of.h"
#include "base/error.h"

namespace assay {
namespace {

[[noreturn]] void fail_long_name(const std::string& name, const std::string& where) {
  throw Error(fmt::format("the checkpoint's name has {} bytes, more than {}", name.size(),
                          NamePattern::kMaxName),
              where, "give it a shorter name");
}

std::string left_out_warning(const std::string& path, const char* why,
                             const std::vector<std::string>& names) {
  constexpr size_t kShown = 4;
  std::string shown;
  for (size_t i = 0; i < std::min(kShown, names.size()); ++i) {
    shown += (i > 0 ? ", " : "") + printable(names[i], 40);
  }
  return fmt::format("{}: {} {} left out: {}{}", printable(path),
                     count_of(names.size(), "name is", "names are"), why, shown,
                     names.size() > kShown ? ", ..." : "");
}

// Whether the parts that a map takes of a tensor are less than all of it. Equal fractions are equal
// as floats, whatever they count in.
bool leaves_a_part(const std::vector<NameMap::Target>& targets) {
  std::vector<std::pair<double, double>> parts;
  for (const NameMap::Target& target : targets) {
    const RecordTransform& transform = target.transform;
    if (transform.part_count == 0) return false;
    const auto count = static_cast<double>(transform.part_count);
    parts.emplace_back(static_cast<double>(transform.part_begin) / count,
                       static_cast<double>(transform.part_end) / count);
  }
  std::ranges::sort(parts);
  double end = 0.0;
  for (const auto& part : parts) {
    if (part.first > end) return true;
    end = std::max(end, part.second);
  }
  return !parts.empty() && end < 1.0;
}

}  // namespace

RunIndexer::RunIndexer(const std::string& path, const NameMap& map)
    : map_(map), files_(run_files(path)), run_(std::make_shared<RunSource>()) {
  run_->path = path;
  run_->mapped = !map.empty();
  if (files_.size() == 1) return;
  std::vector<std::optional<LogHeader>> headers;
  for (const std::string& file : files_) headers.push_back(read_log_header(file));
  header_ = agree_on_header(files_, std::move(headers));
}

std::vector<std::shared_ptr<LogIndex>> RunIndexer::read() {
  for (size_t i = 0; i < files_.size(); ++i) read_file(i);
  add_choices();
  count_ranks();
  note_ranks_of_checkpoints();
  set_headers();
  int64_t bytes = 0;
  bool any = false;
  for (const auto& file : run_->files) bytes += file->size();
  for (const auto& sequence : sequences_) {
    sequence->bytes_ = bytes / std::ssize(sequences_);
    any = any || !sequence->entries_.empty() || !sequence->missing_records_.empty();
  }
  if (!any) {
    throw Error("the map knows none of the log's names", run_->path,
                "give the map of the engine that wrote it");
  }
  run_->raw_names = std::move(raw_names_);
  for (const auto& sequence : sequences_) sequence->finish();
  std::vector<std::string>& warnings = sequences_.front()->warnings_;
  warnings.insert(warnings.begin(), warnings_.begin(), warnings_.end());
  const auto warn = [&](const char* why, const std::vector<std::string>& names) {
    if (!names.empty()) warnings.push_back(left_out_warning(run_->path, why, names));
  };
  warn("not known to the map and", unknown_);
  warn("Assay's own, but mapped to null and", left_out_);
  warn("mapped in part, and the rest of the tensor is", taken_in_part_);
  warn("Assay's own, but 'take' prefers another record of the token, and", passed_over_);
  return std::move(sequences_);
}

void RunIndexer::read_file(size_t file) {
  LogReader log(files_[file], Depth::kKeys);
  run_->files.push_back(log.file());
  bool any = false;
  while (const Record* record = log.next()) {
    if (!header_) header_ = agree_on_header(files_, {log.header()});
    any = true;
    RecordPlace place = log.place();
    place.file = static_cast<int32_t>(file);
    add(*record, place);
  }
  if (!any) throw no_records_error(log);
  warnings_.insert(warnings_.end(), log.warnings().begin(), log.warnings().end());
}

std::string RunIndexer::place_text(const RecordPlace& place) const {
  return fmt::format("{}:{}", files_[static_cast<size_t>(place.file)], place.line);
}

void RunIndexer::add(const Record& record, const RecordPlace& place) {
  const size_t sequence = sequence_of(record, place.file);
  LogIndex& index = *sequences_[sequence];
  IndexEntry entry;
  if (record.team) entry.team = index.teams_.id(*record.team);
  entry.token_idx = record.token_idx;
  entry.place = place;
  entry.n = record.n;
  entry.rows = leading_rows(record, place.bytes);
  count_rank(sequence, record.rank.value_or(Rank()));
  if (record.dims || record.rank) entry.part = part_of(record, place, entry);
  if (record.checkpoint.size() > NamePattern::kMaxName) {
    fail_long_name(record.checkpoint, place_text(place));
  }
  if (!run_->mapped) {
    entry.checkpoint = index.names_.id(record.checkpoint);
    index.entries_.push_back(entry);
    return;
  }
  const auto raw = static_cast<size_t>(raw_names_.id(record.checkpoint));
  if (raw == mappings_.size()) mappings_.push_back(mappings_of(record.checkpoint));
  entry.checkpoint = static_cast<int32_t>(raw);
  if (mappings_[raw].empty()) {
    add_unmapped(index, entry);
  } else {
    add_mapped(sequence, entry, mappings_[raw]);
    if (std::ranges::find(taken_in_part_, record.checkpoint) != taken_in_part_.end()) {
      in_part_.emplace_back(sequence, entry);
    }
  }
}

// The sequence that a record is of, by its place in sequences_.
size_t RunIndexer::sequence_of(const Record& record, int32_t file) {
  const std::string& of_file = header_->default_sequence[static_cast<size_t>(file)];
  const std::string& name = record.sequence == "0" && !of_file.empty() ? of_file : record.sequence;
  if (last_ < sequences_.size() && sequences_[last_]->sequence_ == name) return last_;
  const auto [place, added] = by_name_.try_emplace(name, sequences_.size());
  if (added) {
    sequences_.push_back(std::shared_ptr<LogIndex>(new LogIndex()));
    sequences_.back()->run_ = run_;
    sequences_.back()->sequence_ = name;
  }
  last_ = place->second;
  return last_;
}

void RunIndexer::count_rank(size_t sequence, const Rank& rank) {
  seen_of_sequence_.resize(std::max(seen_of_sequence_.size(), sequence + 1));
  for (const RankAxis axis : kRankAxes) {
    const auto at = static_cast<size_t>(axis);
    seen_[at].insert(along(rank, axis));
    seen_of_sequence_[sequence][at].insert(along(rank, axis));
  }
}

// The kind of part that a record is, in run_->parts; -1 where it is a whole tensor of rank 0.
int32_t RunIndexer::part_of(const Record& record, const RecordPlace& place, IndexEntry& entry) {
  const Rank rank = record.rank.value_or(Rank());
  Dims dims;
  if (record.dims) {
    try {
      dims = parse_dims(*record.dims, record.shape);
    } catch (const Error& error) {
      throw Error(error.what(), place_text(place));
    }
    entry.is_sequence = dims.is_sequence();
    if (!entry.is_sequence) entry.rows = 1;
  }
  if (!dims.is_whole() && element_count(record.shape) != record.n) {
    throw Error(fmt::format("'dims' is '{}', but 'n' is {} and the shape [{}]",
                            printable(*record.dims, 60), record.n, fmt::join(record.shape, ",")),
                place_text(place), "give the shape of the part that this rank holds");
  }
  for (const RankAxis axis : dims.dividing()) divides_[static_cast<size_t>(axis)] = true;
  if (dims.is_whole() && rank == Rank()) return -1;
  const std::string text = record.dims.value_or("");
  const auto [part, added] =
      parts_.try_emplace({rank.tp, rank.pp, rank.ep, rank.sp, text, record.shape.size()},
                         static_cast<int32_t>(run_->parts.size()));
  if (added) run_->parts.push_back({rank, std::move(dims)});
  return part->second;
}

std::vector<RunIndexer::Mapping> RunIndexer::mappings_of(const std::string& name) {
  std::vector<Mapping> mappings;
  const NameMap::Found found = map_.find(name, budget_);
  if (!found.known) {
    if (parse_checkpoint_name(name).known) {
      mappings.push_back({targets_.id(name), -1, {}});
    } else {
      unknown_.push_back(name);
    }
  }
  if (found.known && found.targets.empty() && parse_checkpoint_name(name).known) {
    left_out_.push_back(name);
  }
  if (leaves_a_part(found.targets)) taken_in_part_.push_back(name);
  for (const NameMap::Target& target : found.targets) {
    Mapping mapping{targets_.id(target.checkpoint), -1, target.take, target.optional};
    if (!target.transform.is_identity()) {
      mapping.transform = static_cast<int32_t>(run_->transforms.size());
      run_->transforms.push_back(target.transform);
    }
    mappings.push_back(mapping);
  }
  return mappings;
}

void RunIndexer::add_unmapped(LogIndex& index, IndexEntry entry) {
  entry.checkpoint = index.unmapped_names_.id(raw_names_.name(entry.checkpoint));
  index.unmapped_.push_back(entry);
}

void RunIndexer::add_mapped(size_t sequence, const IndexEntry& entry,
                            const std::vector<Mapping>& mappings) {
  LogIndex& index = *sequences_[sequence];
  for (const Mapping& mapping : mappings) {
    IndexEntry mapped = entry;
    mapped.transform = mapping.transform;
    if (!mapping.take) {
      mapped.checkpoint = index.names_.id(targets_.name(mapping.target));
      index.entries_.push_back(mapped);
      continue;
    }
    Choice& choice =
        choices_[{sequence, mapping.target, mapped.token_idx, *mapping.take, mapped.part}];
    choice.take = *mapping.take;
    choice.optional = mapping.optional;
    choice.entries.push_back(mapped);
  }
}

// A record that several rules name is unmapped only if none of them takes it; it is listed once.
void RunIndexer::drop_mapped_elsewhere(LogIndex& index) {
  if (index.unmapped_.empty()) return;
  const auto key = [](const IndexEntry& entry) {
    return std::pair(entry.place.file, entry.place.offset);
  };
  std::set<std::pair<int32_t, int64_t>> seen;
  for (const IndexEntry& entry : index.entries_) seen.insert(key(entry));
  std::erase_if(index.unmapped_,
                [&](const IndexEntry& entry) { return !seen.insert(key(entry)).second; });
}

// What is unmapped and has a name that the map knows was left for another record by 'take'. Other
// engines give one name to several tensors, Assay does not.
void RunIndexer::note_passed_over(const LogIndex& index) {
  for (const IndexEntry& entry : index.unmapped_) {
    const std::string& name = index.unmapped_names_.name(entry.checkpoint);
    const auto is_in = [&](const auto& names) {
      return std::ranges::find(names, name) != names.end();
    };
    if (!parse_checkpoint_name(name).known || is_in(left_out_) || is_in(passed_over_)) continue;
    passed_over_.push_back(name);
  }
}

void RunIndexer::add_choices() {
  std::optional<LogIndex::MissingRecord> first;
  size_t missing = 0;
  for (const auto& [key, choice] : choices_) {
    LogIndex& index = *sequences_[std::get<0>(key)];
    const std::string& target = targets_.name(std::get<1>(key));
    const auto count = std::ssize(choice.entries);
    const int64_t place = choice.take < 0 ? count + choice.take : choice.take;
    for (int64_t i = 0; i < count; ++i) {
      if (i != place) add_unmapped(index, choice.entries[static_cast<size_t>(i)]);
    }
    if (place >= 0 && place < count) {
      IndexEntry entry = choice.entries[static_cast<size_t>(place)];
      entry.checkpoint = index.names_.id(target);
      index.entries_.push_back(entry);
      continue;
    }
    if (choice.optional) continue;
    index.missing_records_.push_back({target, std::get<2>(key)});
    if (missing++ == 0) first = index.missing_records_.back();
  }
  for (const auto& index : sequences_) {
    drop_mapped_elsewhere(*index);
    note_passed_over(*index);
  }
  // For NaN in what is left out.
  for (const auto& [sequence, entry] : in_part_) add_unmapped(*sequences_[sequence], entry);
  if (!first) return;
  warnings_.push_back(
      fmt::format("{}: {} missing that the map takes from several of one name: there are too few, "
                  "first for {} at token {}",
                  printable(run_->path), count_of(missing, "record is", "records are"),
                  printable(first->checkpoint, 40), first->token_idx));
}

// Throws if a rank is missing.
void RunIndexer::count_ranks() {
  if (header_->header) run_->stated = header_->header->ranks.value_or(Rank());
  for (const RankAxis axis : kRankAxes) {
    const std::set<int64_t>& seen = seen_[static_cast<size_t>(axis)];
    const int64_t stated = along(run_->stated, axis);
    const int64_t largest = *seen.rbegin();
    const int64_t count = stated > 0 ? stated : largest + 1;
    if (largest >= count) {
      throw Error(fmt::format("there is a rank {} {}, but the header says {} of them",
                              rank_axis_name(axis), largest, count),
                  run_->path, "count ranks from 0");
    }
    int64_t missing = 0;
    while (missing < count && seen.contains(missing)) ++missing;
    // Which of its parts a single process lacks, nothing would show.
    if (count == 1 && stated == 0 && divides_[static_cast<size_t>(axis)]) {
      throw Error(
          fmt::format("dims say that {0} divides tensors, but there is no rank but {0} 0",
                      rank_axis_name(axis)),
          run_->path,
          fmt::format("give the folder with the logs of all ranks; if there is one rank, write "
                      "\"ranks\":{{\"{}\":1}} in the header",
                      rank_axis_name(axis)));
    }
    if (missing < count) {
      throw Error(fmt::format("rank {} {} of {} is missing", rank_axis_name(axis), missing, count),
                  run_->path, "give the folder with the logs of all ranks");
    }
    along(run_->sizes, axis) = count;
  }
  check_ranks_of_sequences();
}

void RunIndexer::note_ranks_of_checkpoints() {
  if (run_->parts.empty()) return;
  for (const auto& index : sequences_) {
    std::vector<std::set<std::pair<int64_t, int64_t>>> by_id(
        static_cast<size_t>(index->names_.size()));
    for (const IndexEntry& entry : index->entries_) {
      const Rank rank = entry.part < 0 ? Rank() : run_->parts[static_cast<size_t>(entry.part)].rank;
      by_id[static_cast<size_t>(entry.checkpoint)].emplace(rank.tp, rank.ep);
    }
    for (int32_t id = 0; id < index->names_.size(); ++id) {
      run_->logged_by[index->names_.name(id)].merge(by_id[static_cast<size_t>(id)]);
    }
  }
}

// All ranks compute each sequence: one that only some have is what these make of another's tokens.
// Of a short one, not every rank of `sp` has a token.
void RunIndexer::check_ranks_of_sequences() const {
  for (const RankAxis axis : kRankAxes) {
    if (axis == RankAxis::kSp) continue;
    for (size_t i = 0; i < sequences_.size(); ++i) {
      const std::set<int64_t>& seen = seen_of_sequence_[i][static_cast<size_t>(axis)];
      int64_t missing = 0;
      while (seen.contains(missing)) ++missing;
      if (missing == along(run_->sizes, axis)) continue;
      throw Error(
          fmt::format("rank {} {} of {} has nothing of the sequence '{}', which other ranks have",
                      rank_axis_name(axis), missing, along(run_->sizes, axis),
                      printable(sequences_[i]->sequence_, 40)),
          run_->path,
          "if it was given other tokens than they were, that is the fault; processes of which each "
          "has sequences of its own are no ranks of one another: leave out 'rank' and 'ranks'");
    }
  }
}

void RunIndexer::fail_for_unlisted(const LogIndex& index) const {
  throw Error(fmt::format("has records of sequence '{}', which its header does not list",
                          printable(index.sequence_, 40)),
              run_->path, "list each sequence with its tokens, or none");
}

void RunIndexer::set_headers() {
  if (!header_->header) return;
  const std::vector<LogHeader::Sequence>& named = header_->sequences;
  std::unordered_map<std::string_view, const LogHeader::Sequence*> by_name;
  const bool is_one = sequences_.size() == 1 && named.size() == 1;
  for (const LogHeader::Sequence& sequence : named) {
    by_name.emplace(sequence.name, &sequence);
    if (!is_one && !by_name_.contains(sequence.name)) run_->unlogged.push_back(sequence.name);
  }
  for (const auto& index : sequences_) {
    index->header_ = header_->header;
    const auto place = by_name.find(index->sequence_);
    const LogHeader::Sequence* found = place == by_name.end() ? nullptr : place->second;
    if (is_one) found = &named.front();
    if (found == nullptr) {
      // Its tokens would be unknown, and those of another log as good as any.
      if (header_->lists_sequences) fail_for_unlisted(*index);
      continue;
    }
    index->header_->tokens = found->tokens;
    index->header_->mask = found->mask;
  }
}

}  // namespace assay
