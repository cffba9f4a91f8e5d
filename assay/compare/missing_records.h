#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "assay/compare/checkpoint_order.h"
#include "assay/log/record.h"

namespace assay {

// A record that a log lacks, by what else is in it.
struct MissingRecord {
  std::string name;        // of its checkpoint
  int32_t checkpoint = 0;  // its id; if the log has none of that name, that of the layer before
  int64_t token_idx = 0;
};

// Looks for gaps in one log, which knows no other. A record is missing
// - of a token of which other layers have the same op: whoever logs an op of some layers logs it of
//   all tokens there. But not of the last layer, of which engines may compute no more than what
//   logits are wanted of; nor of records with a rank, which may have their part of the tokens;
// - of a token between others that the checkpoint has, where few of them are missing;
// - of a layer between others whose output is logged, where few are missing, and the header does
//   not say that this one was left out on purpose.
// Few are at most one in kFewOf of what there would be. Tokens that are padding are never missing.
class MissingRecords {
 public:
  static constexpr uint64_t kFewOf = 4;

  void add(int32_t checkpoint, const CheckpointName& name, const Record& record);

  std::vector<MissingRecord> found(const std::optional<LogHeader>& header) const;

 private:
  struct Layer {
    int32_t checkpoint = 0;
    std::set<int64_t> tokens;
  };
  using Layers = std::map<int, Layer>;        // of one op; -1 is outside of the layers
  using Ops = std::map<std::string, Layers>;  // by name

  // `last`: the network's last layer.
  void find_tokens(const std::string& op, const Layers& layers, int last,
                   const std::set<int64_t>* of_logits, std::vector<MissingRecord>& found) const;
  static void find_layers(const Layers& outputs, const std::optional<LogHeader>& header,
                          std::vector<MissingRecord>& found);

  std::map<std::string, Ops> sequences_;
  bool has_ranks_ = false;
};

}  // namespace assay
