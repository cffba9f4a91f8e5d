#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "assay/log/record.h"
#include "tests/compare/proof/model_run.h"

namespace assay::proof {

// Keys of a summary, as bits.
enum SummaryKey : unsigned {
  kMin = 1,
  kMax = 2,
  kMean = 4,
  kL2 = 8,
  kArgmax = 16,
  kTop = 32,
  kNonfinite = 64,
  kWholeSummary = 127,
};

enum class Print { kShortest, kNineDigits, kSixDecimals };

// What the lines of a log say of each tensor.
struct RecordForm {
  static constexpr int64_t kAll = -1;
  int64_t head = kAll;
  unsigned summary = 0;  // SummaryKey; 0: none
  bool sketch = false;
  bool n_given = true;
};

// What a log has of a run, and how it says it.
struct LogForm {
  enum class Header { kNone, kBare, kTokens, kPrompt };
  enum class Order { kNetwork, kCheckpoint, kBatch, kShuffled };
  RecordForm logits;
  RecordForm others;
  std::vector<std::string> checkpoints;
  int64_t from = 0;    // the first token logged
  int64_t to = 0;      // one past the last
  int64_t offset = 0;  // what is added to its number
  Header header = Header::kNone;
  std::optional<int64_t> n_prompt;  // where the header ends the prompt elsewhere
  Order order = Order::kNetwork;
  uint64_t shuffle = 0;
  Print print = Print::kShortest;
  bool shape_as_text = false;
  bool bare_nonfinite = false;
  bool with_origin = false;     // ts, team, source
  bool nested = false;          // values in an array of arrays
  bool whole_sequence = false;  // each checkpoint in one record [T, H]
  int logprobs_top = 0;         // instead of logits

  const RecordForm& of(const std::string& checkpoint) const {
    return checkpoint == "logits" ? logits : others;
  }
  bool logs(const Tensor& tensor) const;
  bool names_tokens() const { return header == Header::kTokens || header == Header::kPrompt; }
};

// One line before it is text.
struct Line {
  std::string checkpoint;
  int64_t token_idx = 0;
  std::vector<int64_t> shape;
  std::optional<int64_t> n;
  std::vector<float> values;
  unsigned summary_keys = 0;
  Summary summary;
  std::optional<Sketch> sketch;
  std::vector<TopValue> top;  // of logprobs
};

struct Log {
  bool has_header = false;
  std::string model_sha;
  std::vector<int64_t> tokens;
  bool names_tokens = false;
  std::optional<std::string> prompt;
  std::vector<Line> lines;
  bool final_newline = true;
  bool torn = false;  // in the middle of its last line
};

Log make_log(const Run& run, const LogForm& form, const Network& network);

Line make_line(const Tensor& tensor, const LogForm& form);

std::string text_of(const Log& log, const LogForm& form);

}  // namespace assay::proof
