#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "assay/causes/mistakes.h"

namespace assay::causes {
namespace {

using Adjust = std::function<void(AttentionSettings&, const Inputs&)>;

Matrix attend(const AttentionSettings& settings, const Inputs& in) {
  return attention(*in.rows[0], *in.rows[1], *in.rows[2], settings, in.wanted);
}

void add(const Network& network, const char* name, std::string text, const Adjust& adjust,
         std::vector<BoundMistake>& mistakes) {
  mistakes.push_back(plain_mistake(name, std::move(text), [&network, adjust](Op, const Inputs& in) {
    AttentionSettings settings = network.attention_settings();
    adjust(settings, in);
    return attend(settings, in);
  }));
}

void add_scales(const Network& network, std::vector<BoundMistake>& mistakes) {
  BoundMistake scale;
  scale.name = "attention_scale";
  const double dim = static_cast<double>(network.head_dim);
  scale.text = [dim](double value) {
    const double right = 1 / std::sqrt(dim);
    std::string what = fmt::format("{:.4g}", value);
    if (std::abs(value - 1) < 1e-4) what = "1 (none)";
    if (std::abs(value * dim - 1) < 1e-4) what = "1/head_dim";
    if (std::abs(value / std::sqrt(dim) - 1) < 1e-4) what = "sqrt(head_dim)";
    return fmt::format("scales attention scores by {} in place of 1/sqrt(head_dim) = {:.4g}", what,
                       right);
  };
  scale.grid = ratios(1e-3 / dim, 1e2, 48);
  for (const double value : {1 / dim, 1.0, std::sqrt(dim)}) scale.grid.push_back(value);
  std::sort(scale.grid.begin(), scale.grid.end());
  scale.refine = true;
  scale.compute = [&network](Op, const Inputs& in, double value) {
    AttentionSettings settings = network.attention_settings();
    settings.scale = value;
    return attend(settings, in);
  };
  mistakes.push_back(std::move(scale));
}

void add_masks(const Network& network, std::vector<BoundMistake>& mistakes) {
  const int64_t window = network.window;
  const auto mask = [&](std::string text, auto sees) {
    add(
        network, "attention_mask", std::move(text),
        [sees](AttentionSettings& settings, const Inputs&) { settings.sees = sees; }, mistakes);
  };
  mask("lets a token attend to all that follow it (no causal mask)",
       [](int64_t, int64_t) { return true; });
  if (const int64_t prompt = network.n_prompt; prompt > 0) {
    mask("lets a token of the prompt attend to all of it (no causal mask)",
         [prompt](int64_t query, int64_t key) { return key <= query || key < prompt; });
    mask("lets a token of the prompt attend to the one after it",
         [prompt, window](int64_t query, int64_t key) {
           const bool next = key == query + 1 && key < prompt;
           return (key <= query || next) && (window == 0 || key > query - window);
         });
    mask("lets a token of the prompt attend to the one after it (and shifts the window)",
         [prompt, window](int64_t query, int64_t key) {
           const int64_t last = query + 1 < prompt ? query + 1 : query;
           return key <= last && (window == 0 || key > last - window);
         });
  }
  mask("lets a token attend to the one after it", [window](int64_t query, int64_t key) {
    return key <= query + 1 && (window == 0 || key > query - window);
  });
  mask("does not let a token attend to itself", [window](int64_t query, int64_t key) {
    return (key < query || (query == 0 && key == 0)) && (window == 0 || key > query - window);
  });
  mask("does not attend to the first token", [window](int64_t query, int64_t key) {
    return key <= query && (key > 0 || query == 0) && (window == 0 || key > query - window);
  });
  if (window > 0) {
    mask("ignores the sliding window", [](int64_t query, int64_t key) { return key <= query; });
  }
  BoundMistake width;
  width.name = "attention_mask";
  width.text = [window](double value) {
    return window > 0
               ? fmt::format("attends to a window of {:.0f} tokens in place of {}", value, window)
               : fmt::format("attends to a window of {:.0f} tokens", value);
  };
  for (int64_t value = 1; value <= 32; ++value) {
    if (value != window) width.grid.push_back(static_cast<double>(value));
  }
  for (const int64_t value :
       {window - 1, window + 1, int64_t{64}, int64_t{128}, int64_t{256}, int64_t{512}}) {
    if (value > 32 && value != window) width.grid.push_back(static_cast<double>(value));
  }
  std::sort(width.grid.begin(), width.grid.end());
  width.compute = [&network](Op, const Inputs& in, double value) {
    AttentionSettings settings = network.attention_settings();
    const auto keys = static_cast<int64_t>(value);
    settings.sees = [keys](int64_t query, int64_t key) {
      return key <= query && key > query - keys;
    };
    return attend(settings, in);
  };
  mistakes.push_back(std::move(width));
}

void add_head_maps(const Network& network, std::vector<BoundMistake>& mistakes) {
  const int64_t n_kv = network.n_kv_heads;
  const int64_t group = network.n_heads / n_kv;
  if (n_kv == 1) return;
  const auto map = [&](std::string text, const std::function<int64_t(int64_t)>& kv_head) {
    add(
        network, group > 1 ? "gqa_map" : "head_order", std::move(text),
        [kv_head](AttentionSettings& settings, const Inputs&) { settings.kv_head = kv_head; },
        mistakes);
  };
  if (group > 1) {
    map(fmt::format("gives query head h the key-value head h mod {} in place of h / {}", n_kv,
                    group),
        [n_kv](int64_t head) { return head % n_kv; });
  }
  map("gives each query head the key-value head after its own",
      [=](int64_t head) { return (head / group + 1) % n_kv; });
  map("gives each query head the key-value head before its own",
      [=](int64_t head) { return (head / group + n_kv - 1) % n_kv; });
  map("takes the key-value heads in reverse order",
      [=](int64_t head) { return n_kv - 1 - head / group; });
  map("gives all query heads the first key-value head", [](int64_t) { return 0; });
  map("gives query head h the key-value head min(h, last)",
      [=](int64_t head) { return std::min(head, n_kv - 1); });
}

void add_shifts(const Network& network, std::vector<BoundMistake>& mistakes) {
  enum class Edge : uint8_t { kClamp, kWrap, kZero };
  struct Which {
    const char* text;
    bool k;
    bool v;
  };
  for (const Which which : {Which{"keys and values", true, true}, Which{"keys", true, false},
                            Which{"values", false, true}}) {
    for (const int64_t by : {-2, -1, 1, 2}) {
      for (const Edge edge : {Edge::kClamp, Edge::kWrap, Edge::kZero}) {
        const auto row = [by, edge](int64_t key, int64_t n_keys) {
          const int64_t shifted = key + by;
          if (edge == Edge::kClamp) return std::clamp<int64_t>(shifted, 0, n_keys - 1);
          if (edge == Edge::kWrap) return (shifted + n_keys) % n_keys;
          return shifted < n_keys ? std::max<int64_t>(shifted, -1) : -1;
        };
        add(
            network, "kv_shift",
            fmt::format("reads the {} of the token {} position{} {}", which.text, std::abs(by),
                        std::abs(by) > 1 ? "s" : "", by < 0 ? "before" : "after"),
            [which, row](AttentionSettings& settings, const Inputs&) {
              if (which.k) settings.k_row = row;
              if (which.v) settings.v_row = row;
            },
            mistakes);
      }
    }
  }
}

void add_roundings(const Network& network, std::vector<BoundMistake>& mistakes) {
  for (const Rounding rounding : kRoundings) {
    mistakes.push_back(plain_mistake(
        "rounding", fmt::format("keeps keys and values in {}", rounding.type),
        [&network, rounding](Op, const Inputs& in) {
          const Matrix k = map(*in.rows[1], rounding.round);
          const Matrix v = map(*in.rows[2], rounding.round);
          return attention(*in.rows[0], k, v, network.attention_settings(), in.wanted);
        }));
  }
  for (const Rounding rounding : kRoundings) {
    for (const bool before : {true, false}) {
      add(
          network, "rounding",
          fmt::format("rounds the attention scores to {}{}", rounding.type,
                      before ? " before they are scaled" : ""),
          [rounding, before](AttentionSettings& settings, const Inputs&) {
            settings.round_score = rounding.round;
            settings.round_before_scale = before;
          },
          mistakes);
    }
  }
}

}  // namespace

void add_attention_mistakes(const Network& network, std::vector<BoundMistake>& mistakes) {
  if (network.n_heads == 0 || network.n_kv_heads == 0 || network.head_dim == 0) return;
  add_scales(network, mistakes);
  add_masks(network, mistakes);
  add_head_maps(network, mistakes);
  add_shifts(network, mistakes);
  add_roundings(network, mistakes);
}

}  // namespace assay::causes
