#include "engine/hf/windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "engine/hf/linear_attention.h"
#include "engine/hf/mamba.h"
#include "engine/hf/parts.h"
#include "engine/hf/rope_config.h"
#include "model/hyperparameter_keys.h"

namespace assay {
namespace {

// What a kind of window is called, as a key and as a type of layers.
struct WindowNames {
  const char* key;
  std::string_view type;
};
WindowNames names_of(const HfConfig& config) {
  if (config.model->window != HfWindow::kChunked) return {"sliding_window", "sliding_attention"};
  return {"attention_chunk_size", "chunked_attention"};
}

constexpr char kPrefixPattern[] = "prefix_dense_sliding_window_pattern";
constexpr char kWindowAndOne[] = "sliding_window_size";

// By a rule that the class has where config.json lists no layers; else empty.
std::vector<bool> windowed_by_rule(const ConfigObject& object, const HfConfig& config) {
  const HfWindow kind = config.model->window;
  std::vector<bool> windowed;
  const bool is_prefixed = kind == HfWindow::kPrefixed;
  const bool is_counted = kind == HfWindow::kSixths || kind == HfWindow::kFifths;
  if (!is_prefixed && !is_counted && kind != HfWindow::kFourths) return windowed;
  const int64_t prefix =
      is_prefixed ? object.whole_or_zero("first_k_dense_replace", kMaxLayers, 0) : 0;
  const int64_t of_prefix = is_prefixed ? object.whole({kPrefixPattern}, kMaxLayers) : 1;
  const int64_t of_others = is_prefixed ? object.whole({"sliding_window_pattern"}, kMaxLayers)
                            : kind == HfWindow::kSixths ? 6
                            : kind == HfWindow::kFifths ? 5
                                                        : 4;
  for (int64_t i = 0; i < config.n_layers; ++i) {
    const bool is_of_prefix = i < prefix;
    const int64_t number = kind == HfWindow::kFourths ? i : i + 1 - (is_of_prefix ? 0 : prefix);
    const bool is_first = kind == HfWindow::kSixths && i == 0;
    windowed.push_back(!is_first && number % (is_of_prefix ? of_prefix : of_others) != 0);
  }
  return windowed;
}

// Which layers have the window; empty where config.json leaves that to the architecture.
std::vector<bool> windowed_layers(const ConfigObject& object, const HfConfig& config) {
  std::vector<bool> windowed;
  const WindowNames names = names_of(config);
  const bool has_conv = has_checkpoint(*config.architecture, Checkpoint::kConv);
  const bool has_linear = has_checkpoint(*config.architecture, Checkpoint::kDelta);
  const bool has_mamba = has_checkpoint(*config.architecture, Checkpoint::kSsm);
  const bool is_indexed = has_checkpoint(*config.architecture, Checkpoint::kIndexed);
  for (const std::string& type : layer_types(object)) {
    const bool may_be_ffn = has_layers_without_feed_forward(*config.architecture);
    const bool is_ffn = is_feed_forward(type) || is_of_experts(type);
    if (has_mamba && (is_mamba(type) || is_attention(type) || (may_be_ffn && is_ffn))) {
      windowed.push_back(false);
      continue;
    }
    if (type != names.type && type != "full_attention" && !(has_conv && type == kConvLayer) &&
        !(has_linear && type == kLinearLayer) && !(is_indexed && type == "indexed_attention")) {
      object.refuse("layer_types", fmt::format("has a layer of type '{}'", type),
                    fmt::format("Assay computes full_attention and {}", names.type));
    }
    windowed.push_back(type == names.type);
  }
  const auto count = static_cast<size_t>(config.n_layers);
  if (!windowed.empty() && windowed.size() != count) {
    object.refuse("layer_types",
                  fmt::format("has {} entries for {} layers", windowed.size(), count));
  }
  if (config.model->last_without_window) {
    for (auto i = std::ssize(windowed); i < config.n_layers; ++i) {
      windowed.push_back((i + 1) % config.architecture->window_period != 0);
    }
    windowed.back() = false;
  }
  if (windowed.empty()) windowed = windowed_by_rule(object, config);
  if (!windowed.empty() || config.model->window == HfWindow::kSome) return windowed;
  if (config.model->window == HfWindow::kChunked) return rotated_layers(object, config);
  if (config.model->window == HfWindow::kListed) {
    windowed.resize(count);
    return windowed;
  }
  const bool has_first = object.default_of("max_window_layers") != nullptr;  // qwen2, qwen3
  const int64_t first = has_first ? object.whole_or_zero("max_window_layers", kMaxWidth) : 0;
  const bool even = config.model->window == HfWindow::kEven;
  for (int64_t i = 0; i < config.n_layers; ++i) {
    windowed.push_back(even ? i % 2 == 0 && i < first : i >= first);
  }
  return windowed;
}

// Of a list of numbers 0 and 1.
bool says_the_same(const rapidjson::Value& listed, const std::vector<bool>& layers) {
  return listed.IsArray() && std::equal(listed.Begin(), listed.End(), layers.begin(), layers.end(),
                                        [](const rapidjson::Value& each, bool layer) {
                                          return each.IsInt() && each.GetInt() == (layer ? 1 : 0);
                                        });
}

}  // namespace

std::vector<bool> rotated_layers(const ConfigObject& object, const HfConfig& config) {
  constexpr char kList[] = "no_rope_layers";
  constexpr char kInterval[] = "no_rope_layer_interval";
  const rapidjson::Value* listed = object.find(kList);
  std::vector<bool> rotated;
  // Cohere's leading layers are, unless they may have windows.
  if (config.architecture->rotated == Rotated::kWindowedOrDense &&
      object.whole({kPrefixPattern}, kMaxLayers) != 1) {
    rotated = config.windowed;
  }
  for (const double base : bases_of_layers(object, config)) rotated.push_back(base != 0.0);
  if (config.architecture->unrotated_period == 0) {
    if (listed != nullptr && !says_the_same(*listed, rotated))
      object.refuse(kList, "does not belong to this model_type");
    return rotated;
  }
  if (listed == nullptr) {
    if (object.find(kInterval) == nullptr) return rotated;
    const int64_t interval = object.whole({kInterval}, kMaxWidth);
    for (int64_t i = 1; i <= config.n_layers; ++i) rotated.push_back(i % interval != 0);
  } else if (listed->IsArray()) {
    for (const auto& each : listed->GetArray()) {
      if (!each.IsInt() || each.GetInt() < 0 || each.GetInt() > 1) break;
      rotated.push_back(each.GetInt() == 1);
    }
  }
  if (std::ssize(rotated) != config.n_layers || (listed != nullptr && !listed->IsArray()) ||
      (listed != nullptr && listed->Size() != rotated.size())) {
    object.refuse(kList, fmt::format("is not {} numbers 0 or 1", config.n_layers));
  }
  return rotated;
}

void read_window(const ConfigObject& object, HfConfig& config, Keys& keys) {
  const HfWindow kind = config.model->window;
  const char* const key = names_of(config).key;
  const bool used = kind != HfWindow::kNone && object.find(key) != nullptr &&
                    ((kind != HfWindow::kFlagged && kind != HfWindow::kEven) ||
                     object.flag("use_sliding_window"));
  const std::vector<bool> windowed = windowed_layers(object, config);
  const bool asked = std::ranges::find(windowed, true) != windowed.end();
  if (!used) {
    if (asked && object.find("layer_types") != nullptr) {
      object.refuse(
          "layer_types", "has layers with a window, and the model has none",
          fmt::format("{} is missing, not used, or not computed for this model_type", key));
    }
    // Files that do not state it get the architecture's; no layer is to have that.
    if (config.architecture->default_window > 0) {
      keys.flags(hyperparameter::kWindowPattern,
                 std::vector<bool>(static_cast<size_t>(config.n_layers)));
    }
    const bool by_rule = asked && !windowed_by_rule(object, config).empty();
    if (by_rule || config.model->model_type == "cohere2" || config.model->model_type == "olmo3" ||
        config.model->model_type == "afmoe") {
      object.refuse("sliding_window", "is null", "Assay runs it with a window only");
    }
    return;
  }
  if (config.architecture->unrotated_period > 0 && kind == HfWindow::kFlagged &&
      object.find("layer_types") == nullptr) {  // smollm3, whose class derives them
    object.refuse("layer_types", "is missing", "it has to say which layers have the window");
  }
  const bool is_without_own = kind == HfWindow::kSixths && object.find(kWindowAndOne) != nullptr;
  keys.whole(hyperparameter::kSlidingWindow,
             is_without_own ? object.whole({kWindowAndOne}, kMostPositions - 1) + 1
                            : object.whole({key}, kMostPositions));
  if (config.architecture->sliding_window != SlidingWindow::kHonoured) {
    keys.own_flag(hyperparameter::own::kHonoursWindow, true);
  }
  config.windowed = windowed;
  if (!windowed.empty()) {
    const bool all = std::ranges::find(windowed, false) == windowed.end();
    if (all && config.architecture->window_period == 0) return;
    return keys.flags(hyperparameter::kWindowPattern, windowed);
  }
  const KeyNames pattern = {"sliding_window_pattern", "_sliding_window_pattern"};
  if (object.find(object.present(pattern)) != nullptr) {
    keys.whole(hyperparameter::kWindowPattern, object.whole(pattern, kMaxLayers));
  }
}

}  // namespace assay
