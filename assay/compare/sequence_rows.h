#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "assay/log/log_reader.h"
#include "assay/log/record.h"

namespace assay {

// The leading dimension of a shape of several that divides the elements; 1 if there is none.
// `bytes`: of the line, which no more rows than that can have values in.
int32_t leading_rows(const Record& record, int64_t bytes);

// Whether a token has one row of the checkpoint, and no heads or experts.
bool has_one_dimension(const std::string& checkpoint);

// [H, 1] is one token's column, not H tokens: no network has a width or a vocabulary of 1.
inline bool has_several_columns(int64_t n, int32_t rows) {
  return n > rows;
}

// The records of one log that are of whole sequences, by the rules of LogIndex.
class SequenceRows {
 public:
  explicit SequenceRows(std::string path) : path_(std::move(path)) {}

  // How many tokens the record is of. Reads the log once, the first time that a record alone does
  // not show it. Throws Error if the log cannot be read.
  int32_t rows_of(const Record& record, const RecordPlace& place);

 private:
  bool shows_sequence(const Record& record, const RecordPlace& place) const;
  void find();

  std::string path_;
  bool found_ = false;
  // Of a sequence of the log that begins at this token.
  std::map<std::pair<std::string, int64_t>, int32_t> rows_at_;
};

}  // namespace assay
