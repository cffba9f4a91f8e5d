#include "assay/mistakes/unwanted_rotation.h"

#include <algorithm>

#include "assay/mistakes/rotation.h"
#include "kernels/half.h"

namespace assay::mistakes {
namespace {

// Keys or values as floats.
std::vector<float> as_floats(const void* data, KvType type, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = type == KvType::kF32 ? static_cast<const float*>(data)[i]
                                     : float_from_f16(static_cast<const uint16_t*>(data)[i]);
  }
  return values;
}

std::vector<float> turned(const float* x, int64_t rows, int64_t heads, int64_t first,
                          const OpContext& context, Kernels& kernels) {
  const RopeSettings& settings = context.network.rope_at(context.op());
  std::vector<double> positions;
  for (int64_t i = 0; i < rows; ++i) positions.push_back(static_cast<double>(first + i));
  const std::vector<float> table = rope_table(settings, positions);
  std::vector<float> out(static_cast<size_t>(rows * heads * settings.head_dim));
  kernels.run(RopeCall{.x = x,
                       .cos_sin = table.data(),
                       .pairing = settings.pairing,
                       .n_tokens = rows,
                       .n_heads = heads,
                       .head_dim = settings.head_dim,
                       .rotary_dim = 2 * std::ssize(settings.frequencies),
                       .out = out.data(),
                       .site = context.site,
                       .first_turned = settings.first_turned});
  return out;
}

void run_with_rotation(const OpContext& context, AttentionCall call, Kernels& kernels) {
  const AttentionShape& shape = call.shape;
  const int64_t n_keys = call.first_position + call.n_tokens;
  const int64_t heads = n_keys * shape.n_kv_heads;
  const std::vector<float> q =
      turned(call.q, call.n_tokens, shape.n_heads, call.first_position, context, kernels);
  const std::vector<float> k =
      turned(as_floats(call.kv.k, call.kv.type, heads * shape.head_dim).data(), n_keys,
             shape.n_kv_heads, 0, context, kernels);
  const std::vector<float> v = as_floats(call.kv.v, call.kv.type, heads * shape.value_dim());
  call.q = q.data();
  call.kv = {KvType::kF32, k.data(), v.data()};
  kernels.run(call);
}

bool is_unrotated(const Network& network, Op op) {
  return network.model != nullptr && network.rope &&
         find_spec(network.layer(op.layer), Checkpoint::kQRope) == nullptr;
}

}  // namespace

Mistake inverted_rotation_mistake() {
  return {
      .cause = "rope_unwanted",
      .text = plainly("rotates q and k in the layers that do not rotate them, and in no others"),
      .edit = {.rope =
                   [](const OpContext&, const RopeCall& call, Kernels&) {
                     std::copy_n(call.x, call.n_tokens * call.n_heads * call.head_dim, call.out);
                   },
               .attention =
                   [](const OpContext& context, const AttentionCall& call, Kernels& kernels) {
                     if (is_unrotated(context.network, context.op())) {
                       run_with_rotation(context, call, kernels);
                     } else {
                       kernels.run(call);
                     }
                   }},
      .possible =
          [](const Network& network, Op op) {
            if (network.model == nullptr || !network.rope) return false;
            for (int layer = 0; layer < network.n_layers; ++layer) {
              const Op attention{Checkpoint::kAttn, layer};
              const bool attends = find_spec(network.layer(layer), Checkpoint::kAttn) != nullptr;
              if (attends && is_unrotated(network, attention)) {
                return op.checkpoint != Checkpoint::kAttn || is_unrotated(network, op);
              }
            }
            return false;
          },
      .of_all_layers = true};
}

Mistake unwanted_mistake() {
  const auto has_none = [](const ModelConfig& config) {
    return config.architecture->position == PositionKind::kRotary &&
           std::ranges::any_of(config.layers, [](const LayerConfig& layer) {
             return find_spec(layer.ops, Checkpoint::kAttn) != nullptr &&
                    find_spec(layer.ops, Checkpoint::kQRope) == nullptr;
           });
  };
  return {.cause = "rope_unwanted",
          .text = plainly("rotates q and k, which this layer does not rotate"),
          .edit = {.attention = run_with_rotation},
          .possible = is_unrotated,
          .faults = {{.name = "rope-unwanted",
                      .group = FaultGroup::kRotary,
                      .what = "layers without a rotation have one",
                      .at = Checkpoint::kAttn,
                      .unsupported_reason = needs("layer without a rotation", has_none),
                      .in_every_layer = true,
                      .in_arguments = true}}};
}

}  // namespace assay::mistakes
