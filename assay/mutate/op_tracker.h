#pragma once

#include <cstdint>

#include "engine/model_config.h"
#include "engine/probe.h"

namespace assay {

// The kinds of kernel calls that a forward pass makes.
enum class KernelOp : uint8_t {
  kGetRows,       // of tokens
  kGetPositions,  // the same, of learned positions
  kMatmul,
  kNorm,
  kRope,
  kStoreKv,
  kAttention,
  kActivate,
  kAdd,
};

// Where in the network a kernel call is: the checkpoint that its result becomes. Keys and values
// being stored carry the checkpoint of what is stored, `k` or `v`.
struct OpPlace {
  KernelOp op = KernelOp::kGetRows;
  Checkpoint checkpoint = Checkpoint::kEmbedding;
  int layer = 0;
  // Whether this call finishes the checkpoint: learned positions are added to an embedding.
  bool finishes = true;
};

// Follows the calls of a Session through the network, by nothing but their order.
class OpTracker {
 public:
  explicit OpTracker(const ModelConfig& config);

  // The place of the next call, which is an `op`; kGetPositions is told as kGetRows. Throws
  // std::logic_error if the network has no such op there.
  OpPlace advance(KernelOp op);

  // Whether rows that are taken next are those of learned positions, and not the next batch's.
  bool expects_positions() const { return learned_positions_ && last_.op == KernelOp::kGetRows; }

 private:
  OpPlace norm();
  OpPlace matmul();
  OpPlace add();
  OpPlace at(KernelOp op, Checkpoint checkpoint);
  [[noreturn]] void refuse() const;

  int n_layers_;
  bool learned_positions_;
  bool gated_;
  OpPlace last_;
};

}  // namespace assay
