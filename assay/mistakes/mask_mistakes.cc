#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "assay/mistakes/mistake.h"
#include "kernels/reference/reference.h"

// Which keys an attention sees: masks, windows.
namespace assay::mistakes {

using reference::AttentionVariant;

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

namespace {

int64_t window_at(const Network& network, Op op) {
  return network.attention_shape(op).window;
}

// Which key a query sees; both are positions.
struct Pair {
  int64_t query;
  int64_t key;
  AttentionShape shape;  // its window
  int64_t prompt;        // tokens that go through the network together

  // Within a window that ends at `last`.
  bool ends_at(int64_t last) const { return key <= last && key >= shape.first_key(last); }
  bool is_in_window() const { return key >= shape.first_key(query); }
};

Mistake mask(std::string text, std::function<bool(const Pair&)> sees,
             std::vector<Injected> faults = {}) {
  return {
      .cause = "attention_mask",
      .text = plainly(std::move(text)),
      .edit = varied([sees = std::move(sees)](AttentionVariant& variant, const OpContext& context) {
        const AttentionShape shape = context.network.attention_shape(context.op());
        variant.sees = [&sees, shape, prompt = context.n_together](int64_t query, int64_t key) {
          return sees({query, key, shape, prompt});
        };
      }),
      .reads_ahead = true,
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

bool is_chunked(const Network& network) {
  return network.model != nullptr && network.model->config().architecture->chunked;
}

std::string window_text(const Network& network, double value) {
  if (is_chunked(network) && network.window > 0) {
    return fmt::format("attends within chunks of {:.0f} tokens in place of {}", value,
                       network.window);
  }
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

// Of an engine that evaluates a prompt in parts.
Mistake chunk_mask() {
  return {.cause = "attention_mask",
          .text =
              [](const Network&, double count) {
                return fmt::format("attends to nothing before its own chunk of {:.0f} positions",
                                   count);
              },
          .edit = varied([](AttentionVariant& variant, const OpContext& context) {
            const AttentionShape shape = context.network.attention_shape(context.op());
            const auto count = static_cast<int64_t>(context.parameter);
            variant.sees = [=](int64_t query, int64_t key) {
              const Pair pair{query, key, shape, 0};
              return pair.ends_at(query) && key >= query / count * count;
            };
          }),
          .grid = among({2, 4, 8, 16, 32, 64, 128, 256, 512}),
          .faults = {{"mask-of-chunk", FaultGroup::kAttention,
                      "a query sees no key before its own chunk of 8 positions", Checkpoint::kAttn,
                      any_model, with(8)}}};
}

// Of an engine whose mask of a later chunk is one of zeros.
Mistake open_chunk_mask() {
  return {.cause = "attention_mask",
          .text =
              [](const Network&, double from) {
                return fmt::format(
                    "lets a token of the prompt from position {:.0f} on attend to all that follow "
                    "it (no causal mask within a later chunk)",
                    from);
              },
          .edit = varied([](AttentionVariant& variant, const OpContext& context) {
            const AttentionShape shape = context.network.attention_shape(context.op());
            const auto from = static_cast<int64_t>(context.parameter);
            variant.sees = [=, prompt = context.n_together](int64_t query, int64_t key) {
              const Pair pair{query, key, shape, prompt};
              const bool in_chunk = query >= from && key >= from && query < prompt && key < prompt;
              return (key <= query || in_chunk) && pair.is_in_window();
            };
          }),
          .possible = [](const Network& network, Op) { return network.n_prompt > 0; },
          .grid =
              [](const Network& network) {
                std::vector<double> grid;
                for (int64_t from = 2; from + 1 < network.n_prompt; from *= 2) {
                  grid.push_back(static_cast<double>(from));
                }
                return grid;
              },
          .reads_ahead = true};
}

// Whether one of the wanted queries has a token of the prompt after it.
bool sees_ahead_in_prompt(const OpContext& context) {
  const Inputs& inputs = context.inputs;
  for (size_t i = 0; i < inputs.positions.size(); ++i) {
    const bool is_wanted = inputs.wanted.empty() || inputs.wanted[i];
    if (is_wanted && inputs.positions[i] + 1 < context.n_together) return true;
  }
  return false;
}

// With neither a causal mask nor a window. Where nothing of the prompt follows that is a window
// which is ignored, and no other mistake.
Mistake unwindowed_prompt_mask() {
  Mistake mistake = prompt_mask(
      "lets a token of the prompt attend to all of it (no causal mask, and no window)",
      [](const Pair& p) { return p.query < p.prompt ? p.key < p.prompt : p.ends_at(p.query); });
  mistake.edit.attention = [masked = mistake.edit.attention](const OpContext& context,
                                                             AttentionCall call, Kernels& kernels) {
    if (sees_ahead_in_prompt(context)) {
      masked(context, call, kernels);
    } else {
      kernels.run(call);
    }
  };
  mistake.possible = [](const Network& network, Op op) {
    return network.n_prompt > 0 && has_window(network, op);
  };
  return mistake;
}

}  // namespace

std::vector<Mistake> mask_mistakes() {
  const auto window = [](AttentionCall& call, double keys) {
    call.shape.window = static_cast<int64_t>(keys);
  };
  return {
      mask("lets a token attend to all that follow it (no causal mask)",
           [](const Pair& p) { return p.is_in_window(); }),
      prompt_mask("lets a token of the prompt attend to all of it (no causal mask)",
                  [](const Pair& p) {
                    const bool in_prompt = p.query < p.prompt && p.key < p.prompt;
                    return (p.key <= p.query || in_prompt) && p.is_in_window();
                  },
                  {{"mask-missing", FaultGroup::kAttention, "a query sees all keys of its batch",
                    Checkpoint::kAttn}}),
      unwindowed_prompt_mask(),
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
      prompt_mask("does not let a token after the prompt attend to itself",
                  [](const Pair& p) {
                    return p.ends_at(p.query) && (p.query < p.prompt || p.key < p.query);
                  }),
      prompt_mask("does not let a token after the prompt attend to the prompt",
                  [](const Pair& p) {
                    return p.ends_at(p.query) && (p.query < p.prompt || p.key >= p.prompt);
                  }),
      prompt_mask("lets a token after the prompt attend to the prompt and itself alone",
                  [](const Pair& p) {
                    return p.ends_at(p.query) && (p.key < p.prompt || p.key == p.query);
                  }),
      chunk_mask(),
      open_chunk_mask(),
      mask("does not attend to the first token",
           [](const Pair& p) { return p.ends_at(p.query) && (p.key > 0 || p.query == 0); },
           {{"mask-misses-first", FaultGroup::kAttention,
             "no query but the first sees the first key", Checkpoint::kAttn}}),
      {.cause = "attention_window",
       .text =
           [](const Network& network, double) {
             return is_chunked(network) ? "attends beyond its chunk" : "ignores the sliding window";
           },
       .edit = called([](AttentionCall& call, double) { call.shape.window = 0; }),
       .possible = has_window,
       .faults = {{"window-missing", FaultGroup::kAttention, "the sliding window is ignored",
                   Checkpoint::kAttn, needs_window}}},
      {.cause = "attention_window",
       .text =
           [](const Network& network, double) {
             return fmt::format("attends {} of {} tokens where it sees all",
                                is_chunked(network) ? "within chunks" : "to a window",
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
             return fmt::format("has the window of the layer {} it", by < 0 ? "before" : "after");
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
       .text = plainly("has a sliding window in place of chunks"),
       .edit = called([](AttentionCall& call, double) { call.shape.chunked = false; }),
       .possible = [](const Network& network,
                      Op op) { return has_window(network, op) && is_chunked(network); },
       .faults = {{"window-slides", FaultGroup::kAttention,
                   "the attention has a sliding window in place of chunks", Checkpoint::kAttn,
                   needs("attention in chunks",
                         [](const ModelConfig& config) {
                           return config.architecture->chunked && config.sliding_window > 0;
                         })}}},
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

}  // namespace assay::mistakes
