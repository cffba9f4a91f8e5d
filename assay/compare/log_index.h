#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "assay/compare/dims.h"
#include "assay/compare/name_map.h"
#include "assay/compare/rank_parts.h"
#include "assay/log/log_reader.h"
#include "assay/log/record.h"

namespace assay {

// Names as small numbers, in the order in which they were first met.
class NameTable {
 public:
  int32_t id(std::string_view name);
  // -1 if it has not been met.
  int32_t find(const std::string& name) const;
  const std::string& name(int32_t id) const { return names_[static_cast<size_t>(id)]; }
  int32_t size() const { return static_cast<int32_t>(names_.size()); }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, int32_t> ids_;
};

struct IndexEntry {
  int32_t checkpoint = 0;  // in the index's names()
  int32_t team = -1;       // in the index's teams(), -1 where the record has none
  int64_t token_idx = 0;
  RecordPlace place;
  int32_t transform = -1;  // what a map makes of it, in the index; -1 nothing
  // Of a record of a whole sequence, the row that belongs to this token; -1 where the record is of
  // one token.
  int32_t row = -1;
  int64_t n = 0;               // elements of the record
  int32_t rows = 1;            // its leading dimension, if it has several
  bool is_sequence = false;    // `dims` says that these are tokens
  int32_t part = -1;           // its rank and dims, in the run; -1 where it is of a single process
  int32_t group = -1;          // the records that it is put together from; -1 itself alone
  bool lacks_replica = false;  // a rank that logs this checkpoint elsewhere did not here
};

// Which rank logged a record, and what part of the tensor it says that it is.
struct PartKind {
  Rank rank;
  Dims dims;
};

// What the sequences of one run share.
struct RunSource {
  std::string path;
  std::vector<std::shared_ptr<const InputFile>> files;
  std::vector<RecordTransform> transforms;
  bool mapped = false;
  std::vector<PartKind> parts;
  Rank sizes = {1, 1, 1, 1};   // how many ranks each axis has
  Rank stated = {0, 0, 0, 0};  // by the header, 0 where it does not say
  // The ranks of tp and ep that log each checkpoint, anywhere in the run; empty where no record is
  // of several. Layers are at one rank of pp, tokens may be at one of sp.
  std::map<std::string, std::set<std::pair<int64_t, int64_t>>> logged_by;
  NameTable raw_names;                // where a map gives others: as the log has them
  std::vector<std::string> unlogged;  // sequences that a header lists, and of which no record is
};

// Reads records of an index; one for each thread.
class IndexLoader : public RecordLoader {
 public:
  using RecordLoader::RecordLoader;

  // What the last record was put together from; empty where it is of a single process.
  const std::vector<RankPart>& parts() const { return parts_; }

 private:
  friend class LogIndex;
  std::vector<RankPart> parts_;
  Record whole_;
};

// Where each record of one sequence of a log is. The values stay in the file until they are asked
// for, so that a log may be larger than memory.
//
// A record of a whole sequence, shape [T, H] with token_idx its first token, counts as T records.
// It is one if `dims` begins with t, or if one of the tensors that have one dimension for a token
// (embedding, norms, outputs of layers, logits) has that leading dimension at the same token:
// [heads, head_dim] is one token's.
//
// Records of several ranks are one record: see rank_parts.h. One that lacks a part is listed in
// missing_records() and incomplete(), and is not among entries().
class LogIndex {
 public:
  // Reads the log of a run of one sequence once: a file, or a folder of files. A record that is
  // there twice with equal content is taken once. Throws Error if the log cannot be read, holds no
  // record, several sequences, or a record twice with different content; if a name is longer than
  // NamePattern::kMaxName, or the names ask too much of the map; if a rank is missing. `map`, if it
  // has rules, names the checkpoints: records that it does not know, and whose names are not
  // Assay's own, are left out with a warning.
  explicit LogIndex(const std::string& path, const NameMap& map = {});

  // The same of each sequence, in the order in which the log first names them. Padding is still
  // there: see leave_out_padding().
  static std::vector<std::shared_ptr<LogIndex>> read_run(const std::string& path,
                                                         const NameMap& map = {});

  // A sequence without records, of the run that `other` is of.
  static std::shared_ptr<LogIndex> without_records(const LogIndex& other);

