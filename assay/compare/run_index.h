#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "assay/compare/log_index.h"
#include "assay/log/run_files.h"

namespace assay {

// Reads the files of a run's log, and makes an index of each sequence in them.
class RunIndexer {
 public:
  RunIndexer(const std::string& path, const NameMap& map);

  // See LogIndex::read_run().
  std::vector<std::shared_ptr<LogIndex>> read();

 private:
  // One of several records of a name at a token, of which a rule takes one.
  struct Choice {
    int64_t take = 0;
    bool optional = false;
    std::vector<IndexEntry> entries;
  };
  // What a map makes of one name of the log.
  struct Mapping {
    int32_t target = 0;  // in targets_
    int32_t transform = -1;
    std::optional<int64_t> take;
    bool optional = false;
  };

  void read_file(size_t file);
  void add(const Record& record, const RecordPlace& place);
  void add_mapped(size_t sequence, const IndexEntry& entry, const std::vector<Mapping>& mappings);
  void add_unmapped(LogIndex& index, IndexEntry entry);
  void add_choices();
  static void drop_mapped_elsewhere(LogIndex& index);
  void note_passed_over(const LogIndex& index);
  size_t sequence_of(const Record& record, int32_t file);
  int32_t part_of(const Record& record, const RecordPlace& place, IndexEntry& entry);
  void count_rank(size_t sequence, const Rank& rank);
  void check_ranks_of_sequences() const;
  std::string place_text(const RecordPlace& place) const;
  std::vector<Mapping> mappings_of(const std::string& name);
  void count_ranks();
  void note_ranks_of_checkpoints();
  void set_headers();
  [[noreturn]] void fail_for_unlisted(const LogIndex& index) const;

  const NameMap& map_;
  std::vector<std::string> files_;
  std::optional<RunHeader> header_;
  std::shared_ptr<RunSource> run_;
  std::vector<std::shared_ptr<LogIndex>> sequences_;
  std::map<std::string, size_t, std::less<>> by_name_;
  size_t last_ = 0;
  // Ranks along each axis.
  using SeenRanks = std::array<std::set<int64_t>, std::size(kRankAxes)>;
  SeenRanks seen_;
  std::vector<SeenRanks> seen_of_sequence_;  // of each of sequences_
  bool divides_[std::size(kRankAxes)] = {};  // whether dims name that axis
  std::map<std::tuple<int64_t, int64_t, int64_t, int64_t, std::string, size_t>, int32_t> parts_;
  NameTable raw_names_;
  NameTable targets_;  // what the map makes of names, whether a record is taken or not
  std::vector<std::vector<Mapping>> mappings_;  // of each of raw_names_
  std::vector<std::string> unknown_;
  std::vector<std::string> left_out_;       // Assay's own names, by a rule
  std::vector<std::string> passed_over_;    // Assay's own names, by a 'take'
  std::vector<std::string> taken_in_part_;  // names of tensors of which no rule takes the rest
  std::vector<std::pair<size_t, IndexEntry>> in_part_;  // their records, by place in sequences_
  std::vector<std::string> warnings_;
  MatchBudget budget_;
  // By sequence, target, token, what to take, and part; in the order of the log.
  std::map<std::tuple<size_t, int32_t, int64_t, int64_t, int32_t>, Choice> choices_;
};

}  // namespace assay
