#include "engine/xielu_config.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "model/hyperparameter_keys.h"

namespace assay {
namespace {

double softplus(double x) {
  return x > 20.0 ? x : std::log1p(std::exp(x));
}

std::vector<double> of_layers(const Gguf& gguf, std::string_view key, size_t n_layers) {
  const GgufValue* value = gguf.find(key);
  const auto reject = [&](const std::string& why) {
    throw Error(fmt::format("key '{}' {}", key, why), gguf.path(),
                "the file is damaged: convert or fetch it again");
  };
  if (value == nullptr) reject("is missing");
  std::vector<double> numbers(n_layers);
  if (std::holds_alternative<GgufArray>(*value)) {
    numbers = gguf.get_floats(key);
    if (numbers.size() != n_layers) {
      reject(fmt::format("has {} entries for {} layers", numbers.size(), n_layers));
    }
  } else {
    numbers.assign(n_layers, gguf.get_float(key));
  }
  for (const double number : numbers) {
    if (!(std::abs(number) <= std::numeric_limits<float>::max())) {
      reject(fmt::format("has {}, which is not a finite 32-bit float", number));
    }
  }
  return numbers;
}

}  // namespace

void read_xielu(const Gguf& gguf, ModelConfig& config) {
  const size_t n_layers = config.layers.size();
  const auto& keys = hyperparameter::kXieluKeys;
  const std::vector<double> alpha_p = of_layers(gguf, keys[0], n_layers);
  const std::vector<double> alpha_n = of_layers(gguf, keys[1], n_layers);
  const std::vector<double> beta = of_layers(gguf, keys[2], n_layers);
  const std::vector<double> eps = of_layers(gguf, keys[3], n_layers);
  for (size_t i = 0; i < n_layers; ++i) {
    config.layers[i].xielu = {.alpha_p = static_cast<float>(softplus(alpha_p[i])),
                              .alpha_n = static_cast<float>(beta[i] + softplus(alpha_n[i])),
                              .beta = static_cast<float>(beta[i]),
                              .eps = static_cast<float>(eps[i])};
  }
}

}  // namespace assay
