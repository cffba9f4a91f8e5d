#include "assay/mutate/op_tracker.h"

#include <stdexcept>

namespace assay {

OpTracker::OpTracker(const ModelConfig& config)
    : n_layers_(static_cast<int>(config.n_layers)),
      learned_positions_(config.architecture->position == PositionKind::kLearned),
      gated_(config.architecture->ffn == FfnKind::kSiluGated),
      last_{.op = KernelOp::kMatmul, .checkpoint = Checkpoint::kLogits} {}

OpPlace OpTracker::advance(KernelOp op) {
  switch (op) {
    case KernelOp::kGetRows:
    case KernelOp::kGetPositions: {
      const bool positions = expects_positions();
      last_ = {.op = positions ? KernelOp::kGetPositions : KernelOp::kGetRows,
               .finishes = !learned_positions_};
      return last_;
    }
    case KernelOp::kNorm:
      return norm();
    case KernelOp::kMatmul:
      return matmul();
    case KernelOp::kRope:
      if (last_.checkpoint == Checkpoint::kV) return at(op, Checkpoint::kQRope);
      if (last_.checkpoint == Checkpoint::kQRope) return at(op, Checkpoint::kKRope);
      refuse();
    case KernelOp::kStoreKv: {
      const bool first = last_.op != KernelOp::kStoreKv;
      return at(op, first ? Checkpoint::kK : Checkpoint::kV);
    }
    case KernelOp::kAttention:
      return at(op, Checkpoint::kAttn);
    case KernelOp::kActivate:
      return at(op, Checkpoint::kFfnAct);
    case KernelOp::kAdd:
      return add();
  }
  refuse();
}

OpPlace OpTracker::norm() {
  switch (last_.checkpoint) {
    case Checkpoint::kEmbedding:
      last_.layer = 0;
      return at(KernelOp::kNorm, Checkpoint::kAttnNorm);
    case Checkpoint::kAttnResidual:
      return at(KernelOp::kNorm, Checkpoint::kFfnNorm);
    case Checkpoint::kOutput:
      if (last_.layer + 1 < n_layers_) {
        ++last_.layer;
        return at(KernelOp::kNorm, Checkpoint::kAttnNorm);
      }
      last_.layer = 0;
      return at(KernelOp::kNorm, Checkpoint::kFinalNorm);
    default:
      refuse();
  }
}

OpPlace OpTracker::matmul() {
  switch (last_.checkpoint) {
    case Checkpoint::kAttnNorm:
      return at(KernelOp::kMatmul, Checkpoint::kQ);
    case Checkpoint::kQ:
      return at(KernelOp::kMatmul, Checkpoint::kK);
    case Checkpoint::kK:
      return at(KernelOp::kMatmul, Checkpoint::kV);
    case Checkpoint::kAttn:
      return at(KernelOp::kMatmul, Checkpoint::kAttnOut);
    case Checkpoint::kFfnNorm:
      return at(KernelOp::kMatmul, gated_ ? Checkpoint::kFfnGate : Checkpoint::kFfnUp);
    case Checkpoint::kFfnGate:
      return at(KernelOp::kMatmul, Checkpoint::kFfnUp);
    case Checkpoint::kFfnAct:
      return at(KernelOp::kMatmul, Checkpoint::kFfnOut);
    case Checkpoint::kFinalNorm:
    case Checkpoint::kLogits:
      return at(KernelOp::kMatmul, Checkpoint::kLogits);
    default:
      refuse();
  }
}

OpPlace OpTracker::add() {
  switch (last_.checkpoint) {
    case Checkpoint::kEmbedding:
      return at(KernelOp::kAdd, Checkpoint::kEmbedding);
    case Checkpoint::kAttnOut:
      return at(KernelOp::kAdd, Checkpoint::kAttnResidual);
    case Checkpoint::kFfnOut:
      return at(KernelOp::kAdd, Checkpoint::kOutput);
    default:
      refuse();
  }
}

OpPlace OpTracker::at(KernelOp op, Checkpoint checkpoint) {
  last_ = {.op = op, .checkpoint = checkpoint, .layer = last_.layer};
  return last_;
}

void OpTracker::refuse() const {
  throw std::logic_error("a kernel call that the network does not have after " +
                         checkpoint_name(last_.checkpoint, last_.layer));
}

}  // namespace assay
