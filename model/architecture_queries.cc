#include <algorithm>
#include <array>
#include <initializer_list>

#include "model/architecture.h"

// What is asked of the table in architecture.cc.
namespace assay {
namespace {

// The op in the usual layer, or else in a variant.
const OpSpec* find_spec(const Architecture& architecture, Checkpoint checkpoint) {
  const OpSpec* op = assay::find_spec(architecture.layer, checkpoint);
  for (const LayerVariant& variant : architecture.variants) {
    if (op == nullptr) op = assay::find_spec(variant.ops, checkpoint);
  }
  return op;
}

// The same of a layer whose embedding has no position in it. What enters it is the embedding in the
// first one, and has what attention made of it in others.
bool depends_on_tokens_alone(std::span<const OpSpec> layer, Checkpoint checkpoint, bool is_first) {
  const OpSpec* op = assay::find_spec(layer, checkpoint);
  if (op == nullptr || op->kind == OpKind::kRope || op->kind == OpKind::kAttention) return false;
  return std::ranges::all_of(op->inputs(), [&](Checkpoint input) {
    if (input == Checkpoint::kOutput) return is_first;
    return input == Checkpoint::kEmbedding || depends_on_tokens_alone(layer, input, is_first);
  });
}

OpKind find_kind(Checkpoint checkpoint) {
  if (checkpoint == Checkpoint::kFinalNorm) return OpKind::kNorm;
  if (checkpoint == Checkpoint::kLogits) return OpKind::kLinear;
  for (const Architecture& architecture : architectures()) {
    const OpSpec* op = find_spec(architecture, checkpoint);
    if (op != nullptr) return op->kind;
  }
  return OpKind::kEmbedding;
}

std::vector<OpSpec> without_plain_norms(std::span<const OpSpec> layer,
                                        std::initializer_list<Checkpoint> norms) {
  std::vector<OpSpec> ops(layer.begin(), layer.end());
  for (const Checkpoint norm : norms) {
    const OpSpec* op = assay::find_spec(ops, norm);
    if (op != nullptr && op->tensor.empty()) ops = without_op(ops, norm);
  }
  return ops;
}

}  // namespace

std::vector<OpSpec> layer_ops(const Architecture& architecture,
                              const std::function<bool(std::string_view)>& has_tensor,
                              const std::function<bool(std::string_view)>& is_true,
                              LayerPlace place) {
  std::span<const OpSpec> chosen = architecture.layer;
  for (const LayerVariant& variant : architecture.variants) {
    const bool applies = (variant.key.empty() || is_true(variant.key)) &&
                         (variant.without.empty() || !has_tensor(variant.without)) &&
                         (variant.tensor.empty() || has_tensor(variant.tensor)) &&
                         (variant.also.empty() || has_tensor(variant.also)) &&
                         (variant.place == LayerPlace::kAny || variant.place == place);
    if (applies) {
      chosen = variant.ops;
      break;
    }
  }
  std::vector<OpSpec> ops(chosen.begin(), chosen.end());
  for (const OpSpec& op : chosen) {
    if (op.if_present && !has_tensor(op.tensor)) ops = without_op(ops, op.out);
  }
  return ops;
}

std::vector<OpSpec> without_rotation(std::span<const OpSpec> layer) {
  return without_op(without_op(layer, Checkpoint::kQRope), Checkpoint::kKRope);
}

std::vector<OpSpec> without_plain_qk_norms(std::span<const OpSpec> layer) {
  return without_plain_norms(layer, {Checkpoint::kQRopeNorm, Checkpoint::kKRopeNorm});
}

std::vector<OpSpec> without_plain_ssm_norms(std::span<const OpSpec> layer) {
  return without_plain_norms(
      layer, {Checkpoint::kSsmDtNorm, Checkpoint::kSsmBNorm, Checkpoint::kSsmCNorm});
}

bool has_plain_ssm_norms(const Architecture& architecture) {
  const OpSpec* norm = find_spec(architecture, Checkpoint::kSsmDtNorm);
  return norm != nullptr && norm->tensor.empty();
}

std::vector<OpSpec> without_cutoff(std::span<const OpSpec> layer) {
  return without_op(layer, Checkpoint::kFfnCutoff);
}

std::vector<OpSpec> without_clips(std::span<const OpSpec> layer) {
  return without_op(without_op(without_op(layer, Checkpoint::kQClip), Checkpoint::kKClip),
                    Checkpoint::kVClip);
}

OpKind kind_of(Checkpoint checkpoint) {
  // Of the first architecture that has it: searches for causes ask for all of them again and again.
  static const std::array<OpKind, kCheckpoints> kinds = [] {
    std::array<OpKind, kCheckpoints> found;
    for (int i = 0; i < kCheckpoints; ++i) found[i] = find_kind(static_cast<Checkpoint>(i));
    return found;
  }();
  return kinds[static_cast<size_t>(checkpoint)];
}

bool has_checkpoint(const Architecture& architecture, Checkpoint checkpoint) {
  return !is_in_layer(checkpoint) || find_spec(architecture, checkpoint) != nullptr;
}

bool has_layers_without_feed_forward(const Architecture& architecture) {
  const auto lacks = [](std::span<const OpSpec> layer) {
    return assay::find_spec(layer, Checkpoint::kFfnOut) == nullptr;
  };
  return lacks(architecture.layer) ||
         std::ranges::any_of(architecture.variants, lacks, &LayerVariant::ops);
}

bool has_dense_feed_forward(const Architecture& architecture) {
  const auto is_dense = [](std::span<const OpSpec> layer) {
    return std::ranges::find(layer, Width::kInner, &OpSpec::width) != layer.end();
  };
  return is_dense(architecture.layer) ||
         std::ranges::any_of(architecture.variants, is_dense, &LayerVariant::ops);
}

bool depends_on_tokens_alone(const Architecture& architecture, Checkpoint checkpoint,
                             bool is_first) {
  if (architecture.position == PositionKind::kLearned) return false;
  if (checkpoint == Checkpoint::kEmbedding) return true;
  return depends_on_tokens_alone(architecture.layer, checkpoint, is_first) ||
         std::ranges::any_of(architecture.variants, [&](const LayerVariant& variant) {
           return depends_on_tokens_alone(variant.ops, checkpoint, is_first);
         });
}

bool has_model_width(Checkpoint checkpoint) {
  if (!is_in_layer(checkpoint)) return checkpoint != Checkpoint::kLogits;
  return std::all_of(architectures().begin(), architectures().end(),
                     [&](const Architecture& architecture) {
                       const OpSpec* op = find_spec(architecture, checkpoint);
                       // What leaves a layer may be several residual streams in one row.
                       return op == nullptr || op->width == Width::kHidden ||
                              (checkpoint == Checkpoint::kOutput && op->width == Width::kStreams);
                     });
}

const Architecture* find_architecture(std::string_view name) {
  for (const Architecture& architecture : architectures()) {
    if (architecture.name == name) return &architecture;
  }
  return nullptr;
}

std::string architecture_names() {
  std::string names;
  for (const Architecture& architecture : architectures()) {
    if (!names.empty()) names += ", ";
    names += architecture.name;
  }
  return names;
}

}  // namespace assay
