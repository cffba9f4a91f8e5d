#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gguf.h"

namespace assay {

inline constexpr char kNotDone[] = "Assay does not compute what it asks for";

// Reads "<architecture>.<key>" of a model file with its range. Errors name the file and the key.
class ConfigKeys {
 public:
  ConfigKeys(const Gguf& gguf, std::string_view architecture);

  const Gguf& gguf() const { return gguf_; }
  std::string full(std::string_view key) const { return prefix_ + std::string(key); }
  // Null if the file does not state the key.
  const GgufValue* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }

  // As those of Gguf.
  int64_t integer(std::string_view key, int64_t fallback) const;
  double number(std::string_view key, double fallback) const;
  bool flag(std::string_view key, bool fallback) const;
  std::string_view text(std::string_view key, std::string_view fallback) const;

  // From 1 to `maximum`. Without a fallback the file must state it.
  int64_t count(std::string_view key, int64_t maximum) const;
  int64_t count(std::string_view key, int64_t maximum, int64_t fallback) const;
  // 0, too, stands for the fallback.
  int64_t count_or(std::string_view key, int64_t maximum, int64_t fallback) const;

  // As count() and count_or(); or an array of that number, one for each layer.
  int64_t count_of_layers(std::string_view key, int64_t maximum) const;
  int64_t count_of_layers(std::string_view key, int64_t maximum, int64_t fallback) const;
  // The same of layers some of which have none, for which the array has 0, or a number of something
  // else, where `is_other` says so. 0: no layer has any.
  int64_t count_of_some_layers(std::string_view key, int64_t maximum,
                               const std::function<bool(int64_t layer)>& is_other) const;
  // The number of each layer, where the file has an array of them, true and false being 1 and 0;
  // else empty.
  std::vector<int64_t> array_of_layers(std::string_view key) const;

  // A finite number above zero that computations in 32 bits can use.
  double positive(std::string_view key) const;
  double positive(std::string_view key, double fallback) const;

  // Throws unless the key is left out, 0, or `neutral`, with which the computation is that of the
  // engine. Files hold 32-bit floats.
  void reject_unless(std::string_view key, double neutral, const std::string& hint) const;

  [[noreturn]] void reject(std::string_view key, const std::string& why,
                           const std::string& hint = {}) const;

 private:
  int64_t checked(std::string_view key, int64_t value, int64_t maximum) const;
  double checked(std::string_view key, double value) const;

  const Gguf& gguf_;
  std::string prefix_;
  bool saved_by_llama_cpp_ = false;
};

}  // namespace assay
