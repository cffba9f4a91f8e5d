#pragma once

#include <cstdint>

#include "assay/compare/alignment.h"
#include "assay/compare/measure.h"
#include "assay/compare/pairing.h"
#include "base/thread_pool.h"

namespace assay {

// The records of two logs under one alignment.
struct Attempt {
  Pairing pairing;
  Measured measured;  // of each of pairing.pairs
};

// Tries one alignment after the other: that of the headers, and where they do not settle it, that
// of the data. `request` and `pool` must outlive it.
class Aligner {
 public:
  Aligner(const MeasureRequest& request, ThreadPool& pool) : request_(request), pool_(pool) {}

  // Replaces `alignment` by another one if that explains the data better. Throws Error if a record
  // cannot be read.
  Attempt compare_under(Alignment& alignment);

  // Whether only the data tell that the positions are numbered otherwise.
  bool shifted_by_data() const { return shifted_by_data_; }

  // An offset that would explain the data, which the tokens in both headers exclude; 0 if there is
  // none.
  int64_t excluded_offset() const { return excluded_offset_; }

 private:
  Attempt try_alignment(const Alignment& alignment);

  const MeasureRequest& request_;
  ThreadPool& pool_;
  bool shifted_by_data_ = false;
  int64_t excluded_offset_ = 0;
};

}  // namespace assay
