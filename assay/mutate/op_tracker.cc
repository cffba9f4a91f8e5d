#include "assay/mutate/op_tracker.h"

#include <stdexcept>

namespace assay {

OpTracker::OpTracker(const ModelConfig& config)
    : n_layers_(static_cast<int>(config.n_layers)),
      learned_positions_(config.architecture->position == PositionKind::kLearned),
      gated_(config.architecture->ffn == FfnKind::kSiluGated),
      last_{.op = Op::kMatmul, .checkpoint = Checkpoint::kLogits} {}

OpPlace OpTracker::advance(Op op) {
  switch (op) {
    case Op::kGetRows:
    case Op::kGetPositions: {
      const bool positions = expects_positions();
      last_ = {.op = positions ? Op::kGetPositions : Op::kGetRows, .finishes = !learned_positions_};
      return last_;
    }
    case Op::kNorm:
      return norm();
    case Op::kMatmul:
      return matmul();
    case Op::kRope:
      if (last_.checkpoint == Checkpoint::kV) return at(op, Checkpoint::kQRope);
      if (last_.checkpoint == Checkpoint::kQRope) return at(op, Checkpoint::kKRope);
      refuse();
    case Op::kStoreKv: {
      const bool first = last_.op != Op::kStoreKv;
      return at(op, first ? Checkpoint::kK : Checkpoint::kV);
    }
    case Op::kAttention:
      return at(op, Checkpoint::kAttn);
    case Op::kActivate:
      return at(op, Checkpoint::kFfnAct);
    case Op::kAdd:
      return add();
  }
  refuse();
}

OpPlace OpTracker::norm() {
  switch (last_.checkpoint) {
    case Checkpoint::kEmbedding:
      last_.layer = 0;
      return at(Op::kNorm, Checkpoint::kAttnNorm);
    case Checkpoint::kAttnResidual:
      return at(Op::kNorm, Checkpoint::kFfnNorm);
    case Checkpoint::kOutput:
      if (last_.layer + 1 < n_layers_) {
        ++last_.layer;
        return at(Op::kNorm, Checkpoint::kAttnNorm);
      }
      last_.layer = 0;
      return at(Op::kNorm, Checkpoint::kFinalNorm);
    default:
      refuse();
  }
}

OpPlace OpTracker::matmul() {
  switch (last_.checkpoint) {
    case Checkpoint::kAttnNorm:
      return at(Op::kMatmul, Checkpoint::kQ);
    case Checkpoint::kQ:
      return at(Op::kMatmul, Checkpoint::kK);
    case Checkpoint::kK:
      return at(Op::kMatmul, Checkpoint::kV);
    case Checkpoint::kAttn:
      return at(Op::kMatmul, Checkpoint::kAttnOut);
    case Checkpoint::kFfnNorm:
      return at(Op::kMatmul, gated_ ? Checkpoint::kFfnGate : Checkpoint::kFfnUp);
    case Checkpoint::kFfnGate:
      return at(Op::kMatmul, Checkpoint::kFfnUp);
    case Checkpoint::kFfnAct:
      return at(Op::kMatmul, Checkpoint::kFfnOut);
    case Checkpoint::kFinalNorm:
    case Checkpoint::kLogits:
      return at(Op::kMatmul, Checkpoint::kLogits);
    default:
      refuse();
  }
}

OpPlace OpTracker::add() {
  switch (last_.checkpoint) {
    case Checkpoint::kEmbedding:
      return at(Op::kAdd, Checkpoint::kEmbedding);
    case Checkpoint::kAttnOut:
      return at(Op::kAdd, Checkpoint::kAttnResidual);
    case Checkpoint::kFfnOut:
      return at(Op::kAdd, Checkpoint::kOutput);
    default:
      refuse();
  }
}

OpPlace OpTracker::at(Op op, Checkpoint checkpoint) {
  last_ = {.op = op, .checkpoint = checkpoint, .layer = last_.layer};
  return last_;
}

void OpTracker::refuse() const {
  throw std::logic_error("a kernel call that the network does not have after " +
                         checkpoint_name(last_.checkpoint, last_.layer));
}

}  // namespace assay
