#include "assay/weights/key_differences.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "assay/weights/networks.h"
#include "base/error.h"
#include "model/hyperparameter_keys.h"

namespace assay {
namespace {

constexpr std::string_view kTokens = "tokenizer.ggml.tokens";

std::optional<double> number_of(const GgufValue& value) {
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto* number = std::get_if<int64_t>(&value)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<uint64_t>(&value)) return static_cast<double>(*number);
  return std::nullopt;
}

// An element of an array, for people.
std::string element_text(const GgufArray& array, size_t i) {
  return std::visit(
      [i](const auto& items) -> std::string {
        if constexpr (requires { items[i].substr(0); }) {
          return fmt::format("'{}'", printable(items[i], 40));
        } else {
          return fmt::format("{}", items[i]);
        }
      },
      array.items);
}

// Whether two elements are the same, of whatever width they are stored in.
bool is_same_element(const GgufArray& a, const GgufArray& b, size_t i) {
  return std::visit(
      [i](const auto& x, const auto& y) {
        constexpr bool kTextX = requires {
          x[i].substr(0);
        };
        constexpr bool kTextY = requires {
          y[i].substr(0);
        };
        if constexpr (kTextX && kTextY) {
          return x[i] == y[i];
        } else if constexpr (!kTextX && !kTextY) {
          return static_cast<double>(x[i]) == static_cast<double>(y[i]);
        } else {
          return false;
        }
      },
      a.items, b.items);
}

// The first element in which two arrays differ; nothing if they are the same.
std::optional<size_t> first_difference(const GgufArray& a, const GgufArray& b) {
  const size_t n = std::min(a.size(), b.size());
  for (size_t i = 0; i < n; ++i) {
    if (!is_same_element(a, b, i)) return i;
  }
  return a.size() == b.size() ? std::nullopt : std::optional(n);
}

std::string array_text(const GgufArray& array, size_t at) {
  const std::string length = fmt::format("array of {}", array.size());
  return at < array.size() ? fmt::format("{}, [{}] is {}", length, at, element_text(array, at))
                           : length;
}

// Nothing if the two are the same.
std::optional<KeyDifference> difference(const std::string& key, const GgufValue& ref,
                                        const GgufValue& got) {
  const auto* ref_array = std::get_if<GgufArray>(&ref);
  const auto* got_array = std::get_if<GgufArray>(&got);
  if (ref_array != nullptr && got_array != nullptr) {
    const auto at = first_difference(*ref_array, *got_array);
    if (!at) return std::nullopt;
    return KeyDifference{key, array_text(*ref_array, *at), array_text(*got_array, *at)};
  }
  const auto ref_number = number_of(ref);
  const auto got_number = number_of(got);
  if (ref_number && got_number && *ref_number == *got_number) return std::nullopt;
  const auto* ref_text = std::get_if<std::string_view>(&ref);
  const auto* got_text = std::get_if<std::string_view>(&got);
  if (ref_text != nullptr && got_text != nullptr && *ref_text == *got_text) return std::nullopt;
  const auto* ref_flag = std::get_if<bool>(&ref);
  const auto* got_flag = std::get_if<bool>(&got);
  if (ref_flag != nullptr && got_flag != nullptr && *ref_flag == *got_flag) return std::nullopt;
  return KeyDifference{key, metadata_text(ref), metadata_text(got)};
}

// Whether both files state a key that differs, and in values of one kind: not in another form, as
// one number for what is a list of one for each layer.
bool is_stated_otherwise(const GgufValue* ref, const GgufValue* got) {
  if (ref == nullptr || got == nullptr) return false;
  return ref->index() == got->index() || (number_of(*ref) && number_of(*got));
}

// Whether two numbers differ by no more than the rounding to float, as which files hold them.
bool is_rounding(const GgufValue* ref, const GgufValue* got) {
  if (!is_stated_otherwise(ref, got)) return false;
  const bool is_real = std::holds_alternative<double>(*ref) || std::holds_alternative<double>(*got);
  return is_real && static_cast<float>(*number_of(*ref)) == static_cast<float>(*number_of(*got));
}

// Whether a key of the network that differs makes another network of it. One that both files state
// and Assay does not read, another engine may.
bool is_of_another_network(const std::string& key, const GgufValue* ref, const GgufValue* got,
                           const Networks& networks) {
  // For how many positions a model was made changes nothing that it computes at one of them.
  const bool describes = key.ends_with(fmt::format(".{}", hyperparameter::kContextLength));
  if (!describes && is_stated_otherwise(ref, got)) return true;
  return !networks.are_one() && networks.depends_on(key);
}

}  // namespace

std::string metadata_text(const GgufValue& value) {
  if (const auto* array = std::get_if<GgufArray>(&value)) {
    return fmt::format("array of {}", array->size());
  }
  if (const auto* text = std::get_if<std::string_view>(&value)) return printable(*text, 60);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{:g}", *number);
  if (const auto* number = std::get_if<int64_t>(&value)) return fmt::format("{}", *number);
  return fmt::format("{}", std::get<uint64_t>(value));
}

std::vector<KeyDifference> key_differences(const Gguf& ref, const Gguf& got,
                                           std::vector<std::string>& warnings) {
  std::set<std::string> names;
  for (const Gguf* file : {&ref, &got}) {
    for (const auto& [key, value] : file->metadata()) names.insert(key);
  }
  // A folder's vocabulary is in no keys. A file that lacks its own lacks something.
  const auto is_elsewhere = [](const Gguf& model) {
    return model.version() == 0 && model.find(kTokens) == nullptr;
  };
  const bool are_compared = !is_elsewhere(ref) && !is_elsewhere(got);
  if (!are_compared && (ref.find(kTokens) != nullptr || got.find(kTokens) != nullptr)) {
    warnings.push_back(fmt::format("the vocabularies are not compared: {} has none in GGUF's keys",
                                   printable((is_elsewhere(ref) ? ref : got).path(), 4096)));
  }
  const std::string network = fmt::format("{}.", ref.get_string("general.architecture"));
  std::optional<Networks> networks;  // not read where the keys are the same
  std::vector<KeyDifference> differences;
  std::vector<size_t> of_network;  // differences that may count
  for (const std::string& key : names) {
    const GgufValue* ref_value = ref.find(key);
    const GgufValue* got_value = got.find(key);
    std::optional<KeyDifference> differs;
    if (ref_value != nullptr && got_value != nullptr) {
      differs = difference(key, *ref_value, *got_value);
    } else {
      differs = KeyDifference{key, ref_value != nullptr ? metadata_text(*ref_value) : "",
                              got_value != nullptr ? metadata_text(*got_value) : ""};
    }
    if (!differs) continue;
    if (key.starts_with("tokenizer.")) {
      if (!are_compared) continue;
      differs->counts = true;
    } else if (key.starts_with(network) || key.starts_with("assay.")) {
      if (!networks) networks.emplace(ref, got);
      const bool may = !is_rounding(ref_value, got_value) && !networks->is_of_latent_form(key);
      differs->counts = may && is_of_another_network(key, ref_value, got_value, *networks);
      if (may) of_network.push_back(differences.size());
    }
    differences.push_back(std::move(*differs));
  }
  // Two networks, and no key that tells them apart by itself: all may together.
  const bool any = std::ranges::any_of(of_network, [&](size_t i) { return differences[i].counts; });
  if (networks && !networks->are_one() && !any) {
    for (const size_t i : of_network) differences[i].counts = true;
  }
  return differences;
}

}  // namespace assay
