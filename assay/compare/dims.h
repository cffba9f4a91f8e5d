#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "assay/log/rank.h"

namespace assay {

// "tp 2, ep 1": the axes of which there are several ranks, by `sizes`.
std::string rank_text(const Rank& rank, const Rank& sizes);

// The axes of a record's shape, as `dims` names them.
struct Dims {
  struct Axis {
    std::string name;
    std::vector<RankAxis> cut;  // the ranks that each hold a piece of it, the outermost first
  };
  std::vector<Axis> axes;
  std::vector<RankAxis> partial;  // the ranks that each hold an addend of the tensor

  // All axes of ranks that it names.
  std::vector<RankAxis> dividing() const;

  // Whether its rows are tokens.
  bool is_sequence() const { return !axes.empty() && axes.front().name == "t"; }
  // Whether each rank holds the whole tensor.
  bool is_whole() const;
};

// Reads "t h[tp]", "+[tp] t h", "e[ep,tp] h". Throws Error, without a place, if it is not one of
// these or does not name the axes of `shape`; leading ones of a single element need no name.
Dims parse_dims(std::string_view text, const std::vector<int64_t>& shape);

}  // namespace assay
