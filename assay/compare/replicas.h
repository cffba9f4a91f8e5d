#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "assay/compare/dims.h"
#include "assay/log/log_reader.h"
#include "assay/log/record.h"

namespace assay {

// The largest difference between what two ranks hold alike, NaN where no value shows it; nothing if
// they have the same bits, as far as both log them.
std::optional<double> difference_of_replicas(const Record& a, const Record& b);

// Holds the records of one run to what other ranks logged of the same tensor, or of the same piece
// of it, in any of the run's files.
class ReplicaCheck {
 public:
  // Throws Error if a file cannot be read up to its first record.
  explicit ReplicaCheck(const std::vector<std::string>& files);

  // Where a record is: a row of a record of several tokens, or all of it (rows = 1).
  struct Place {
    RecordPlace place;  // its file: of `files`
    int32_t row = 0;
    int32_t rows = 1;
  };
  enum class Found { kNothing, kReplicaDiffers, kConflict };  // the last: of one rank, in two files
  // `record`: what the log has at `place`, with its rank and dims. Throws Error, with the place, if
  // its dims cannot be read.
  Found add(const Record& record, const Place& place);

 private:
  // Sequence, checkpoint, token, how often the rank logged a name that is not Assay's before, and
  // the ranks of the axes that divide the tensor.
  using Key = std::tuple<std::string, std::string, int64_t, int64_t, Rank>;
  struct Logged {
    Rank rank;
    std::string digest;  // empty of the first where it states no rank
    Place place;
  };
  Key key_of(const Record& record, const Place& place);
  Record load(const Place& place) const;

  std::vector<std::string> files_;
  std::vector<std::string> default_sequence_;
  std::map<std::pair<Key, Rank>, int64_t> times_;
  std::map<Key, std::vector<Logged>> logged_;  // of each content, the first
};

}  // namespace assay
