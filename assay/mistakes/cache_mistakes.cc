#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "assay/mistakes/mistake.h"
#include "assay/mistakes/number_text.h"
#include "kernels/quantize/quantize.h"
#include "kernels/reference/dequantize.h"
#include "kernels/reference/reference.h"

// What the cache of keys and values holds: which slot has which token's, and in which type.
namespace assay::mistakes {
namespace {

using reference::AttentionVariant;

constexpr FaultGroup kCache = FaultGroup::kCache;

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
             .reads_ahead = by > 0 || edge == SlotEdge::kWrap,
             .faults = injected ? std::vector<Injected>{which.fault} : std::vector<Injected>()});
      }
    }
  }
  return mistakes;
}

// Of a cache that begins anew where tokens come one by one.
Mistake late_slots_after_prompt() {
  return {.cause = "kv_shift",
          .text = plainly("reads the keys and values after the prompt one position late"),
          .edit = varied([](AttentionVariant& variant, const OpContext& context) {
            const auto late = [prompt = context.n_together](int64_t key) {
              return key < prompt ? key : key - 1;
            };
            variant.k_row = late;
            variant.v_row = late;
          }),
          .possible = [](const Network& network, Op) { return network.n_prompt > 0; },
          .faults = {{"kv-late-after-prompt", kCache,
                      "keys and values after the prompt are one slot late", Checkpoint::kAttn}}};
}

// Positions that a cache may have room for.
std::vector<double> rooms() {
  std::vector<double> all;
  for (int room = 2; room <= 32; ++room) all.push_back(room);
  for (const int room : {40, 48, 56, 64, 96, 128, 192, 256, 384, 512, 768}) all.push_back(room);
  for (int room = 1024; room <= 8192; room *= 2) all.push_back(room);
  return all;
}

// Room that is smaller than the prompt.
std::vector<double> rooms_within_prompt(const Network& network) {
  std::vector<double> all = rooms();
  std::erase_if(all, [&](double room) { return room >= static_cast<double>(network.n_prompt); });
  return all;
}

// As a ring, whose oldest entries the newest replace, while positions are counted on: each of the
// lost ones is read as the one that is there. `after_prompt`: the prompt's tokens are attended to
// before they are stored.
Mistake ring_mistake(bool after_prompt) {
  Mistake mistake{
      .cause = "kv_ring",
      .text =
          [after_prompt](const Network&, double room) {
            return fmt::format(
                "keeps the last {:.0f} keys and values, and reads those in the place of the ones "
                "before them, too{}",
                room, after_prompt ? ", after the prompt" : "");
          },
      .edit = varied([after_prompt](AttentionVariant& variant, const OpContext& context) {
        const auto room = static_cast<int64_t>(context.parameter);
        const int64_t right_below = after_prompt ? context.n_together : 0;
        variant.read = [room, right_below](int64_t query, int64_t key) {
          return query < right_below ? key : query - (query - key) % room;
        };
      }),
      .grid = [](const Network&) { return rooms(); }};
  if (after_prompt) {
    mistake.possible = [](const Network& network, Op) {
      return !rooms_within_prompt(network).empty();
    };
    mistake.grid = rooms_within_prompt;
  }
  return mistake;
}

// Without room for what comes later.
Mistake full_cache_mistake() {
  return {.cause = "kv_ring",
          .text =
              [](const Network&, double room) {
                return fmt::format(
                    "keeps the first {:.0f} keys and values, and of those after them the newest",
                    room - 1);
              },
          .edit = varied([](AttentionVariant& variant, const OpContext& context) {
            const auto last = static_cast<int64_t>(context.parameter) - 1;
            variant.read = [last](int64_t query, int64_t key) {
              return key < last ? key : std::max(query, key);
            };
            const int64_t window = context.network.attention_shape(context.op()).window;
            variant.sees = [last, window](int64_t query, int64_t key) {
              const bool is_in_window = window == 0 || key > query - window;
              return key <= std::min(query, last) && is_in_window;
            };
          }),
          .grid = [](const Network&) { return rooms(); }};
}

