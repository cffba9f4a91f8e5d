// The metadata of a GGUF file by type: what a key must hold, and the error where it does not.

#include <fmt/format.h>

#include <optional>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "engine/gguf.h"

namespace assay {
namespace {

// The value as a T, if it holds a number that fits.
std::optional<int64_t> as_int(const GgufValue& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) return *number;
  const auto* number = std::get_if<uint64_t>(&value);
  if (number != nullptr && std::in_range<int64_t>(*number)) return static_cast<int64_t>(*number);
  return std::nullopt;
}

std::optional<double> as_float(const GgufValue& value) {
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto number = as_int(value)) return static_cast<double>(*number);
  return std::nullopt;
}

[[noreturn]] void fail_type(const Gguf& gguf, std::string_view key, std::string_view wanted) {
  throw Error(fmt::format("key '{}' is not {}", key, wanted), gguf.path());
}

template <typename T>
T or_missing(const Gguf& gguf, std::string_view key, std::optional<T> value) {
  if (!value) {
    throw Error(fmt::format("key '{}' is missing", key), gguf.path(),
                "the file is incomplete; convert the model again");
  }
  return *value;
}

// Null if the key is missing.
template <typename T>
const T* find_as(const Gguf& gguf, std::string_view key, std::string_view wanted) {
  const GgufValue* value = gguf.find(key);
  if (value == nullptr) return nullptr;
  const T* typed = std::get_if<T>(value);
  if (typed == nullptr) fail_type(gguf, key, wanted);
  return typed;
}

std::optional<int64_t> find_int(const Gguf& gguf, std::string_view key) {
  const GgufValue* value = gguf.find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = as_int(*value);
  if (!number) fail_type(gguf, key, "an integer below 2^63");
  return number;
}

std::optional<double> find_float(const Gguf& gguf, std::string_view key) {
  const GgufValue* value = gguf.find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = as_float(*value);
  if (!number) fail_type(gguf, key, "a number");
  return number;
}

std::optional<std::string_view> find_text(const Gguf& gguf, std::string_view key) {
  const auto* text = find_as<std::string_view>(gguf, key, "a string");
  return text == nullptr ? std::nullopt : std::optional(*text);
}

}  // namespace

int64_t Gguf::get_int(std::string_view key) const {
  return or_missing(*this, key, find_int(*this, key));
}
int64_t Gguf::get_int(std::string_view key, int64_t fallback) const {
  return find_int(*this, key).value_or(fallback);
}
double Gguf::get_float(std::string_view key) const {
  return or_missing(*this, key, find_float(*this, key));
}
double Gguf::get_float(std::string_view key, double fallback) const {
  return find_float(*this, key).value_or(fallback);
}
bool Gguf::get_bool(std::string_view key, bool fallback) const {
  const bool* value = find_as<bool>(*this, key, "a boolean");
  return value == nullptr ? fallback : *value;
}
std::string_view Gguf::get_string(std::string_view key) const {
  return or_missing(*this, key, find_text(*this, key));
}
std::string_view Gguf::get_string(std::string_view key, std::string_view fallback) const {
  return find_text(*this, key).value_or(fallback);
}

std::vector<std::string_view> Gguf::get_strings(std::string_view key) const {
  const auto* array = find_as<GgufArray>(*this, key, "an array of strings");
  if (array == nullptr || array->size() == 0) return {};
  const auto* strings = std::get_if<std::vector<std::string_view>>(&array->items);
  if (strings == nullptr) fail_type(*this, key, "an array of strings");
  return *strings;
}

std::vector<int64_t> Gguf::get_ints(std::string_view key) const {
  const auto* array = find_as<GgufArray>(*this, key, "an array of integers");
  if (array == nullptr || array->size() == 0) return {};
  return std::visit(
      [&](const auto& items) -> std::vector<int64_t> {
        using Item = typename std::decay_t<decltype(items)>::value_type;
        if constexpr (!std::is_integral_v<Item> || std::is_same_v<Item, bool>) {
          fail_type(*this, key, "an array of integers");
        } else {
          std::vector<int64_t> ints;
          ints.reserve(items.size());
          for (size_t i = 0; i < items.size(); ++i) {
            if (!std::in_range<int64_t>(items[i])) {
              fail_type(*this, key, "an array of integers below 2^63");
            }
            ints.push_back(static_cast<int64_t>(items[i]));
          }
          return ints;
        }
      },
      array->items);
}

std::vector<bool> Gguf::get_bools(std::string_view key) const {
  const auto* array = find_as<GgufArray>(*this, key, "an array of booleans");
  if (array == nullptr || array->size() == 0) return {};
  const auto* items = std::get_if<GgufNumbers<bool>>(&array->items);
  if (items == nullptr) fail_type(*this, key, "an array of booleans");
  std::vector<bool> bools;
  for (size_t i = 0; i < items->size(); ++i) bools.push_back((*items)[i]);
  return bools;
}

std::vector<double> Gguf::get_floats(std::string_view key) const {
  const auto* array = find_as<GgufArray>(*this, key, "an array of numbers");
  if (array == nullptr || array->size() == 0) return {};
  return std::visit(
      [&](const auto& items) -> std::vector<double> {
        using Item = typename std::decay_t<decltype(items)>::value_type;
        if constexpr (std::is_floating_point_v<Item>) {
          std::vector<double> floats;
          floats.reserve(items.size());
          for (size_t i = 0; i < items.size(); ++i) floats.push_back(double{items[i]});
          return floats;
        } else {
          const std::vector<int64_t> ints = get_ints(key);
          return {ints.begin(), ints.end()};
        }
      },
      array->items);
}

}  // namespace assay
