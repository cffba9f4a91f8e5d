// Where a search for the cause of a divergence looks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "assay/causes/tensor_store.h"
#include "assay/mistakes/network.h"

namespace assay::causes {

// The op that computes the checkpoint of this name, if Assay knows it.
std::optional<Op> find_op(const std::string& checkpoint);

// The positions of a checkpoint to look at: failing ones from `first_token` on (or, where none
// fails, those with the largest errors), and some that pass, which a mistake must not change. Of
// the prompt, where the logs name its tokens and it has any.
std::vector<int64_t> positions_to_try(const TensorStore& store, const std::string& checkpoint,
                                      int64_t first_token);

// Where all positions of a checkpoint fail from one on, two at least, and all before it pass. Of
// the tail some may pass if their errors are far above all before it.
struct Tail {
  int64_t from = 0;
  int64_t first_right = 0;
  int64_t last_right = 0;
};
std::optional<Tail> failing_tail(const TensorStore& store, const std::string& checkpoint);

// Of what both logs have, and the op is computed from with nothing logged between, that which is
// furthest off; nothing if none is off by enough to be why the op is.
std::optional<Op> worst_input(const Network& network, const TensorStore& store, Op op);

// Of gate and up each may have what is the other's, or one of them alone. Whether the record of the
// one that is not at `op` refutes the cause of this name: that fails where both are wrong.
bool is_refuted_by_other(const std::string& cause, const TensorStore& store, Op op,
                         const std::vector<int64_t>& positions);

// The other one of gate and up; nothing for other ops.
std::optional<Op> other_of_gate_and_up(Op op);

}  // namespace assay::causes
