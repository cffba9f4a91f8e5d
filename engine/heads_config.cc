#include "engine/heads_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "model/hyperparameter_keys.h"

namespace assay {
namespace {

constexpr int64_t kMaxHeadLength = 65536;

// Of latent attention: each head has keys and values of its own, whatever the file says for engines
// that do without. Older files state the lengths of a head as other architectures' do.
void read_latent_heads(const ConfigKeys& keys, ModelConfig& config) {
  using namespace hyperparameter;
  config.kv_lora_rank = keys.count(kKvLoraRank, kMaxModelWidth);
  if (keys.has(kQLoraRank)) config.q_lora_rank = keys.count(kQLoraRank, kMaxModelWidth);
  config.n_kv_heads = config.n_heads;
  const bool own = keys.has(kLatentKeyLength);
  config.head_dim = keys.count(own ? kLatentKeyLength : kKeyLength, kMaxHeadLength);
  config.value_dim = keys.count(own ? kLatentValueLength : kValueLength, kMaxHeadLength,
                                config.embedding_length / config.n_heads);
}

// How many key-value heads those layers have that have attention; 0 if none has. `counted` says
// which of all layers are asked for.
int64_t kv_heads_of(const ConfigKeys& keys, const std::vector<int64_t>& heads, auto counted) {
  constexpr std::string_view kKey = hyperparameter::kHeadCountKv;
  int64_t most = 0;
  for (size_t i = 0; i < heads.size(); ++i) {
    if (counted(i)) most = std::max(most, heads[i]);
  }
  for (size_t i = 0; i < heads.size(); ++i) {
    const int64_t count = heads[i];
    if (count < 0 || count > kMaxHeads) {
      keys.reject(kKey, fmt::format("is {} in a layer, allowed are 0 to {}", count, kMaxHeads));
    }
    if (counted(i) && count != most && count != 0) {
      keys.reject(kKey, fmt::format("is {} in one layer and {} in another", most, count),
                  "Assay runs models with as many key-value heads in all layers with attention");
    }
  }
  return most;
}

void check_divides(const ConfigKeys& keys, int64_t n_kv_heads, int64_t n_heads) {
  if (n_heads % n_kv_heads == 0) return;
  keys.reject(hyperparameter::kHeadCountKv,
              fmt::format("is {}, which does not divide the {} query heads", n_kv_heads, n_heads));
}

void check_values(const ConfigKeys& keys, std::string_view key, const ModelConfig& config,
                  const HeadSizes& sizes) {
  if (sizes.value_dim == sizes.head_dim || config.architecture->value_lengths) return;
  keys.reject(key,
              fmt::format("is {} and the key length {}; Assay runs models where they are equal",
                          sizes.value_dim, sizes.head_dim));
}

void check_same(const ConfigKeys& keys, std::string_view key, int64_t others) {
  const int64_t stated = keys.integer(key, others);
  if (stated == others) return;
  keys.reject(key, fmt::format("is {}, and {} in layers without a window", stated, others),
              "Assay runs models where it is the same in all layers");
}

void read_windowed_base(const ConfigKeys& keys, ModelConfig& config) {
  constexpr std::string_view kKey = hyperparameter::kLocalRopeBase;
  const Architecture& architecture = *config.architecture;
  const double base =
      keys.positive(kKey, architecture.local_rope_base > 0.0 ? architecture.local_rope_base
                                                             : config.rope_freq_base);
  if (architecture.local_rope) {
    config.local_rope_freq_base = base;
  } else if (base != config.rope_freq_base) {
    keys.reject(kKey, fmt::format("is {}", base),
                "Assay knows one rotary base for all layers of this architecture");
  }
}

// Of an architecture that may have them.
HeadSizes own_heads(const ConfigKeys& keys, const std::vector<bool>& windowed,
                    ModelConfig& config) {
  using namespace hyperparameter;
  const std::vector<int64_t> heads = keys.array_of_layers(kHeadCountKv);
  HeadSizes own = config.heads();
  if (!heads.empty()) {
    own.n_kv_heads = kv_heads_of(keys, heads, [&](size_t i) { return windowed[i]; });
    config.n_kv_heads = kv_heads_of(keys, heads, [&](size_t i) { return !windowed[i]; });
    // Of layers that the model lacks, or that have no keys, which is rejected.
    if (own.n_kv_heads == 0) own.n_kv_heads = std::max<int64_t>(1, config.n_kv_heads);
    if (config.n_kv_heads == 0) config.n_kv_heads = own.n_kv_heads;
    check_divides(keys, own.n_kv_heads, config.n_heads);
    check_divides(keys, config.n_kv_heads, config.n_heads);
  }
  own.head_dim = keys.count(kWindowedKeyLength, kMaxHeadLength, config.head_dim);
  const bool is_usual = own.head_dim == config.head_dim;
  own.value_dim =
      keys.count(kWindowedValueLength, kMaxHeadLength, is_usual ? config.value_dim : own.head_dim);
  check_values(keys, kWindowedValueLength, config, own);
  own.rotary_dim = keys.count(kWindowedRopeDimensions, own.head_dim,
                              is_usual ? config.rotary_dim : own.head_dim);
  if (own.rotary_dim % 2 != 0) {
    keys.reject(kWindowedRopeDimensions, fmt::format("is {}, which is odd", own.rotary_dim));
  }
  return own;
}

}  // namespace

void read_heads(const ConfigKeys& keys, ModelConfig& config) {
  if (!has_checkpoint(*config.architecture, Checkpoint::kAttn)) {  // some that nothing reads
    config.n_heads = config.n_kv_heads = 1;
    config.head_dim = config.value_dim = config.rotary_dim = 2;
    return;
  }
  config.n_heads = keys.count_of_layers(hyperparameter::kHeadCount, kMaxHeads);
  if (has_checkpoint(*config.architecture, Checkpoint::kKvA)) {
    return read_latent_heads(keys, config);
  }
  const std::vector<int64_t> heads = keys.array_of_layers(hyperparameter::kHeadCountKv);
  const bool may_differ = config.architecture->windowed_heads && !heads.empty();
  if (heads.empty()) {
    config.n_kv_heads = keys.count(hyperparameter::kHeadCountKv, kMaxHeads, config.n_heads);
  } else if (!may_differ) {
    config.n_kv_heads = kv_heads_of(keys, heads, [](size_t) { return true; });
  }
  if (config.n_kv_heads == 0) config.n_kv_heads = config.n_heads;  // no layer has attention
  check_divides(keys, config.n_kv_heads, config.n_heads);
  if (!keys.has(hyperparameter::kKeyLength) && config.embedding_length % config.n_heads != 0) {
    keys.reject(hyperparameter::kHeadCount, fmt::format("is {}, which does not divide the width {}",
                                                        config.n_heads, config.embedding_length));
  }
  config.head_dim = keys.count(hyperparameter::kKeyLength, kMaxHeadLength,
                               std::max<int64_t>(1, config.embedding_length / config.n_heads));
  config.value_dim = keys.count(hyperparameter::kValueLength, kMaxHeadLength, config.head_dim);
  check_values(keys, hyperparameter::kValueLength, config, config.heads());
}

std::optional<HeadSizes> read_windowed_heads(const ConfigKeys& keys,
                                             const std::vector<bool>& windowed,
                                             ModelConfig& config) {
  const bool any = std::ranges::find(windowed, true) != windowed.end();
  if (any) read_windowed_base(keys, config);
  if (config.architecture->windowed_heads) {
    const HeadSizes own = own_heads(keys, windowed, config);
    return any && own != config.heads() ? std::optional(own) : std::nullopt;
  }
  if (!any) return std::nullopt;
  check_same(keys, hyperparameter::kWindowedKeyLength, config.head_dim);
  check_same(keys, hyperparameter::kWindowedValueLength, config.value_dim);
  check_same(keys, hyperparameter::kWindowedRopeDimensions, config.rotary_dim);
  return std::nullopt;
}

void read_index(const ConfigKeys& keys, ModelConfig& config) {
  using namespace hyperparameter;
  if (!has_checkpoint(*config.architecture, Checkpoint::kIndexed)) return;
  config.index.n_heads = keys.count(kIndexHeads, kMaxHeads);
  config.index.head_dim = keys.count(kIndexKeyLength, kMaxHeadLength);
  if (config.index.head_dim < config.rotary_dim) {
    keys.reject(kIndexKeyLength, fmt::format("is {}, less than the {} elements that are rotated",
                                             config.index.head_dim, config.rotary_dim));
  }
  config.index.top_k =
      std::min(keys.count(kIndexTopK, std::numeric_limits<int32_t>::max()), config.context_length);
}

int index_layer_of(const ConfigKeys& keys, const ModelConfig& config, int64_t number,
                   std::span<const OpSpec> layer) {
  if (config.index.n_heads == 0) return -1;
  const bool own = find_spec(layer, Checkpoint::kIndexed) != nullptr;
  const std::vector<int64_t> stated = keys.array_of_layers(hyperparameter::kIndexTypes);
  if (!stated.empty() && own != (stated[static_cast<size_t>(number)] != 0)) {
    keys.reject(hyperparameter::kIndexTypes,
                fmt::format("is {} in layer {}, which {} tensors of an indexer",
                            own ? "false" : "true", number, own ? "has" : "lacks"));
  }
  if (own) return -1;
  for (int64_t other = number; other-- > 0;) {
    if (find_spec(config.layer(other).ops, Checkpoint::kIndexed) != nullptr) {
      return static_cast<int>(other);
    }
  }
  throw Error(fmt::format("tensor 'blk.{}.indexer.attn_k.weight' is missing", number),
              keys.gguf().path(), "no earlier layer chooses the positions that this one sees");
}

void check_attention(const ConfigKeys& keys, std::span<const int64_t> heads, int64_t number,
                     std::span<const OpSpec> layer) {
  const bool attends = find_spec(layer, Checkpoint::kAttn) != nullptr;
  if (heads.empty() || attends == (heads[static_cast<size_t>(number)] > 0)) return;
  keys.reject(hyperparameter::kHeadCountKv,
              fmt::format("is {} in layer {}, which {} attention",
                          heads[static_cast<size_t>(number)], number, attends ? "has" : "lacks"));
}

}  // namespace assay
