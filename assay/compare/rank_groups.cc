// Records of several ranks in an index: which of them are one record.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "assay/compare/checkpoint_order.h"
#include "assay/compare/log_index.h"
#include "assay/compare/record_content.h"
#include "assay/compare/self_check.h"
#include "base/count_of.h"
#include "base/error.h"

namespace assay {
namespace {

const PartKind kOfOneProcess;

const PartKind& kind_of(const RunSource& run, const IndexEntry& entry) {
  return entry.part < 0 ? kOfOneProcess : run.parts[static_cast<size_t>(entry.part)];
}

// Whether `a` states more of a tensor than `b`.
bool tells_more(const Record& a, const Record& b) {
  const auto told = [](const Record& record) {
    return std::tuple(record.has_all_values(), record.sketch.has_value(), record.values.size(),
                      record.summary.has_value(), record.top.size());
  };
  return told(a) > told(b);
}

// The dims of one token: rows are records of their own.
Dims dims_of(const RunSource& run, const IndexEntry& entry) {
  Dims dims = kind_of(run, entry).dims;
  if (dims.is_sequence()) dims.axes.front().cut.clear();
  if (entry.row >= 0 && !dims.axes.empty()) dims.axes.erase(dims.axes.begin());
  if (dims.is_whole()) dims.axes.clear();
  return dims;
}

bool cut_alike(const Dims& a, const Dims& b) {
  return a.partial == b.partial &&
         std::ranges::equal(a.axes, b.axes, [](const Dims::Axis& x, const Dims::Axis& y) {
           return x.cut == y.cut;
         });
}

// The first rank whose part none of `ranks` has; nothing if all are there. Other axes are 0.
std::optional<Rank> missing_rank(const std::vector<RankAxis>& axes, const Rank& sizes,
                                 const std::vector<Rank>& ranks) {
  std::set<Rank> present;
  for (const Rank& rank : ranks) {
    Rank of_axes;
    for (const RankAxis axis : axes) along(of_axes, axis) = along(rank, axis);
    present.insert(of_axes);
  }
  Rank wanted;
  while (true) {
    if (!present.contains(wanted)) return wanted;
    size_t i = axes.size();
    while (i > 0 && ++along(wanted, axes[i - 1]) == along(sizes, axes[i - 1])) {
      along(wanted, axes[--i]) = 0;
    }
    if (i == 0) return std::nullopt;
  }
}

// The ranks that have different tokens.
std::vector<RankAxis> token_cut(const Dims& dims) {
  return dims.is_sequence() ? dims.axes.front().cut : std::vector<RankAxis>();
}

// Whether its experts are at different ranks.
bool is_cut_by_expert(const Dims& dims) {
  const size_t first = dims.is_sequence() ? 1 : 0;
  return dims.axes.size() > first && std::ranges::count(dims.axes[first].cut, RankAxis::kEp) > 0;
}

std::vector<Rank> ranks_of(const std::vector<RankPart>& parts) {
  std::vector<Rank> ranks;
  for (const RankPart& part : parts) ranks.push_back(part.rank);
  return ranks;
}

}  // namespace

// Tokens that are divided between ranks must be at one of them.
void LogIndex::check_overlap(const IndexEntry& a, const IndexEntry& b) const {
  const PartKind& kind = kind_of(*run_, a);
  for (const RankAxis axis : token_cut(kind.dims)) {
    if (along(kind.rank, axis) == along(kind_of(*run_, b).rank, axis)) continue;
    throw Error(fmt::format("'{}' at token {} is also in {}, though dims say that {} divides the "
                            "tokens: the cuts overlap",
                            names_.name(a.checkpoint), b.token_idx, where(a), rank_axis_name(axis)),
                where(b), "give each rank's first token as token_idx");
  }
}

// False if a part is missing.
bool LogIndex::check_group(IndexEntry& entry) {
  std::vector<IndexEntry>& members = groups_[static_cast<size_t>(entry.group)];
  const Dims dims = dims_of(*run_, members.front());
  std::vector<IndexEntry> kept;
  std::vector<Rank> ranks;
  std::map<Rank, size_t> place_of;  // in kept
  // Those of kept whose tokens are cut alike are all of the same ranks: the first stands for them.
  std::map<std::vector<RankAxis>, IndexEntry> cut_so;
  for (const IndexEntry& member : members) {
    if (!cut_alike(dims, dims_of(*run_, member))) {
      throw Error(fmt::format("'{}' at token {} has other dims than in {}",
                              names_.name(entry.checkpoint), member.token_idx, where(members[0])),
                  where(member), "log it with the same dims on all ranks");
    }
    const Rank& rank = kind_of(*run_, member).rank;
    const auto [same, added] = place_of.try_emplace(rank, kept.size());
    if (!added) {
      const IndexEntry& before = kept[same->second];
      IndexLoader loader = this->loader();
      const std::string digest = content_digest(part_of(before, loader).record);
      if (content_digest(part_of(member, loader).record) == digest) continue;
      throw Error(fmt::format("'{}' at token {} of rank {} was logged before, in {}, with other "
                              "values: the cuts overlap",
                              names_.name(entry.checkpoint), member.token_idx,
                              rank_text(rank, run_->sizes), where(before)),
                  where(member), "log each part once, with the rank that holds it");
    }
    for (const auto& [cut, other] : cut_so) check_overlap(other, member);
    cut_so.try_emplace(token_cut(kind_of(*run_, member).dims), member);
    kept.push_back(member);
    ranks.push_back(rank);
  }
  members = std::move(kept);
  entry.n = 0;
  std::map<std::vector<int64_t>, int64_t> sizes;  // of the pieces
  for (const IndexEntry& member : members) {
    RankPart part{.record = {}, .rank = kind_of(*run_, member).rank, .where = {}};
    place_part(dims, run_->sizes, part);
    if (sizes.try_emplace(part.piece, member.n).second) entry.n += member.n;
  }
  const std::optional<Rank> missing = missing_rank(dims.dividing(), run_->sizes, ranks);
  if (!missing) return true;
  if (missing_records_.size() == missing_of_map_) {
    warnings_.push_back(fmt::format(
        "{}: '{}' at token {} lacks the part of rank {}: what is not there of all ranks is missing",
        printable(where(members.front())), printable(names_.name(entry.checkpoint), 60),
        entry.token_idx, rank_text(*missing, run_->sizes)));
  }
  missing_records_.push_back({names_.name(entry.checkpoint), entry.token_idx});
  return false;
}

// Whether it is known which expert each part of a record is of: beside ids that are not cut as the
// record is, parts in the order of the ranks could be of any. A warning says so once.
bool LogIndex::has_known_experts(const IndexEntry& entry) {
  const auto is_cut = [&](const IndexEntry& each) {
    return each.group >= 0 &&
           is_cut_by_expert(dims_of(*run_, groups_[static_cast<size_t>(each.group)].front()));
  };
  const std::string& checkpoint = names_.name(entry.checkpoint);
  const CheckpointName name = parse_checkpoint_name(checkpoint);
  const auto op = find_checkpoint(name.op, name.layer >= 0);
  if (name.layer < 0 || !op || !std::ranges::count(kByExpert, *op) || !is_cut(entry)) return true;
  const std::string ids = checkpoint_name(Checkpoint::kExperts, name.layer);
  const auto place = by_key_.find({names_.find(ids), entry.token_idx});
  if (place == by_key_.end() || is_cut(entries_[static_cast<size_t>(place->second)])) return true;
  if (missing_records_.size() == missing_of_map_) {
    warnings_.push_back(fmt::format(
        "{}: '{}' at token {} has its experts in the order of the ranks, which '{}' does not have: "
        "cut both by ep",
        printable(where(entry)), printable(checkpoint, 60), entry.token_idx, ids));
  }
  missing_records_.push_back({checkpoint, entry.token_idx});
  return false;
}

// Marks records of which a rank that logs their checkpoint elsewhere has none: whether it holds the
// same, nothing shows. Warnings count these and, where the header states the ranks, the records of
// checkpoints that one of them never logs.
void LogIndex::find_lacking_replicas() {
  for (const std::string& warning : std::exchange(replica_warnings_, {})) {
    std::erase(warnings_, warning);
  }
  const auto warn = [&](std::string text) {
    replica_warnings_.push_back(printable(path()) + ": " + std::move(text));
    warnings_.push_back(replica_warnings_.back());
  };
  struct Found {
    int64_t count = 0;
    std::string first;
    Rank rank;
  };
  const auto note = [&](const IndexEntry& entry, const Rank& rank, Found& found) {
    if (found.count++ > 0) return;
    found.rank = rank;
    found.first = fmt::format("'{}' at token {}", printable(names_.name(entry.checkpoint), 60),
                              entry.token_idx);
  };
  Found lacking;
  std::map<RankAxis, Found> never;
  for (IndexEntry& entry : entries_) {
    const auto& wanted = run_->logged_by.at(names_.name(entry.checkpoint));
    std::set<std::pair<int64_t, int64_t>> here;
    const auto add = [&](const IndexEntry& member) {
      here.emplace(kind_of(*run_, member).rank.tp, kind_of(*run_, member).rank.ep);
    };
    if (entry.group < 0) {
      add(entry);
    } else {
      std::ranges::for_each(groups_[static_cast<size_t>(entry.group)], add);
    }
    const auto missing =
        std::ranges::find_if(wanted, [&](const auto& rank) { return !here.contains(rank); });
    entry.lacks_replica = missing != wanted.end();
    if (entry.lacks_replica) {
      Rank rank = kind_of(*run_, entry).rank;
      std::tie(rank.tp, rank.ep) = *missing;
      note(entry, rank, lacking);
    }
    for (const RankAxis axis : {RankAxis::kTp, RankAxis::kEp}) {
      std::set<int64_t> seen;
      for (const auto& [tp, ep] : wanted) seen.insert(axis == RankAxis::kTp ? tp : ep);
      if (std::ssize(seen) >= along(run_->stated, axis)) continue;
      Rank rank;
      while (seen.contains(along(rank, axis))) ++along(rank, axis);
      note(entry, rank, never[axis]);
    }
  }
  if (lacking.count > 0) {
    warn(
        fmt::format("{} not there of a rank that has the same checkpoint elsewhere, first {}, of "
                    "rank {}: whether it holds the same is unproven",
                    count_of(lacking.count, "record is", "records are"), lacking.first,
                    rank_text(lacking.rank, run_->sizes)));
  }
  for (const auto& [axis, found] : never) {
    warn(fmt::format(
        "{} of checkpoints that a rank never logs, though the header says that there "
        "are {} of {}, first {}: nothing shows what rank {} {} has",
        count_of(found.count, "record is", "records are"), along(run_->stated, axis),
        rank_axis_name(axis), found.first, rank_axis_name(axis), along(found.rank, axis)));
  }
}

void LogIndex::check_groups() {
  if (run_->logged_by.empty()) return;
  std::vector<IndexEntry> complete;
  for (IndexEntry& entry : entries_) {
    const bool good = entry.group < 0 || (check_group(entry) && has_known_experts(entry));
    (good ? complete : incomplete_).push_back(entry);
  }
  entries_ = std::move(complete);
  if (!incomplete_.empty()) index_keys();
  find_lacking_replicas();
}

RankPart LogIndex::part_of(const IndexEntry& entry, IndexLoader& loader) const {
  RankPart part{.record = {}, .rank = kind_of(*run_, entry).rank, .where = where(entry)};
  const auto axes = std::ssize(dims_of(*run_, entry).axes);
  if (entry.row < 0) {
    part.record = std::move(loader.RecordLoader::load(entry.place));
  } else {
    part.record = std::move(loader.load_row(entry.place, entry.row, entry.rows));
    if (axes > 0) part.record.shape = loader.sequence().shape;
  }
  // Those that dims name; tokens and leading axes of 1 do not count.
  std::vector<int64_t>& shape = part.record.shape;
  if (axes > 0) shape.erase(shape.begin(), shape.end() - axes);
  const bool is_piece = !dims_of(*run_, entry).is_whole();
  part.contradiction = contradiction_of(part.record, is_piece);
  if (entry.row == 0 && part.contradiction.empty()) {
    part.contradiction = contradiction_of(loader.sequence(), is_piece);
  }
  part.record.dims.reset();
  part.record.rank.reset();
  return part;
}

Record& LogIndex::load_group(const IndexEntry& entry, IndexLoader& loader) const {
  std::map<std::pair<std::vector<int64_t>, int64_t>, int64_t> places;
  for (const IndexEntry& member : groups_[static_cast<size_t>(entry.group)]) {
    RankPart part = part_of(member, loader);
    place_part(dims_of(*run_, member), run_->sizes, part);
    const auto [first, added] =
        places.try_emplace({part.piece, part.addend}, std::ssize(loader.parts_));
    loader.parts_.push_back(std::move(part));
    if (added) continue;
    // Of replicas, the one that says most is held to the other log, and the rest to it.
    const RankPart& told_most = loader.parts_[static_cast<size_t>(first->second)];
    const bool more = tells_more(loader.parts_.back().record, told_most.record);
    if (more) first->second = std::ssize(loader.parts_) - 1;
  }
  for (int64_t i = 0; i < std::ssize(loader.parts_); ++i) {
    RankPart& part = loader.parts_[static_cast<size_t>(i)];
    const int64_t told_most = places.at({part.piece, part.addend});
    if (told_most != i) part.replica_of = told_most;
  }
  const bool whole =
      !missing_rank(dims_of(*run_, entry).dividing(), run_->sizes, ranks_of(loader.parts_));
  loader.whole_ = whole ? put_together(loader.parts_) : loader.parts_.front().record;
  return loader.whole_;
}

}  // namespace assay
