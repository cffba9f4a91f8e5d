#include "engine/hf/streams.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "kernels/stream_calls.h"
#include "model/hyperparameter_keys.h"

namespace assay {
namespace {

constexpr char kSparsity[] = "activation_sparsity_pattern";

// The y whose erf is x, which lies between -1 and 1: by Newton's steps, from where the slope only
// grows on the way.
double inverse_erf(double x) {
  if (x < 0.0) return -inverse_erf(-x);
  double y = 0.0;
  for (int i = 0; i < 200; ++i) {
    // What is left to 1, which erf itself would round away.
    const double step =
        (std::erfc(y) - (1.0 - x)) * std::exp(y * y) * std::sqrt(std::numbers::pi) / 2.0;
    y += step;
    if (!(std::abs(step) > 1e-16 * y)) break;
  }
  return y;
}

// transformers' default: the first ten of more than ten layers.
std::vector<double> usual_sparsity(const HfConfig& config) {
  constexpr int64_t kFirst = 10;
  std::vector<double> sparsity(static_cast<size_t>(config.n_layers));
  if (config.n_layers > kFirst) std::fill_n(sparsity.begin(), kFirst, 0.95);
  return sparsity;
}

std::vector<double> read_sparsity(const ConfigObject& object, const HfConfig& config) {
  const rapidjson::Value* stated = object.find(kSparsity);
  if (stated == nullptr) return usual_sparsity(config);
  const auto refuse = [&] {
    object.refuse(kSparsity,
                  fmt::format("is not {} numbers from 0 on and below 1", config.n_layers));
  };
  if (!stated->IsArray() || static_cast<int64_t>(stated->Size()) != config.n_layers) refuse();
  std::vector<double> sparsity;
  for (const auto& each : stated->GetArray()) {
    if (!each.IsNumber() || !(each.GetDouble() >= 0.0 && each.GetDouble() < 1.0)) refuse();
    sparsity.push_back(each.GetDouble());
  }
  return sparsity;
}

}  // namespace

float cutoff_of(double sparsity) {
  const float x = 2.0F * static_cast<float>(sparsity) - 1.0F;
  return static_cast<float>(inverse_erf(x)) * std::numbers::sqrt2_v<float>;
}

void read_streams(const ConfigObject& object, HfConfig& config, Keys& keys) {
  config.n_streams = object.whole({"altup_num_inputs"}, StreamsCall::kMostStreams);
  if (config.n_streams < 2) object.refuse("altup_num_inputs", "is 1", "Assay computes 2 or more");
  if (object.whole_or_zero("altup_active_idx", config.n_streams - 1) != 0) {
    object.refuse("altup_active_idx", "is not 0",
                  "Assay computes networks whose first stream goes through the layers");
  }
  if (!object.flag("altup_correct_scale")) {
    object.refuse("altup_correct_scale", "is false",
                  "Assay computes it with altup.correct_output_scale");
  }
  config.laurel_rank = object.whole({"laurel_rank"}, kMaxWidth);
  config.n_shared_kv_layers = object.whole_or_zero("num_kv_shared_layers", config.n_layers - 1);
  config.ple_length = object.whole({"hidden_size_per_layer_input"}, kMaxWidth);
  config.ple_tokens = object.whole({"vocab_size_per_layer_input"}, config.n_vocab);
  std::vector<float> cutoffs;
  for (const double sparsity : read_sparsity(object, config)) {
    cutoffs.push_back(sparsity > 0.0 ? cutoff_of(sparsity)
                                     : -std::numeric_limits<float>::infinity());
  }
  keys.whole(hyperparameter::kStreamCount, config.n_streams);
  keys.whole(hyperparameter::kActiveStream, 0);
  keys.reals(hyperparameter::kCutoffs, cutoffs);
  keys.whole(hyperparameter::kSharedKvLayers, config.n_shared_kv_layers);
  keys.whole(hyperparameter::kLayerEmbeddingLength, config.ple_length);
}

}  // namespace assay
