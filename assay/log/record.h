#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/log/rank.h"

namespace assay {

inline constexpr int kSketchSize = 64;
inline constexpr int kSummaryTop = 5;

// 64 random projections that represent a whole tensor; see sketch.h.
using Sketch = std::array<double, kSketchSize>;

struct TopValue {
  int64_t index = 0;
  float value = 0;
};

// What a record states about a whole tensor of which only the head is logged; a missing number is
// NaN. Elements that are not finite are counted in `nonfinite` and ignored otherwise.
struct Summary {
  double min = 0;  // NaN, as max and mean are, when no element is finite
  double max = 0;
  double mean = 0;
  double l2 = 0;              // sqrt(sum of squares)
  int64_t argmax = -1;        // of equal values the lowest index; -1 when no element is finite
  std::vector<TopValue> top;  // the largest values, at most kSummaryTop, largest first
  int64_t nonfinite = 0;
  bool counts_nonfinite = true;  // false: the log does not say how many are not finite
  // How many of `nonfinite` are NaN; the others are infinities. Written only if nonfinite is above
  // 0; logs of other engines may lack it.
  std::optional<int64_t> nan;
};

// The elements that a shape has; -1 if a dimension is negative or their count overflows.
constexpr int64_t element_count(std::span<const int64_t> shape) {
  int64_t product = 1;
  for (const int64_t dim : shape) {
    if (dim < 0 || __builtin_mul_overflow(product, dim, &product)) return -1;
  }
  return product;
}

enum class Phase : uint8_t { kPrefill, kDecode };

constexpr std::string_view phase_name(Phase phase) {
  return phase == Phase::kPrefill ? "prefill" : "decode";
}

// One line of a log: a named tensor at one token position.
struct Record {
  std::string checkpoint;
  int64_t token_idx = 0;        // 0-based absolute position of the token
  std::string sequence = "0";   // which of the sequences in the log; a number is kept as its text
  std::optional<int64_t> step;  // 0-based number of the forward pass
  std::optional<Phase> phase;
  std::optional<Rank> rank;
  std::string dtype;
  std::vector<int64_t> shape;
  std::optional<std::string> dims;  // the axes of `shape`, as in "t h[tp]"
  std::vector<float> values;        // the whole tensor or its head
  int64_t n = 0;                    // elements of the whole tensor, >= values.size()
  // Log-probabilities of token ids, each id once and below n, largest first. NaN may be anywhere.
  std::vector<TopValue> top;
  std::optional<Summary> summary;
  std::optional<Sketch> sketch;
  std::optional<std::string> ts;
  std::optional<std::string> team;
  std::optional<std::string> source;
  std::optional<std::string> file;
  std::optional<int64_t> line;

  bool has_all_values() const { return static_cast<int64_t>(values.size()) == n; }
};

// Whether the shape is that of the whole tensor or of the values, if there are any.
inline bool has_shape_of_values(const Record& record) {
  const int64_t count = element_count(record.shape);
  return record.values.empty() || record.n <= count ||
         count == static_cast<int64_t>(record.values.size());
}

// The optional first line of a log: a description of the run.
struct LogHeader {
  struct Model {
    std::string name;
    std::string sha256;
    std::string arch;
    std::string type;
  };
  Model model;
  std::vector<int64_t> tokens;  // ids of the prompt's tokens
  std::optional<std::string> prompt;
  std::string engine;
  std::string backend;
  std::string math;
  // Whose choice of experts it is, where it is not the engine's own: kRoutingReplayed.
  std::string routing = {};
  // How the tokens after the prompt were chosen, where they are not the likeliest.
  std::string sampling = {};
  // Which checkpoints were to be logged, as --checkpoints; empty where it is not known.
  std::string checkpoints = {};
  // Of each of `tokens`, 0 where it is padding; empty where none is. token_idx counts these, too.
  std::vector<int64_t> mask = {};
  // One of several sequences of a log, with its tokens and mask.
  struct Sequence {
    std::string name;
    std::vector<int64_t> tokens;
    std::vector<int64_t> mask = {};
  };
  std::vector<Sequence> sequences = {};  // empty where the header does not name any
  std::optional<Rank> ranks = {};        // how many each kind has, 0 where it does not say
};

inline constexpr std::string_view kRoutingReplayed = "replayed";

}  // namespace assay
