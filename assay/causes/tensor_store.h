#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "assay/compare/comparison.h"
#include "assay/compare/log_index.h"
#include "assay/mistakes/network.h"

namespace assay::causes {

using mistakes::Inputs;
using mistakes::Matrix;
using mistakes::Network;
using mistakes::Op;

// The records of a comparison's two logs, by the reference's names and positions. What has been
// read is kept, up to a bound. computed() and reference() may be called by several threads.
class TensorStore {
 public:
  // `comparison` must outlive it.
  explicit TensorStore(const Comparison& comparison);

  // A record of the reference or of the log that is judged; null if there is none. Valid until the
  // next call.
  const Record* ref(const std::string& checkpoint, int64_t token_idx);
  const Record* got(const std::string& checkpoint, int64_t token_idx);

  // How the comparison judged this record; null if it is not in both logs.
  const RecordResult* result(const std::string& checkpoint, int64_t token_idx) const;

  // Its place in Comparison::checkpoints; -1 if it is not there. Log-probabilities count as logits.
  int32_t checkpoint_id(const std::string& checkpoint) const;

  // The last position of the reference's that both logs have of it; -1 if there is none.
  int64_t last_position(const std::string& checkpoint) const;

  // The checkpoint's values at these positions, as the judged log has them or, for a position where
  // that holds a part only, the reference, if the two agree there. Null unless every value of every
  // position is known and finite, or if they are too many.
  std::shared_ptr<const Matrix> computed(const std::string& checkpoint,
                                         const std::vector<int64_t>& positions);
  // The same of the reference alone.
  std::shared_ptr<const Matrix> reference(const std::string& checkpoint,
                                          const std::vector<int64_t>& positions);

  // Whether `computed` has records that the reference does not have: whether what the judged log
  // holds there is right cannot be known.
  void use_unjudged(bool use);

  // Whether `computed` is of the reference, as reference() is: to hold it to the model.
  void use_reference(bool use) { use_reference_ = use; }

  // Ids of the prompt's tokens; empty where no log names them.
  const std::vector<int64_t>& tokens() const;
  // These and what both logs choose after them by their logits, up to the first token that they do
  // not show. `choosable`: a flag for each id.
  void find_chosen_tokens(const std::vector<bool>& choosable);
  const std::vector<int64_t>& known_tokens() const { return known_tokens_; }
  const Comparison& comparison() const { return comparison_; }

 private:
  const Record* load(const LogIndex& log, IndexLoader& loader, const std::string& checkpoint,
                     int64_t token_idx);
  std::shared_ptr<const Matrix> matrix(const std::string& checkpoint,
                                       const std::vector<int64_t>& positions, bool of_ref);
  bool fill(const std::string& checkpoint, int64_t token_idx, bool of_ref, int64_t row,
            Matrix& matrix);

  const Comparison& comparison_;
  IndexLoader ref_loader_;
  IndexLoader got_loader_;
  std::map<std::pair<int32_t, int64_t>, const RecordResult*> results_;
  std::map<std::string, int32_t> names_;
  std::map<std::pair<std::string, std::vector<int64_t>>, std::shared_ptr<const Matrix>> kept_;
  int64_t kept_values_ = 0;
  std::mutex reading_;
  bool use_unjudged_ = true;
  bool use_reference_ = false;
  std::vector<int64_t> known_tokens_;
};

}  // namespace assay::causes