// A type that a cache is kept in.
struct CacheType {
  std::string name;
  AttentionVariant::RoundRow round;
  int64_t block = 1;  // elements of a row are a multiple
};

AttentionVariant::RoundRow for_each(float (*round)(float)) {
  return [round](std::span<float> row, int64_t) {
    std::transform(row.begin(), row.end(), row.begin(), round);
  };
}

// To whole numbers up to 127 times a scale, by which the largest of `part` is one of them.
void round_to_int8(std::span<float> part) {
  float largest = 0.0F;
  for (const float value : part) largest = std::max(largest, std::abs(value));
  const float scale = largest / 127.0F;
  if (!(scale > 0.0F)) return;
  for (float& value : part) value = std::nearbyint(value / scale) * scale;
}

void round_heads_to_int8(std::span<float> row, int64_t head_dim) {
  const auto dim = static_cast<size_t>(head_dim);
  for (size_t at = 0; at < row.size(); at += dim) round_to_int8(row.subspan(at, dim));
}

CacheType blocks_of(TensorType type) {
  const TensorTypeInfo& info = tensor_type_info(type);
  return {std::string(info.name),
          [type](std::span<float> row, int64_t) {
            constexpr float kLargest = 65504.0F;  // that quantize_row() takes
            if (!std::ranges::all_of(row, [](float x) { return std::abs(x) <= kLargest; })) return;
            const auto count = std::ssize(row);
            std::vector<std::byte> bytes(row_bytes(type, count));
            quantize_row(type, row.data(), count, bytes.data());
            dequantize_row(type, bytes.data(), count, row.data());
          },
          static_cast<int64_t>(info.block_elements)};
}

std::vector<CacheType> cache_types() {
  std::vector<CacheType> types;
  for (const Rounding& rounding : kRoundings)
    types.push_back({rounding.type, for_each(rounding.round)});
  for (const Rounding& rounding : kFp8Roundings) {
    types.push_back({rounding.type, for_each(rounding.round)});
  }
  types.push_back({"int8 with a scale for each head", round_heads_to_int8});
  types.push_back({"int8 with a scale for each token",
                   [](std::span<float> row, int64_t) { round_to_int8(row); }});
  for (const TensorType type : {TensorType::kQ8_0, TensorType::kQ5_1, TensorType::kQ5_0,
                                TensorType::kQ4_1, TensorType::kQ4_0}) {
    types.push_back(blocks_of(type));
  }
  return types;
}

std::string needs_cache_of_blocks(const Model& model) {
  const ModelConfig& config = model.config();
  const bool fits = std::ranges::all_of(config.layers, [&](const LayerConfig& layer) {
    return config.width(Width::kKv, layer) % 32 == 0 &&
           config.width(Width::kValues, layer) % 32 == 0;
  });
  return fits ? "" : "its keys or values are no multiple of a block";
}

std::string needs_like_keys_and_values(const Model& model) {
  const ModelConfig& config = model.config();
  return config.attention_shape(0).value_dim() == config.head_dim
             ? ""
             : "its values have another size than its keys";
}

std::vector<Injected> faults_of(const CacheType& type, bool k, bool v) {
  if (!k || !v) return {};
  const auto fault = [](const char* name, const char* what, UnsupportedReason reason = any_model) {
    return std::vector<Injected>{{name, kCache, what, Checkpoint::kAttn, std::move(reason)}};
  };
  if (type.name == "f16") return fault("kv-f16", "the cache is rounded to float16");
  if (type.name == kFp8Roundings[1].type) {
    return fault("kv-e5m2", "the cache is rounded to 8-bit floats (e5m2)");
  }
  if (type.name == "int8 with a scale for each head") {
    return fault("kv-int8", "the cache is rounded to 8 bits, each head with a scale");
  }
  if (type.name == "Q8_0") {
    return fault("kv-q8-0", "the cache is rounded to Q8_0", needs_cache_of_blocks);
  }
  return {};
}

