// Records of several ranks as the one record that they are parts of.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/compare/dims.h"
#include "assay/log/record.h"

namespace assay {

// What one rank logged of a tensor.
struct RankPart {
  Record record;
  Rank rank;
  std::string where;                    // FILE:LINE
  std::string_view contradiction = {};  // what of the record contradicts itself; or nothing
  std::vector<int64_t> piece = {};      // along each axis of `dims`, which piece of it; from 0
  int64_t addend = 0;                   // which of the partial sums
  // The place, in the list that this is in, of the part of another rank that should hold the same;
  // -1 for the one of these that says most.
  int64_t replica_of = -1;
};

// The piece and the addend of a rank, where axes have `sizes` ranks.
void place_part(const Dims& dims, const Rank& sizes, RankPart& part);

// Where the pieces of a tensor lie in it, whatever their sizes: piece 1 of an axis begins where
// piece 0 ends.
class PartLayout {
 public:
  // `parts`: the pieces, one each, with records of as many dimensions as `dims` has axes; each
  // piece is there. Throws Error with the place of a part whose shape does not fit the others'.
  explicit PartLayout(std::span<const RankPart* const> parts);

  int64_t n() const { return n_; }
  const std::vector<int64_t>& shape() const { return shape_; }

  // The runs of neighbouring elements of one part, in the order of the whole tensor, until `visit`
  // returns false: the part, its first element in it, how many.
  using Visit = std::function<bool(size_t part, int64_t begin, int64_t count)>;
  void for_each_run(const Visit& visit) const;

  // The index in the whole tensor of an element of a part.
  int64_t whole_index(size_t part, int64_t index) const;

 private:
  struct Extent {
    int64_t begin = 0;
    int64_t size = 0;
  };
  std::vector<std::vector<Extent>> extents_;  // of each axis, of each piece
  std::vector<size_t> part_at_;               // of each place in the grid of pieces
  std::vector<std::vector<int64_t>> pieces_;  // of each part
  std::vector<int64_t> shape_;
  int64_t n_ = 1;
};

// The whole tensor: pieces side by side, partial sums added. Where parts have heads of their values
// alone, so has the whole, as far as no value is missing. A summary of pieces is that of the whole
// as far as it follows from them; the sketches of partial sums add, those of pieces are left out,
// as their elements have other signs in the whole. Replicas are ignored. Throws Error, with the
// place, if shapes do not fit.
Record put_together(const std::vector<RankPart>& parts);

// The pieces of a tensor, each with its addends as one.
std::vector<RankPart> pieces_of(const std::vector<RankPart>& parts);

}  // namespace assay
