#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "assay/mistakes/mistake.h"
#include "kernels/reference/reference.h"

namespace assay::mistakes {
namespace {

using reference::AttentionVariant;

struct Groups {
  int64_t n_kv;
  int64_t size;  // query heads of each
};

// Query head h reads the kv head that `map` makes of it. Without groups of heads that is their
// order.
void add_head_map(std::function<std::string(const Groups&)> text,
                  std::function<int64_t(int64_t head, const Groups&)> map,
                  std::vector<Injected> faults, bool without_groups,
                  std::vector<Mistake>& mistakes) {
  const auto groups = [](const Network& network) {
    return Groups{network.n_kv_heads, network.n_heads / network.n_kv_heads};
  };
  for (const bool grouped : {true, false}) {
    if (!grouped && !without_groups) continue;
    mistakes.push_back(
        {.cause = grouped ? "gqa_map" : "head_order",
         .text = [=](const Network& network, double) { return text(groups(network)); },
         .edit = varied([=](AttentionVariant& variant, const OpContext& context) {
           variant.kv_head = [=, &map, right = groups(context.network)](int64_t head) {
             return map(head, right);
           };
         }),
         .possible =
             [=](const Network& network, Op) {
               return network.n_kv_heads > 1 && (groups(network).size > 1) == grouped;
             },
         .faults = grouped ? faults : std::vector<Injected>()});
  }
}

// A head's keys and values come one after the other from the latent vector.
Mistake latent_parts_mistake() {
  return {
      .cause = "head_order",
      .text = plainly("takes the values of each head before its keys from the latent's product"),
      .edit = {.heads =
                   [](const OpContext& context, HeadsCall call, Kernels& kernels) {
                     const bool is_key = context.site.checkpoint == Checkpoint::kK;
                     call.parts.own_first = is_key ? call.parts.own_dim - call.parts.own_count : 0;
                     kernels.run(call);
                   }},
      .possible = [](const Network& network, Op) { return network.has(Checkpoint::kKvB); },
      .faults = {{.name = "latent-values-first",
                  .group = FaultGroup::kAttention,
                  .what = "values are taken before keys from the product of the latent vector",
                  .at = Checkpoint::kK,
                  .unsupported_reason =
                      needs("latent attention",
                            [](const ModelConfig& config) { return config.kv_lora_rank > 0; }),
                  .also = {Checkpoint::kV}}}};
}

std::vector<Mistake> head_map_mistakes() {
  std::vector<Mistake> mistakes;
  const auto add = [&](const char* text, std::function<int64_t(int64_t, const Groups&)> map,
                       std::vector<Injected> faults = {}) {
    add_head_map([text](const Groups&) { return text; }, std::move(map), std::move(faults), true,
                 mistakes);
  };
  add_head_map(
      [](const Groups& groups) {
        return fmt::format("gives query head h the key-value head h mod {} in place of h / {}",
                           groups.n_kv, groups.size);
      },
      [](int64_t head, const Groups& groups) { return head % groups.n_kv; },
      {{"gqa-modulo", FaultGroup::kAttention, "query head h reads kv head h mod n_kv for h / group",
        Checkpoint::kAttn, needs_grouped_heads}},
      false, mistakes);
  add("gives each query head the key-value head after its own",
      [](int64_t head, const Groups& groups) { return (head / groups.size + 1) % groups.n_kv; });
  add("gives each query head the key-value head before its own",
      [](int64_t head, const Groups& groups) {
        return (head / groups.size + groups.n_kv - 1) % groups.n_kv;
      });
  add("takes the key-value heads in reverse order",
      [](int64_t head, const Groups& groups) { return groups.n_kv - 1 - head / groups.size; });
  add("gives all query heads the first key-value head",
      [](int64_t, const Groups&) { return int64_t{0}; },
      {{"gqa-first-head", FaultGroup::kAttention, "every query head reads kv head 0",
        Checkpoint::kAttn, needs_grouped_heads}});
  add("gives query head h the key-value head min(h, last)",
      [](int64_t head, const Groups& groups) { return std::min(head, groups.n_kv - 1); });
  return mistakes;
}

// The prompt's [heads, tokens, width] read as [tokens, heads, width].
void leave_untransposed(const OpContext& context, OpResult result) {
  const int64_t n_tokens =
      context.n_together > 0 ? std::min(context.n_together, result.n_rows) : result.n_rows;
  const int64_t n_heads = context.network.n_heads;
  const int64_t width = result.width / n_heads;
  const std::vector<float> right(result.values, result.values + n_tokens * result.width);
  float* out = result.values;
  for (int64_t head = 0; head < n_heads; ++head) {
    for (int64_t t = 0; t < n_tokens; ++t) {
      out = std::copy_n(right.begin() + t * result.width + head * width, width, out);
    }
  }
}

Mistake untransposed_mistake() {
  return {
      .cause = "head_order",
      .text = plainly("puts heads side by side without transposing heads and tokens"),
      .edit = {.after = leave_untransposed},
      .possible = [](const Network& network,
                     Op op) { return op.checkpoint == Checkpoint::kAttn && network.n_heads > 1; },
      .reads_all_positions = true,
      .reads_ahead = true};
}

std::vector<Mistake> rounding_mistakes() {
  std::vector<Mistake> mistakes;
  for (const Rounding& rounding : kRoundings) {
    for (const bool before : {true, false}) {
      const bool injected = before && rounding.round == kF16Rounding.round;
      mistakes.push_back(
          {.cause = "rounding",
           .text = plainly(fmt::format("rounds the attention scores to {}{}", rounding.type,
                                       before ? " before they are scaled" : "")),
           .edit = varied(
               [round = rounding.round, before](AttentionVariant& variant, const OpContext&) {
                 variant.round_score = round;
                 variant.round_before_scale = before;
               }),
           .faults = injected
                         ? std::vector<Injected>{{"scores-f16", FaultGroup::kAttention,
                                                  "scores are float16: rounded, and beyond 65504 "
                                                  "infinite",
                                                  Checkpoint::kAttn}}
                         : std::vector<Injected>()});
    }
    for (const bool before : {true, false}) {
      const bool injected = !before && rounding.round == kBf16Rounding.round;
      mistakes.push_back(
          {.cause = "rounding",
           .text = plainly(fmt::format("rounds the weights of its softmax to {}{}", rounding.type,
                                       before ? " before they are divided by their sum" : "")),
           .edit = varied(
               [round = rounding.round, before](AttentionVariant& variant, const OpContext&) {
                 variant.round_weight = round;
                 variant.round_before_division = before;
               }),
           .faults = injected ? std::vector<Injected>{{"softmax-bf16", FaultGroup::kAttention,
                                                       "the weights of the softmax are bfloat16",
                                                       Checkpoint::kAttn}}
                              : std::vector<Injected>()});
    }
  }
  return mistakes;
}

// What no comparison names.
std::vector<Mistake> injected_mistakes() {
  return {
      {.edit = varied(
           [](AttentionVariant& variant, const OpContext&) { variant.subtract_max = false; }),
       .faults = {{"softmax-without-max", FaultGroup::kAttention,
                   "the highest score is not subtracted before exp(), which overflows beyond "
                   "88",
                   Checkpoint::kAttn}}},
      {.edit = varied([](AttentionVariant& variant, const OpContext&) { variant.divide = false; }),
       .faults = {{"softmax-without-division", FaultGroup::kAttention,
                   "softmax is not divided by its sum", Checkpoint::kAttn}}}};
}

}  // namespace

std::vector<Mistake> attention_mistakes() {
  std::vector<Mistake> mistakes;
  for (auto part : {score_mistakes(), alibi_mistakes(), mask_mistakes(), head_map_mistakes(),
                    cache_mistakes(), rounding_mistakes(), injected_mistakes()}) {
    for (Mistake& mistake : part) mistakes.push_back(std::move(mistake));
  }
  mistakes.push_back(latent_parts_mistake());
  mistakes.push_back(untransposed_mistake());
  return mistakes;
}

}  // namespace assay::mistakes
