#include "engine/hf/windowed_heads.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json_file.h"
#include "engine/model_config.h"
#include "model/hyperparameter_keys.h"

namespace assay {
namespace {

constexpr int64_t kLongestHead = 65536;
constexpr int64_t kUsualHeadLength = 512;  // that transformers takes where nothing is stated
constexpr char kOfLayers[] = "per_layer_config";
constexpr char kHeadDim[] = "head_dim";
constexpr char kKvHeads[] = "num_key_value_heads";
constexpr char kWholeHeadDim[] = "global_head_dim";

struct Heads {
  int64_t length = 0;
  int64_t count = 0;
  bool operator==(const Heads&) const = default;
};

// What per_layer_config has of a layer, the rest being that of all layers.
Heads heads_of_entry(const ConfigObject& entry, const Heads& usual) {
  for (const auto& member : entry.json().GetObject()) {
    const std::string name = json_text_of(member.name);
    if (name == kHeadDim || name == kKvHeads) continue;
    entry.refuse(name, "asks for what Assay does not compute");
  }
  return {entry.whole({kHeadDim}, kLongestHead, usual.length),
          entry.whole({kKvHeads}, kMaxHeads, usual.count)};
}

// Of the layers without a window, by per_layer_config: all must have the same, and those with a
// window the usual ones.
Heads heads_by_layer(const ConfigObject& all, const HfConfig& config, const Heads& usual) {
  std::vector<Heads> heads(config.windowed.size(), usual);
  for (const auto& member : all.json().GetObject()) {
    const std::string name = json_text_of(member.name);
    size_t layer = heads.size();
    const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), layer);
    if (failed != std::errc() || end != name.data() + name.size() || layer >= heads.size()) {
      all.refuse(name, fmt::format("is not the number of one of {} layers", heads.size()));
    }
    const ConfigObject entry(member.value, fmt::format("{}, {}", all.where(), name));
    heads[layer] = heads_of_entry(entry, usual);
  }
  std::optional<Heads> whole;
  for (size_t i = 0; i < heads.size(); ++i) {
    const Heads& wanted = config.windowed[i] ? usual : whole.value_or(heads[i]);
    if (heads[i] != wanted) {
      all.refuse(std::to_string(i), "has other heads than layers of its kind",
                 "Assay runs models with one size and number of heads in all layers with a window, "
                 "and one in all others");
    }
    if (!config.windowed[i]) whole = heads[i];
  }
  return whole.value_or(usual);
}

Heads whole_heads(const ConfigObject& object, const HfConfig& config, const Heads& usual) {
  if (const rapidjson::Value* all = object.find(kOfLayers)) {
    const ConfigObject entries(*all, fmt::format("{}, {}", object.where(), kOfLayers));
    return heads_by_layer(entries, config, usual);
  }
  if (object.states(kWholeHeadDim) && object.find(kWholeHeadDim) == nullptr) {
    object.refuse(kWholeHeadDim, "is null", kConfigHint);
  }
  Heads whole = usual;
  whole.length = object.whole({kWholeHeadDim}, kLongestHead, kUsualHeadLength);
  if (config.keys_as_values) {
    whole.count = object.whole({"num_global_key_value_heads"}, kMaxHeads, usual.count);
  }
  return whole;
}

// Layers that read keys and values of others, which may be twice as wide, and embeddings of each
// layer. Where there are none the keys are 0, without which llama.cpp loads no file.
void read_layers_that_share(const ConfigObject& object, HfConfig& config, Keys& keys) {
  constexpr char kVocabulary[] = "vocab_size_per_layer_input";
  config.n_shared_kv_layers = object.whole_or_zero("num_kv_shared_layers", config.n_layers - 1, 0);
  config.ple_length = object.whole_or_zero("hidden_size_per_layer_input", kMaxWidth, 0);
  if (config.ple_length > 0 && object.whole({kVocabulary}, kMaxWidth) != config.n_vocab) {
    object.refuse(kVocabulary, fmt::format("is not vocab_size, {}", config.n_vocab),
                  "Assay runs models whose layers have embeddings of all tokens");
  }
  keys.whole(hyperparameter::kSharedKvLayers, config.n_shared_kv_layers);
  keys.whole(hyperparameter::kLayerEmbeddingLength, config.ple_length);
  if (!object.flag("use_double_wide_mlp")) return;
  std::vector<int32_t> lengths;
  for (int64_t layer = 0; layer < config.n_layers; ++layer) {
    const int64_t times = config.shares_kv(layer) ? 2 : 1;
    lengths.push_back(static_cast<int32_t>(times * config.feed_forward_length));
  }
  keys.wholes(hyperparameter::kFeedForwardLength, lengths);
}

// Of networks whose layers with a window have twice as many heads of keys and values, and whose
// values have a length of their own (MiMo-V2-Flash). Published files state both under keys that
// transformers does not read.
void read_doubled_heads(const ConfigObject& object, const HfConfig& config, Keys& keys) {
  const int64_t doubled = 2 * config.n_kv_heads;
  const int64_t of_values = object.whole({"v_head_dim"}, kLongestHead);
  if (config.n_heads % doubled != 0) {
    object.refuse(kKvHeads, fmt::format("is {}, and twice that does not divide the {} heads",
                                        config.n_kv_heads, config.n_heads));
  }
  const std::pair<const char*, int64_t> others[] = {{"swa_num_attention_heads", config.n_heads},
                                                    {"swa_num_key_value_heads", doubled},
                                                    {"swa_head_dim", config.head_dim},
                                                    {"swa_v_head_dim", of_values}};
  for (const auto& [key, value] : others) {
    if (object.whole({key}, kLongestHead, value) == value) continue;
    object.refuse(key, fmt::format("is not {}, which transformers takes it for", value));
  }
  keys.whole(hyperparameter::kKeyLength, config.head_dim);
  keys.whole(hyperparameter::kValueLength, of_values);
  std::vector<int32_t> counts;
  for (const bool windowed : config.windowed) {
    counts.push_back(static_cast<int32_t>(windowed ? doubled : config.n_kv_heads));
  }
  if (!counts.empty()) keys.wholes(hyperparameter::kHeadCountKv, counts);
  keys.real(hyperparameter::kValueScale, object.positive({"attention_value_scale"}, 1.0));
}

}  // namespace

void read_windowed_heads(const ConfigObject& object, HfConfig& config, Keys& keys) {
  if (config.architecture->value_lengths) return read_doubled_heads(object, config, keys);
  config.keys_as_values = object.flag("attention_k_eq_v");
  const Heads usual = {config.head_dim, config.n_kv_heads};
  const Heads whole = whole_heads(object, config, usual);
  config.head_dim = whole.length;
  keys.whole(hyperparameter::kKeyLength, whole.length);
  keys.whole(hyperparameter::kValueLength, whole.length);
  keys.whole(hyperparameter::kWindowedKeyLength, usual.length);
  keys.whole(hyperparameter::kWindowedValueLength, usual.length);
  keys.whole(hyperparameter::kWindowedRopeDimensions, usual.length);
  std::vector<int32_t> counts;
  for (const bool windowed : config.windowed) {
    counts.push_back(static_cast<int32_t>(windowed ? usual.count : whole.count));
  }
  keys.wholes(hyperparameter::kHeadCountKv, counts);
  read_layers_that_share(object, config, keys);
}

}  // namespace assay
