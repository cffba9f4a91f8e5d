#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "assay/causes/tensor_store.h"
#include "assay/mistakes/network.h"

namespace assay::causes {

// How one checkpoint comes about from what is logged: the ops between, in their order. With
// op-level logs that is one op; where inner checkpoints are missing it may be a layer or more.
class Chain {
 public:
  // The op's output under a mistake, in place of Network::compute(), in run i of several.
  using Compute = std::function<Matrix(Op op, const Inputs& inputs, size_t i)>;

  // `network` and `store` must outlive it. `wanted` are the positions whose result matters;
  // attention makes it compute all positions before them too, and, unless it is `short_of_masks`,
  // some after them.
  Chain(const Network& network, TensorStore& store, Op target, std::vector<int64_t> wanted,
        bool short_of_masks = false);

  // Whether the checkpoint can be computed from what is logged; if not, what is missing.
  bool complete() const { return missing_.empty(); }
  const std::string& missing() const { return missing_; }
  // Whether it is the weights of the checkpoint itself, which a model file has.
  bool lacks_weights() const { return lacks_weights_; }
  // What of its inputs neither is logged nor follows from what is, even with a model; empty where
  // a model is all that is missing.
  std::string missing_input() const;
  // What says that logged sizes do not fit each other, where that is why.
  const std::string& size_mismatch() const { return size_mismatch_; }

  const std::vector<Op>& ops() const { return ops_; }  // the target last
  // Of the rows of base() and run().
  const std::vector<int64_t>& positions() const { return positions_of(target_); }
  double base_multiplications() const;  // of base(), about
  double bytes() const;                 // that a run may hold

  // The checkpoint as it should be, from the logged inputs.
  const Matrix& base() const;
  // Whether it has ops of several layers.
  bool spans_layers() const;
  // Whether the op may be at fault: not if its own checkpoint is in both logs and passes.
  bool is_suspect(Op op) const { return !right_.contains(op); }
  // A failing record, of another checkpoint than the target, that the result at `position` would
  // be computed from and is not, as the judged log lacks values of it: its error is in no base().
  // Null without one.
  const RecordResult* failure_passed_over(int64_t position) const;
  // The checkpoint in each of n_runs, with `compute` for the ops of `wrong`, at the positions from
  // `from` on; adds to `work` how many multiplications it takes, about. Weights are read once for
  // all runs. Several threads may call it once base() has been.
  std::vector<Matrix> run(const std::set<Op>& wrong, const Compute& compute, size_t n_runs,
                          int64_t from, double& work) const;
  // The inputs of an op of the chain.
  Inputs inputs(Op op) const;

 private:
  void find_ops(std::vector<int64_t> wanted, bool short_of_masks);
  bool resolve(Op op, bool is_target);
  std::shared_ptr<const Matrix> logged(Op op, const std::vector<int64_t>& positions) const;
  bool find_columns(Op op);
  void check_target(const std::vector<int64_t>& wanted);
  bool passes(Op op, const std::vector<int64_t>& wanted) const;
  void restart(std::vector<int64_t> positions);
  const std::vector<int64_t>& positions_of(Op op) const;
  std::shared_ptr<const Matrix> rows_for(Op op, std::shared_ptr<const Matrix> values,
                                         size_t n_runs = 1) const;
  using Values = std::function<std::shared_ptr<const Matrix>(Op op)>;  // null: not known
  Inputs inputs(Op op, const Values& values) const;
  Inputs inputs_of_base(Op op) const;
  double multiplications_of(Op op) const;
  // Of a run: what is not as it should be, of all runs one below the other, and from which position
  // on.
  struct Late {
    std::shared_ptr<const Matrix> values;
    int64_t from = 0;
  };
  using Changed = std::map<Op, Late>;
  Inputs inputs_of_run(Op op, const Changed& changed, size_t i, size_t n_runs) const;
  std::optional<int64_t> first_changed(Op op, const Matrix& values, size_t n_runs) const;
  std::shared_ptr<const Matrix> computed_from(int64_t position, Op op, const Changed& changed,
                                              size_t n_runs, double& work) const;
  void restore_rows_before(int64_t from, Op op, Matrix& values) const;

  const Network& network_;
  TensorStore& store_;
  Op target_;
  std::vector<int64_t> positions_;
  std::vector<bool> wanted_;  // of these, whether the result matters
  std::vector<int64_t> wanted_positions_;
  std::vector<int32_t> tokens_;
  std::vector<Op> ops_;
  std::optional<Op> last_attention_;
  std::set<Op> after_attention_;  // the last one: only wanted rows are computed
  std::string missing_;
  bool lacks_weights_ = false;
  std::string size_mismatch_;
  bool has_attention_ = false;
  std::set<Op> right_;
  std::map<Op, std::shared_ptr<const Matrix>> logged_;
  std::map<Op, int64_t> columns_;                             // of these and of what ops_ give
  mutable std::map<Op, std::shared_ptr<const Matrix>> base_;  // with the logged ones
};

}  // namespace assay::causes
