#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "assay/dump/dump.h"

namespace assay {

// What the tensors of one forward pass are about: batch x tokens rows, each a token of a sequence.
struct TokenRow {
  int64_t token_idx = 0;
  std::string sequence;
  bool is_padding = false;
};
struct PassRows {
  int64_t batch = 1;
  int64_t tokens = 1;
  std::vector<TokenRow> rows;  // sequence after sequence
  std::vector<int64_t> last;   // of each sequence, its last row
  std::vector<int64_t> ids;    // of each row, where the dump has them
  bool has_places = false;     // whether the dump says where the rows are
  std::string counted;         // "by 'input_ids'": what says how many there are
};

// The tensors that say what the rows are, by the last part of their names: input_ids or token_ids,
// positions or position_ids, attention_mask, seq_lens and req_pool_indices (SGLang's).
bool describes_rows(const DumpTensor& tensor);

// The rows of one pass of one rank. `next` is how many tokens each sequence has had before, and is
// counted on. Throws Error if what the tensors say of the rows does not fit together.
PassRows rows_of(const std::vector<const DumpTensor*>& pass, std::map<std::string, int64_t>& next);

// Where a tensor has its rows.
struct RowAxes {
  enum class Form { kRows, kHeadsFirst, kLast };
  Form form = Form::kRows;
  size_t leading = 1;          // axes that the rows take; of kHeadsFirst, the axis before the heads
  std::vector<int64_t> shape;  // of one row
};

// Nothing if no axis, or more than one, has as many elements as there are rows.
std::optional<RowAxes> axes_of(const DumpTensor& tensor, const PassRows& pass);

}  // namespace assay
