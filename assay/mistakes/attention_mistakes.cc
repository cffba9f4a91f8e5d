#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "assay/mistakes/mistake.h"
#include "kernels/reference/reference.h"

namespace assay::mistakes {
namespace {

using reference::AttentionVariant;

constexpr FaultGroup kCache = FaultGroup::kCache;

// What no kernel does: the naive attention in another way, of an engine's calls too.
KernelHooks varied(std::function<void(AttentionVariant&, const OpContext&)> edit) {
  return {.attention = [edit = std::move(edit)](const OpContext& context, const AttentionCall& call,
                                                Kernels&) {
    const std::vector<const Matrix*>& rows = context.inputs.rows;
    AttentionVariant variant{.n_keys = rows.empty() ? call.first_position + call.n_tokens
                                                    : rows[1]->rows};
    edit(variant, context);
    reference::run(call, variant);
  }};
}

int64_t window_at(const Network& network, Op op) {
  return network.attention_shape(op).window;
}

// Which key a query sees; both are positions.
struct Pair {
  int64_t query;
  int64_t key;
  int64_t window;  // 0: none
  int64_t prompt;  // tokens that go through the network together

  // Within a window that ends at `last`.
  bool ends_at(int64_t last) const { return key <= last && (window == 0 || key > last - window); }
  bool is_in_window() const { return window == 0 || key > query - window; }
};

Mistake mask(std::string text, std::function<bool(const Pair&)> sees,
             std::vector<Injected> faults = {}) {
  return {
      .cause = "attention_mask",
      .text = plainly(std::move(text)),
      .edit = varied([sees = std::move(sees)](AttentionVariant& variant, const OpContext& context) {
        const int64_t window = window_at(context.network, context.op());
        variant.sees = [&sees, window, prompt = context.n_together](int64_t query, int64_t key) {
          return sees({query, key, window, prompt});
        };
      }),
      .faults = std::move(faults)};
}

Mistake prompt_mask(std::string text, std::function<bool(const Pair&)> sees,
                    std::vector<Injected> faults = {}) {
  Mistake mistake = mask(std::move(text), std::move(sees), std::move(faults));
  mistake.possible = [](const Network& network, Op) { return network.n_prompt > 0; };
  return mistake;
}

std::string needs_window(const Model& model) {
  return model.config().sliding_window > 0 ? "" : "it has no sliding window";
}

bool has_window(const Network& network, Op op) {
  return window_at(network, op) > 0;
}

// Of a network that has windows in other layers.
bool lacks_window(const Network& network, Op op) {
  return network.window > 0 && window_at(network, op) == 0;
}

// That of the layer so many before or after; as if the layers went on.
int64_t window_of_other(const Network& network, Op op, int by) {
  const int period = network.model->config().architecture->window_period;
  int layer = op.layer + by;
  if (layer < 0) layer += period;
  if (layer >= network.n_layers) layer -= period;
  return window_at(network, {op.checkpoint, std::clamp(layer, 0, network.n_layers - 1)});
}

bool has_other_window_beside(const Network& network, Op op) {
  return network.model != nullptr && network.window > 0 &&
         (window_of_other(network, op, -1) != window_at(network, op) ||
          window_of_other(network, op, 1) != window_at(network, op));
}

bool mixes_windows(const ModelConfig& config) {
  return config.sliding_window > 0 &&
         std::ranges::any_of(config.layers,
                             [](const LayerConfig& layer) { return layer.window == 0; });
}

std::string window_text(const Network& network, double value) {
  return network.window > 0 ? fmt::format("attends to a window of {:.0f} tokens in place of {}",
                                          value, network.window)
                            : fmt::format("attends to a window of {:.0f} tokens", value);
}

std::vector<double> window_grid(const Network& network) {
  const int64_t window = network.window;
  std::vector<double> grid;
  for (int64_t value = 1; value <= 32; ++value) {
    if (value != window) grid.push_back(static_cast<double>(value));
  }
  for (const int64_t value :
       {window - 1, window + 1, int64_t{64}, int64_t{128}, int64_t{256}, int64_t{512}}) {
    if (value > 32 && value != window) grid.push_back(static_cast<double>(value));
  }
  std::sort(grid.begin(), grid.end());
  return grid;
}

// A fault in which layers have a window.
Injected in_all_layers(const char* name, const char* what,
                       std::function<double(const OpContext&)> parameter = {}) {
  return {.name = name,
          .group = FaultGroup::kAttention,
          .what = what,
          .at = Checkpoint::kAttn,
          .unsupported_reason = needs("layers with and without a window", mixes_windows),
          .parameter = std::move(parameter),
          .in_every_layer = true,
          .in_arguments = true};
}

std::vector<Mistake> mask_mistakes() {
  const auto window = [](AttentionCall& call, double keys) {
    call.shape.window = static_cast<int64_t>(keys);
  };
  return {mask("lets a token attend to all that follow it (no causal mask)",
               [](const Pair&) { return true; }),
          prompt_mask("lets a token of the prompt attend to all of it (no causal mask)",
                      [](const Pair& p) { return p.key <= p.query || p.key < p.prompt; },
                      {{"mask-missing", FaultGroup::kAttention,
                        "a query sees all keys of its batch", Checkpoint::kAttn}}),
          prompt_mask("lets a token of the prompt attend to the one after it",
                      [](const Pair& p) {
                        const bool next = p.key == p.query + 1 && p.key < p.prompt;
                        return (p.key <= p.query || next) && p.is_in_window();
                      }),
          prompt_mask(
              "lets a token of the prompt attend to the one after it (and shifts the window)",
              [](const Pair& p) { return p.ends_at(p.query + (p.query + 1 < p.prompt ? 1 : 0)); },
              {{"mask-sees-next", FaultGroup::kAttention, "a query sees the key after its own too",
                Checkpoint::kAttn}}),
          mask("lets a token attend to the one after it",
               [](const Pair& p) { return p.key <= p.query + 1 && p.is_in_window(); }),
          mask("does not let a token attend to itself",
               [](const Pair& p) {
                 return (p.key < p.query || (p.query == 0 && p.key == 0)) && p.is_in_window();
               },
               {{"mask-misses-own", FaultGroup::kAttention, "a query does not see its own key",
                 Checkpoint::kAttn}}),
          mask("does not attend to the first token",
               [](const Pair& p) { return p.ends_at(p.query) && (p.key > 0 || p.query == 0); },
               {{"mask-misses-first", FaultGroup::kAttention,
                 "no query but the first sees the first key", Checkpoint::kAttn}}),
          {.cause = "attention_window",
           .text = plainly("ignores the sliding window"),
           .edit = called([](AttentionCall& call, double) { call.shape.window = 0; }),
           .possible = has_window,
           .faults = {{"window-missing", FaultGroup::kAttention, "the sliding window is ignored",
                       Checkpoint::kAttn, needs_window}}},
          {.cause = "attention_window",
           .text =
               [](const Network& network, double) {
                 return fmt::format("attends to a window of {} tokens where it sees all",
                                    network.window);
               },
           .edit = {.attention =
                        [](const OpContext& context, AttentionCall call, Kernels& kernels) {
                          call.shape.window = context.network.window;
                          kernels.run(call);
                        }},
           .possible = lacks_window,
           .faults = {in_all_layers("window-in-all-layers", "layers without a window have one")}},
          {.cause = "attention_window",
           .text =
               [](const Network&, double by) {
                 return fmt::format("has the window of the layer {} it",
                                    by < 0 ? "before" : "after");
               },
           .edit = {.attention =
                        [](const OpContext& context, AttentionCall call, Kernels& kernels) {
                          call.shape.window = window_of_other(context.network, context.op(),
                                                              static_cast<int>(context.parameter));
                          kernels.run(call);
                        }},
           .possible = has_other_window_beside,
           .grid = among({-1, 1}),
           .faults = {in_all_layers("window-in-other-layers",
                                    "each layer has the window of the one before", with(-1))}},
          {.cause = "attention_window",
           .text = window_text,
           .edit = called(window),
           .possible = [](const Network& network, Op op) { return !lacks_window(network, op); },
           .grid = window_grid,
           .faults = {{"window-off-by-one", FaultGroup::kAttention,
                       "the sliding window is one key too long", Checkpoint::kAttn, needs_window,
                       [](const OpContext& context) {
                         return static_cast<double>(context.network.window + 1);
                       }}}}};
}

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

enum class SlotEdge : uint8_t { kClamp, kWrap, kZero };

int64_t shifted_slot(int64_t row, SlotEdge edge, int64_t n_keys) {
  if (edge == SlotEdge::kClamp) return std::clamp<int64_t>(row, 0, n_keys - 1);
  if (edge == SlotEdge::kWrap) return (row + n_keys) % n_keys;
  return row < n_keys ? std::max<int64_t>(row, -1) : -1;
}

std::vector<Mistake> slot_shift_mistakes() {
  struct Which {
    const char* text;
    bool k;
    bool v;
    Injected fault;
  };
  const Which both{"keys and values",
                   true,
                   true,
                   {"kv-shifted", kCache, "keys and values are one slot late", Checkpoint::kAttn}};
  const Which keys{
      "keys", true, false, {"kv-k-shifted", kCache, "keys are one slot late", Checkpoint::kAttn}};
  const Which values{"values",
                     false,
                     true,
                     {"kv-v-shifted", kCache, "values are one slot late", Checkpoint::kAttn}};
  std::vector<Mistake> mistakes;
  for (const Which& which : {both, keys, values}) {
    for (const int64_t by : {-2, -1, 1, 2}) {
      for (const SlotEdge edge : {SlotEdge::kClamp, SlotEdge::kWrap, SlotEdge::kZero}) {
        const bool injected = by == -1 && edge == SlotEdge::kClamp;
        mistakes.push_back(
            {.cause = "kv_shift",
             .text = plainly(fmt::format("reads the {} of the token {} position{} {}", which.text,
                                         std::abs(by), std::abs(by) > 1 ? "s" : "",
                                         by < 0 ? "before" : "after")),
             .edit = varied(
                 [by, edge, k = which.k, v = which.v](AttentionVariant& variant, const OpContext&) {
                   const auto row = [by, edge, n_keys = variant.n_keys](int64_t key) {
                     return shifted_slot(key + by, edge, n_keys);
                   };
                   if (k) variant.k_row = row;
                   if (v) variant.v_row = row;
                 }),
             .faults = injected ? std::vector<Injected>{which.fault} : std::vector<Injected>()});
      }
    }
  }
  return mistakes;
}

std::vector<Mistake> rounding_mistakes() {
  std::vector<Mistake> mistakes;
  for (const Rounding& rounding : kRoundings) {
    mistakes.push_back(
        {.cause = "rounding",
         .text = plainly(fmt::format("keeps keys and values in {}", rounding.type)),
         .edit = varied([round = rounding.round](AttentionVariant& variant, const OpContext&) {
           variant.round_kv = round;
         })});
  }
  mistakes.front().faults = {
      {"kv-f16", kCache, "the cache is rounded to float16", Checkpoint::kAttn}};
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
      mistakes.push_back(
          {.cause = "rounding",
           .text = plainly(fmt::format("rounds the weights of its softmax to {}{}", rounding.type,
                                       before ? " before they are divided by their sum" : "")),
           .edit = varied(
               [round = rounding.round, before](AttentionVariant& variant, const OpContext&) {
                 variant.round_weight = round;
                 variant.round_before_division = before;
               })});
    }
  }
  return mistakes;
}

// What no comparison names.
std::vector<Mistake> injected_mistakes() {
  return {
      {.edit = called([](AttentionCall& call, double) { std::swap(call.kv.k, call.kv.v); }),
       .faults = {{"kv-swapped", kCache, "the cache gives K for V and V for K",
                   Checkpoint::kAttn}}},
      {.edit = varied([](AttentionVariant& variant, const OpContext&) {
         variant.k_row = [last = variant.n_keys - 1](int64_t key) {
           return key == last ? std::max<int64_t>(key - 1, 0) : key;
         };
         variant.v_row = variant.k_row;
       }),
       .faults = {{"kv-stale", kCache, "the newest slot still holds the key and value before it",
                   Checkpoint::kAttn}}},
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
  for (auto part : {score_mistakes(), mask_mistakes(), head_map_mistakes(), slot_shift_mistakes(),
                    rounding_mistakes(), injected_mistakes()}) {
    for (Mistake& mistake : part) mistakes.push_back(std::move(mistake));
  }
  mistakes.push_back(latent_parts_mistake());
  return mistakes;
}

}  // namespace assay::mistakes
