#include "assay/compare/checkpoint_order.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <system_error>

namespace assay {
namespace {

// Within a layer, as it is computed.
constexpr std::string_view kLayerOps[] = {
    "attn_norm",     "q",        "k",        "v",      "q_rope",  "k_rope",  "attn",  "attn_out",
    "attn_residual", "ffn_norm", "ffn_gate", "ffn_up", "ffn_act", "ffn_out", "output"};
constexpr std::string_view kLast[] = {"final_norm", "logits"};
constexpr std::string_view kPrefix = "layer_";

}  // namespace

CheckpointName parse_checkpoint_name(std::string_view name) {
  CheckpointName parsed{std::string(name), -1, std::string(name), false};
  if (name.starts_with(kPrefix)) {
    const char* digits = name.data() + kPrefix.size();
    const char* end = name.data() + name.size();
    int layer = 0;
    const auto [stop, error] = std::from_chars(digits, end, layer);
    const bool plain = *digits != '-' && (*digits != '0' || stop == digits + 1);
    if (error == std::errc() && plain && stop + 1 < end && *stop == '_') {
      parsed.layer = layer;
      parsed.op = std::string(stop + 1, end);
      parsed.known =
          std::find(std::begin(kLayerOps), std::end(kLayerOps), parsed.op) != std::end(kLayerOps);
      return parsed;
    }
  }
  parsed.known =
      name == "embedding" || std::find(std::begin(kLast), std::end(kLast), name) != std::end(kLast);
  return parsed;
}

ComputeOrder compute_order(const CheckpointName& name, int64_t arrival) {
  if (name.layer >= 0) {
    const auto* op = std::find(std::begin(kLayerOps), std::end(kLayerOps), name.op);
    return {1, name.layer, static_cast<int>(op - std::begin(kLayerOps)), name.known ? 0 : arrival};
  }
  if (name.name == "embedding") return {0, 0, 0, 0};
  const auto* last = std::find(std::begin(kLast), std::end(kLast), name.name);
  if (last != std::end(kLast)) return {2, 0, static_cast<int>(last - std::begin(kLast)), 0};
  return {3, 0, 0, arrival};
}

}  // namespace assay