std::vector<Mistake> type_mistakes() {
  struct Which {
    const char* text;
    bool k;
    bool v;
  };
  std::vector<Mistake> mistakes;
  for (const Which& which : {Which{"keys and values", true, true}, Which{"keys", true, false},
                             Which{"values", false, true}}) {
    for (const CacheType& type : cache_types()) {
      mistakes.push_back(
          {.cause = "rounding",
           .text = plainly(fmt::format("keeps {} in {}", which.text, type.name)),
           .edit = varied([round = type.round, which](AttentionVariant& variant, const OpContext&) {
             if (which.k) variant.round_k = round;
             if (which.v) variant.round_v = round;
           }),
           .possible =
               [block = type.block](const Network& network, Op) {
                 return network.n_kv_heads * network.head_dim % block == 0 &&
                        network.n_kv_heads * network.value_dim() % block == 0;
               },
           .faults = faults_of(type, which.k, which.v)});
    }
  }
  return mistakes;
}

// A cache in 8 bits holds numbers that were divided by a scale. Not applied when they are read, or
// not when they are written, it is a factor of what is read.
Mistake scale_mistake_of_cache() {
  return {.cause = "kv_scale",
          .text =
              [](const Network&, double by) {
                return fmt::format("reads keys and values {} times as large as they are",
                                   number_unlike(by, 1, 4));
              },
          .edit = varied([](AttentionVariant& variant, const OpContext& context) {
            const auto by = static_cast<float>(context.parameter);
            const auto multiply = [by](std::span<float> row, int64_t) {
              for (float& value : row) value *= by;
            };
            variant.round_k = multiply;
            variant.round_v = multiply;
          }),
          .grid = among(ratios(1e-3, 1e3, 60)),
          .refine = true,
          .faults = {{"kv-scale-missing", kCache, "keys and values are read 8 times as large",
                      Checkpoint::kAttn, any_model, with(8)}}};
}

// What the op of another layer gives at all positions, from what is known of that layer; nothing
// where that is too little.
std::shared_ptr<const Matrix> rows_of(const OpContext& context, Op op, int64_t n_rows) {
  const Network& network = context.network;
  auto known = context.inputs.other(op);
  if (known && known->rows == n_rows) return known;
  const std::vector<Op> reads = network.inputs(op);
  if (reads.empty() || !network.can_compute(op)) return nullptr;
  Inputs inputs{.other = context.inputs.other};
  std::vector<int64_t> columns;
  for (const Op input : reads) {
    const bool is_own = input.layer == op.layer;
    auto rows = is_own ? rows_of(context, input, n_rows) : context.inputs.other(input);
    if (!rows || rows->rows != n_rows) return nullptr;
    columns.push_back(rows->columns);
    inputs.rows.push_back(rows.get());
    inputs.held.push_back(std::move(rows));
  }
  if (!network.columns(op, columns)) return nullptr;
  for (int64_t t = 0; t < n_rows; ++t) inputs.positions.push_back(t);
  return std::make_shared<Matrix>(network.compute(op, inputs));
}

// Whose keys and values a layer reads.
int kv_layer(const Network& network, int layer) {
  return network.model == nullptr ? layer
                                  : static_cast<int>(network.model->config().kv_layer(layer));
}

void attend_to_other_layer(const OpContext& context, AttentionCall call, Kernels& kernels) {
  const int layer =
      kv_layer(context.network, context.site.layer) - static_cast<int>(context.parameter);
  const std::vector<const Matrix*>& own = context.inputs.rows;
  std::shared_ptr<const Matrix> k;
  std::shared_ptr<const Matrix> v;
  if (layer >= 0 && find_spec(context.network.layer(layer), Checkpoint::kAttn) != nullptr) {
    const std::vector<Op> reads = context.network.inputs({Checkpoint::kAttn, layer});
    k = rows_of(context, reads[1], own[1]->rows);
    v = rows_of(context, reads[2], own[2]->rows);
  }
  if (k && v && k->columns == own[1]->columns && v->columns == own[2]->columns) {
    call.kv.k = k->values.data();
    call.kv.v = v->values.data();
  }
  kernels.run(call);
}

