#include "engine/config_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "engine/model_config.h"
#include "model/hyperparameter_keys.h"

namespace assay {

ConfigKeys::ConfigKeys(const Gguf& gguf, std::string_view architecture)
    : gguf_(gguf),
      prefix_(std::string(architecture) + "."),
      saved_by_llama_cpp_(gguf.get_float(full(hyperparameter::kYarnExtFactor), 0.0) < 0.0) {}

const GgufValue* ConfigKeys::find(std::string_view key) const {
  const GgufValue* value = gguf_.find(full(key));
  if (value == nullptr || !saved_by_llama_cpp_) return value;
  const auto unset =
      std::ranges::find(hyperparameter::kUnsetInSavedFiles, key, &hyperparameter::UnsetValue::key);
  if (unset == std::end(hyperparameter::kUnsetInSavedFiles)) return value;
  const bool* flag = std::get_if<bool>(value);
  const double stated = flag != nullptr ? (*flag ? 1.0 : 0.0) : gguf_.get_float(full(key), 0.0);
  return stated == unset->value ? nullptr : value;
}

int64_t ConfigKeys::integer(std::string_view key, int64_t fallback) const {
  return has(key) ? gguf_.get_int(full(key)) : fallback;
}
double ConfigKeys::number(std::string_view key, double fallback) const {
  return has(key) ? gguf_.get_float(full(key)) : fallback;
}
bool ConfigKeys::flag(std::string_view key, bool fallback) const {
  return has(key) ? gguf_.get_bool(full(key), fallback) : fallback;
}
std::string_view ConfigKeys::text(std::string_view key, std::string_view fallback) const {
  return has(key) ? gguf_.get_string(full(key)) : fallback;
}

int64_t ConfigKeys::count(std::string_view key, int64_t maximum) const {
  return checked(key, gguf_.get_int(full(key)), maximum);
}
int64_t ConfigKeys::count(std::string_view key, int64_t maximum, int64_t fallback) const {
  return checked(key, integer(key, fallback), maximum);
}
int64_t ConfigKeys::count_or(std::string_view key, int64_t maximum, int64_t fallback) const {
  return integer(key, 0) == 0 ? fallback : count(key, maximum);
}

int64_t ConfigKeys::count_of_layers(std::string_view key, int64_t maximum) const {
  const std::vector<int64_t> counts = array_of_layers(key);
  if (counts.empty()) return count(key, maximum);
  for (const int64_t count : counts) {
    if (count == counts.front()) continue;
    reject(key, fmt::format("is {} in one layer and {} in another", counts.front(), count),
           "Assay runs models where it is the same in all layers");
  }
  return checked(key, counts.front(), maximum);
}
int64_t ConfigKeys::count_of_layers(std::string_view key, int64_t maximum, int64_t fallback) const {
  return array_of_layers(key).empty() ? count_or(key, maximum, fallback)
                                      : count_of_layers(key, maximum);
}

int64_t ConfigKeys::count_of_some_layers(std::string_view key, int64_t maximum,
                                         const std::function<bool(int64_t layer)>& is_other) const {
  const std::vector<int64_t> counts = array_of_layers(key);
  if (counts.empty()) return integer(key, 0) == 0 ? 0 : count(key, maximum);
  int64_t own = 0;
  for (size_t layer = 0; layer < counts.size(); ++layer) {
    const int64_t count = counts[layer];
    if (count == 0 || count == own || is_other(static_cast<int64_t>(layer))) continue;
    if (own != 0) {
      reject(key, fmt::format("is {} in one layer and {} in another", own, count),
             "Assay runs models where it is the same in all layers that have any");
    }
    own = checked(key, count, maximum);
  }
  return own;
}

std::vector<int64_t> ConfigKeys::array_of_layers(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr || !std::holds_alternative<GgufArray>(*value)) return {};
  const auto& items = std::get<GgufArray>(*value).items;
  std::vector<int64_t> counts;
  if (const auto* flags = std::get_if<GgufNumbers<bool>>(&items)) {
    for (size_t i = 0; i < flags->size(); ++i) counts.push_back((*flags)[i] ? 1 : 0);
  } else {
    counts = gguf_.get_ints(full(key));
  }
  const int64_t n_layers = gguf_.get_int(full(hyperparameter::kBlockCount));
  if (std::ssize(counts) != n_layers) {
    reject(key, fmt::format("has {} entries for {} layers", counts.size(), n_layers));
  }
  return counts;
}

double ConfigKeys::positive(std::string_view key) const {
  return checked(key, gguf_.get_float(full(key)));
}
double ConfigKeys::positive(std::string_view key, double fallback) const {
  return checked(key, number(key, fallback));
}

void ConfigKeys::reject_unless(std::string_view key, double neutral,
                               const std::string& hint) const {
  const double value = number(key, 0.0);
  if (value == 0.0 || std::abs(value - neutral) <= 1e-6 * neutral) return;
  reject(key, fmt::format("is {}", value), hint);
}

void ConfigKeys::reject(std::string_view key, const std::string& why,
                        const std::string& hint) const {
  throw Error(fmt::format("key '{}' {}", full(key), why), gguf_.path(), hint);
}

int64_t ConfigKeys::checked(std::string_view key, int64_t value, int64_t maximum) const {
  if (value < 1 || value > maximum) {
    reject(key, fmt::format("is {}, allowed are 1 to {}", value, maximum));
  }
  return value;
}

double ConfigKeys::checked(std::string_view key, double value) const {
  if (!(value > 0.0) || !std::isfinite(value)) {
    reject(key, fmt::format("is {}, which is not a finite number above 0", value));
  }
  if (!is_in_float_range(value)) {
    reject(key, fmt::format("is {}, which is outside of the range of 32-bit floats", value),
           "the file is damaged: convert or fetch it again");
  }
  return value;
}

}  // namespace assay
