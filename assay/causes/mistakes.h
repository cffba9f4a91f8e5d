#pragma once

#include <functional>
#include <string>
#include <vector>

#include "assay/causes/chain.h"

namespace assay::causes {

// A mistake of the catalogue in one op of a network: what the op gives under it.
struct BoundMistake {
  std::string name;  // as it stands in "causes" of the JSON
  // What the engine does, as "rotates ..."; takes the parameter where there is one.
  std::function<std::string(double parameter)> text;
  // The same of it in all that a layer adds to the residual stream; may be empty.
  std::function<std::string(double parameter)> text_of_layer;
  // Of the right result, where it is a change of that.
  std::function<Matrix(const Matrix& right, double parameter)> change;
  std::function<Matrix(Op op, const Inputs& inputs, double parameter)> compute;
  std::function<bool(Op op)> possible;
  std::vector<double> grid;          // of the parameter, ascending; empty without one
  bool refine = false;               // values between those of the grid are possible
  bool generic = false;              // one that any op can have: tried after those of the op itself
  bool together = false;             // made in all ops of a family or in none
  bool of_all_layers = false;        // and so never in a single one
  bool reads_all_positions = false;  // from 0 on; without them it cannot be made
  bool reads_ahead = false;          // what an attention gives may be of later positions
};

// Those of an op, as far as `network` knows enough to try them.
std::vector<BoundMistake> mistakes_of(const Network& network, Op op);

// Kinds of ops that engines mostly compute with one function, `kind` among them: a mistake in it is
// one of all of a set. The order in a set is unspecified; it may hold kinds that the mistake is
// not possible in.
std::vector<std::vector<Checkpoint>> families_of(Checkpoint kind, const BoundMistake& mistake);

}  // namespace assay::causes