// The first layer that reads an earlier one's keys and values, and the layer before that which has
// keys and values of the same kind; -1 where there are none.
std::pair<int, int> shared_and_earlier(const ModelConfig& config) {
  for (int layer = 0; layer < config.n_layers; ++layer) {
    const int own = config.layer(layer).kv_layer;
    for (int other = own; other-- > 0;) {
      if (config.layer(other).window != config.layer(own).window) continue;
      return {layer, other};
    }
  }
  return {-1, -1};
}

bool shares_kv(const ModelConfig& config) {
  return std::ranges::any_of(config.layers,
                             [](const LayerConfig& layer) { return layer.kv_layer >= 0; });
}

// Of a cache that is found by another layer's number.
Mistake other_layer_mistake() {
  return {.cause = "kv_layer",
          .text =
              [](const Network&, double by) {
                return by == 1.0
                           ? std::string("reads the keys and values of the layer before")
                           : fmt::format("reads the keys and values of {:.0f} layers before", by);
              },
          .edit = {.attention = attend_to_other_layer},
          .possible = [](const Network&, Op op) { return op.layer > 0; },
          // Layers of one kind are further apart where others are between them.
          .grid =
              [](const Network& network) {
                const bool shared = network.model != nullptr && shares_kv(network.model->config());
                return shared ? std::vector<double>{1, 2, 3, 4, 5, 6} : std::vector<double>{1, 2};
              }};
}

// Of layers that share keys and values, where the engine has another layer's.
Mistake shared_kv_mistake() {
  return {.cause = "kv_layer",
          .faults = {{.name = "shared-kv-of-earlier-layer",
                      .group = kCache,
                      .what = "a layer that shares keys and values reads those of an earlier one",
                      .at = Checkpoint::kAttn,
                      .unsupported_reason = needs("shared keys and values of several layers",
                                                  [](const ModelConfig& config) {
                                                    return shared_and_earlier(config).first >= 0;
                                                  }),
                      .in_arguments = true,
                      .edit_model = [](Model& model) {
                        const auto [layer, other] = shared_and_earlier(model.config());
                        model.config().layers[static_cast<size_t>(layer)].kv_layer = other;
                        return layer;
                      }}}};
}

// What no comparison names.
std::vector<Mistake> unnamed_cache_mistakes() {
  return {
      {.cause = "kv_swapped",
       .text = plainly("takes keys for values and values for keys"),
       .edit = called([](AttentionCall& call, double) { std::swap(call.kv.k, call.kv.v); }),
       .possible = [](const Network& network,
                      Op) { return network.head_dim == network.value_dim(); },
       .faults = {{"kv-swapped", kCache, "the cache gives K for V and V for K", Checkpoint::kAttn,
                   needs_like_keys_and_values}}},
      {.edit = varied([](AttentionVariant& variant, const OpContext&) {
         variant.k_row = [last = variant.n_keys - 1](int64_t key) {
           return key == last ? std::max<int64_t>(key - 1, 0) : key;
         };
         variant.v_row = variant.k_row;
       }),
       .faults = {{"kv-stale", kCache, "the newest slot still holds the key and value before it",
                   Checkpoint::kAttn}}}};
}

}  // namespace

std::vector<Mistake> cache_mistakes() {
  std::vector<Mistake> mistakes = slot_shift_mistakes();
  mistakes.push_back(late_slots_after_prompt());
  for (const bool after_prompt : {false, true}) mistakes.push_back(ring_mistake(after_prompt));
  mistakes.push_back(full_cache_mistake());
  mistakes.push_back(scale_mistake_of_cache());
  mistakes.push_back(other_layer_mistake());
  mistakes.push_back(shared_kv_mistake());
  for (auto part : {type_mistakes(), unnamed_cache_mistakes()}) {
    for (Mistake& mistake : part) mistakes.push_back(std::move(mistake));
  }
  return mistakes;
}

}  // namespace assay::mistakes
