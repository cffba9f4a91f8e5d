#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/hf/config.h"

namespace assay {

// The largest numbers that a config.json may state.
inline constexpr int64_t kMaxWidth = int64_t{1} << 20;
inline constexpr int64_t kMaxLayers = 4096;
inline constexpr int64_t kMostPositions = int64_t{1} << 31;

// `made` keeps the bytes that the array points to.
inline GgufArray array_of_floats(const std::vector<float>& values, std::deque<std::string>& made) {
  const auto bytes = std::as_bytes(std::span(values));
  const std::string& kept =
      made.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return {GgufNumbers<float>(std::as_bytes(std::span(kept)))};
}

// Writes HfConfig::metadata: what a GGUF file would have. Keys stand behind "<architecture>.", but
// for those of hyperparameter::own.
class Keys {
 public:
  explicit Keys(HfConfig& config)
      : config_(config), prefix_(std::string(config.architecture->name) + ".") {}

  void whole(std::string_view key, int64_t value) { put(prefix_ + std::string(key), value); }
  void real(std::string_view key, double value) {
    put(prefix_ + std::string(key), static_cast<double>(static_cast<float>(value)));
  }
  // Not rounded: of what a GGUF file leaves to the engine to compute.
  void exact(std::string_view key, double value) { put(prefix_ + std::string(key), value); }
  void flag(std::string_view key, bool value) { put(prefix_ + std::string(key), value); }
  void own_flag(std::string_view key, bool value) { put(std::string(key), value); }
  void own_number(std::string_view key, double value) { put(std::string(key), value); }
  void own_text(std::string_view key, std::string_view value) { put(std::string(key), value); }
  void wholes(std::string_view key, const std::vector<int32_t>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    const std::string& kept =
        config_.made.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    put(prefix_ + std::string(key),
        GgufArray{GgufNumbers<int32_t>(std::as_bytes(std::span(kept)))});
  }
  void reals(std::string_view key, const std::vector<float>& values) {
    put(prefix_ + std::string(key), array_of_floats(values, config_.made));
  }
  void own_reals(std::string_view key, const std::vector<float>& values) {
    put(std::string(key), array_of_floats(values, config_.made));
  }
  void flags(std::string_view key, const std::vector<bool>& values) {
    put(prefix_ + std::string(key), array_of(values));
  }
  void own_flags(std::string_view key, const std::vector<bool>& values) {
    put(std::string(key), array_of(values));
  }

 private:
  GgufArray array_of(const std::vector<bool>& values) {
    const std::string& bytes = config_.made.emplace_back(values.begin(), values.end());
    return {GgufNumbers<bool>(std::as_bytes(std::span(bytes)))};
  }
  void put(std::string key, GgufValue value) {
    config_.metadata.insert_or_assign(std::move(key), std::move(value));
  }

  HfConfig& config_;
  std::string prefix_;
};

}  // namespace assay