  // The file, or the folder.
  const std::string& path() const { return run_->path; }
  int64_t bytes() const { return bytes_; }
  // Its tokens are those of this sequence.
  const std::optional<LogHeader>& header() const { return header_; }
  const std::vector<IndexEntry>& entries() const { return entries_; }
  // Records of which a rank did not log its part; load() gives the first part of such a one.
  const std::vector<IndexEntry>& incomplete() const { return incomplete_; }
  // Of entries() and, from their end on, incomplete().
  const IndexEntry& entry(int64_t place) const {
    const auto at = static_cast<size_t>(place);
    return at < entries_.size() ? entries_[at] : incomplete_[at - entries_.size()];
  }
  // FILE:LINE, of a folder's log the file in it.
  std::string where(const IndexEntry& entry) const;
  const NameTable& names() const { return names_; }
  // The names of all sequences as the log has them, where a map gives others.
  const NameTable& raw_names() const { return run_->raw_names; }
  const NameTable& teams() const { return teams_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  const std::string& sequence() const { return sequence_; }
  // Sequences of the run that its header lists, and of which it has no record.
  const std::vector<std::string>& unlogged_sequences() const { return run_->unlogged; }
  // How many ranks each axis has.
  const Rank& sizes() const { return run_->sizes; }

  // A checkpoint that should be there: a rule should take it from the records of a name, of which
  // there are too few, or a rank did not log its part.
  struct MissingRecord {
    std::string checkpoint;
    int64_t token_idx = 0;
  };
  const std::vector<MissingRecord>& missing_records() const { return missing_records_; }

  // Records that no rule of the map takes, which are only checked for NaN; `checkpoint` is in
  // unmapped_names().
  const std::vector<IndexEntry>& unmapped() const { return unmapped_; }
  const NameTable& unmapped_names() const { return unmapped_names_; }

  // Takes records whose rows are as wide as the other log's records of the checkpoint for those of
  // whole sequences, too.
  void expand_like(const LogIndex& other);

  // Leaves out the records and tokens that the header's mask says are padding, and counts positions
  // without it. Once, after expand_like().
  void leave_out_padding();
  // The mask that the header should have had; records that it leaves out become missing ones if it
  // `is_guess`.
  void set_mask(std::vector<int64_t> mask, bool is_guess) {
    header_->mask = std::move(mask);
    mask_is_guess_ = is_guess;
  }

  // The place in entries() of a record, -1 if there is none.
  int64_t find(int32_t checkpoint, int64_t token_idx) const;

  // It shares the run's list of files, which may be long.
  IndexLoader loader() const {
    return IndexLoader(std::shared_ptr<const RecordLoader::Files>(run_, &run_->files));
  }
  // The record of `entry` as the checkpoint that it is, valid until the loader's next call. Throws
  // Error.
  Record& load(const IndexEntry& entry, IndexLoader& loader) const;

 private:
  friend class RunIndexer;

  struct KeyHash {
    size_t operator()(const std::pair<int32_t, int64_t>& key) const {
      return std::hash<int64_t>()(key.second) * 0x9E3779B97F4A7C15U +
             static_cast<size_t>(key.first);
    }
  };

  LogIndex() = default;
  void add(const IndexEntry& entry);
  void add_to_group(IndexEntry& first, const IndexEntry& entry);
  void index_entries(std::vector<IndexEntry> entries);
  void index_keys();
  void finish();
  void find_rows();
  void expand(const std::map<int64_t, int32_t>& rows_at);
  void check_duplicate(int64_t first, const IndexEntry& second);
  bool check_group(IndexEntry& entry);
  bool has_known_experts(const IndexEntry& entry);
  void check_groups();
  void find_lacking_replicas();
  void check_overlap(const IndexEntry& a, const IndexEntry& b) const;
  RankPart part_of(const IndexEntry& entry, IndexLoader& loader) const;
  Record& load_group(const IndexEntry& entry, IndexLoader& loader) const;

  std::shared_ptr<RunSource> run_;
  int64_t bytes_ = 0;
  std::optional<LogHeader> header_;
  std::vector<IndexEntry> entries_;
  std::vector<IndexEntry> incomplete_;
  std::vector<std::vector<IndexEntry>> groups_;  // records of ranks that are one
  std::unordered_map<std::pair<int32_t, int64_t>, int64_t, KeyHash> by_key_;
  std::unordered_map<int64_t, std::string> digests_;  // of entries_ that are there again
  NameTable names_;                                   // of entries_
  NameTable teams_;
  std::vector<MissingRecord> missing_records_;
  std::vector<IndexEntry> unmapped_;
  NameTable unmapped_names_;
  bool mask_is_guess_ = false;
  size_t missing_of_map_ = 0;  // of these, the first; the others lack a rank's part
  std::string sequence_;
  std::vector<std::string> warnings_;
  std::vector<std::string> replica_warnings_;  // of these, those of find_lacking_replicas()
};

}  // namespace assay
