#include "engine/fused_layer.h"

#include <algorithm>

#include "model/architecture.h"

namespace assay {
namespace {

// The ops of one group, in their order; further ropes or products may be missing.
struct Pattern {
  FusedKind kind;
  std::vector<Checkpoint> all;
  std::vector<Checkpoint> optional = {};
};

const std::vector<Pattern>& patterns() {
  using C = Checkpoint;
  static const std::vector<Pattern> all = {
      {FusedKind::kQkv,
       {C::kAttnNorm, C::kQ, C::kK, C::kV, C::kQRope, C::kKRope},
       {C::kQRope, C::kKRope}},
      {FusedKind::kAttention, {C::kAttn}},
      {FusedKind::kResidual, {C::kAttnOut, C::kAttnResidual}},
      {FusedKind::kActivation, {C::kFfnNorm, C::kFfnGate, C::kFfnUp, C::kFfnAct}, {C::kFfnGate}},
      {FusedKind::kResidual, {C::kFfnOut, C::kOutput}},
  };
  return all;
}

// How many of the ops from `first` on are the pattern's; 0 if they are not.
size_t match(std::span<const OpSpec> layer, size_t first, const Pattern& pattern) {
  size_t at = first;
  for (const Checkpoint checkpoint : pattern.all) {
    if (at < layer.size() && layer[at].out == checkpoint) {
      ++at;
    } else if (std::ranges::find(pattern.optional, checkpoint) == pattern.optional.end()) {
      return 0;
    }
  }
  return at - first;
}

// Whether each op reads what the fused kernels take it to read.
bool has_common_inputs(std::span<const OpSpec> layer) {
  std::vector<OpSpec> expected(common_layer().begin(), common_layer().end());
  for (const Checkpoint optional : {Checkpoint::kQRope, Checkpoint::kKRope, Checkpoint::kFfnGate}) {
    if (find_spec(layer, optional) == nullptr) expected = without_op(expected, optional);
  }
  return std::ranges::equal(layer, expected, [](const OpSpec& a, const OpSpec& b) {
    return a.kind == b.kind && a.out == b.out && std::ranges::equal(a.inputs(), b.inputs());
  });
}

}  // namespace

std::optional<std::vector<FusedGroup>> fuse_layer(std::span<const OpSpec> layer) {
  if (!has_common_inputs(layer)) return std::nullopt;
  std::vector<FusedGroup> groups;
  size_t at = 0;
  for (const Pattern& pattern : patterns()) {
    const size_t count = match(layer, at, pattern);
    if (count == 0) return std::nullopt;
    groups.push_back({pattern.kind, layer.subspan(at, count)});
    at += count;
  }
  return at == layer.size() ? std::optional(groups) : std::nullopt;
}

}  // namespace assay
