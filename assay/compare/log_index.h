#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "assay/compare/name_map.h"
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
  int64_t n = 0;             // elements of the record
  int32_t rows = 1;          // its leading dimension, if it has several
  bool is_sequence = false;  // `dims` says that these are tokens
};

// Where each record of a log is. The values stay in the file until they are asked for, so that a
// log may be larger than memory.
//
// A record of a whole sequence, shape [T, H] with token_idx its first token, counts as T records.
// It is one if `dims` begins with t, or if one of the tensors that have one dimension for a token
// (embedding, norms, outputs of layers, logits) has that leading dimension at the same token:
// [heads, head_dim] is one token's.
class LogIndex {
 public:
  // Reads the log once. A record that is there twice with equal content is taken once. Throws Error
  // if the log cannot be read, holds no record, or holds one twice with different content; if a
  // name is longer than NamePattern::kMaxName, or the names ask too much of the map. `map`, if it
  // has rules, names the checkpoints: records that it does not know, and whose names are not
  // Assay's own, are left out with a warning.
  explicit LogIndex(const std::string& path, const NameMap& map = {});

  const std::string& path() const { return file_->path(); }
  int64_t bytes() const { return file_->size(); }
  const std::optional<LogHeader>& header() const { return header_; }
  const std::vector<IndexEntry>& entries() const { return entries_; }
  const NameTable& names() const { return names_; }
  const NameTable& teams() const { return teams_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  // The sequence that all records are of.
  const std::string& sequence() const { return *sequence_; }

  // A checkpoint that a rule should take from the records of a name, of which there are too few.
  struct MissingRecord {
    std::string checkpoint;
    int64_t token_idx = 0;
  };
  const std::vector<MissingRecord>& missing_records() const { return missing_records_; }

  // Takes records whose rows are as wide as the other log's records of the checkpoint for those of
  // whole sequences, too.
  void expand_like(const LogIndex& other);

  // The place in entries() of a record, -1 if there is none.
  int64_t find(int32_t checkpoint, int64_t token_idx) const;

  // For reading records by their place; one for each thread.
  RecordLoader loader() const { return RecordLoader(file_); }
  // The record of `entry` as the checkpoint that it is, valid until the loader's next call. Throws
  // Error.
  Record& load(const IndexEntry& entry, RecordLoader& loader) const;

 private:
  struct KeyHash {
    size_t operator()(const std::pair<int32_t, int64_t>& key) const {
      return std::hash<int64_t>()(key.second) * 0x9E3779B97F4A7C15U +
             static_cast<size_t>(key.first);
    }
  };

  // One of several records of a name at a token, of which a rule takes one.
  struct Choice {
    int64_t take = 0;
    std::vector<IndexEntry> entries;
  };
  // What a map makes of one name of the log.
  struct Mapping {
    int32_t target = 0;  // in targets_
    int32_t transform = -1;
    std::optional<int64_t> take;
  };

  void add(const IndexEntry& entry);
  // As what of targets_ it is.
  void add_target(IndexEntry entry, int32_t target);
  void add_mapped(const IndexEntry& entry, const std::vector<Mapping>& mappings);
  std::vector<Mapping> mappings_of(const std::string& name, const NameMap& map, MatchBudget& budget,
                                   std::vector<std::string>& unknown);
  void add_choices();
  void check_coordinates(const Record& record, int64_t line);
  void find_sequences();
  void expand(const std::map<int64_t, int32_t>& rows_at);
  void check_duplicate(int64_t first, const IndexEntry& second);

  std::shared_ptr<const InputFile> file_;
  std::optional<LogHeader> header_;
  std::vector<IndexEntry> entries_;
  std::unordered_map<std::pair<int32_t, int64_t>, int64_t, KeyHash> by_key_;
  std::unordered_map<int64_t, std::string> digests_;  // of entries_ that are there again
  NameTable names_;                                   // of entries_
  NameTable teams_;
  NameTable targets_;  // what the map makes of names, whether a record is taken or not
  std::vector<RecordTransform> transforms_;
  bool mapped_ = false;
  std::vector<MissingRecord> missing_records_;
  // By target, token and what to take; in the order of the log.
  std::map<std::tuple<int32_t, int64_t, int64_t>, Choice> choices_;
  std::optional<std::string> sequence_;  // that all records are of
  std::vector<std::string> warnings_;
};

}  // namespace assay
