#pragma once

#include <rapidjson/document.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// Other names of one key: the first that the object has counts.
using KeyNames = std::initializer_list<const char*>;

// An object of a config.json, with its place for messages. A key that is null is as good as one
// that is missing and has no default. All functions throw Error that names the place and the key.
class ConfigObject {
 public:
  // `defaults`, an object too, has what counts for keys that are missing.
  ConfigObject(const rapidjson::Value& json, std::string where,
               const rapidjson::Value* defaults = nullptr);

  // Null if the key is null, or missing without a default.
  const rapidjson::Value* find(const char* key) const;
  // Whether the key is stated, null or not.
  bool states(const char* key) const { return json_.HasMember(key); }
  // Null if the key has none.
  const rapidjson::Value* default_of(const char* key) const;
  // The first of the names that is stated, or else that has a default; the first of all if none.
  const char* present(KeyNames names) const;

  // The name that the class has, by its defaults, whatever else is stated; else as present().
  const char* own(KeyNames names) const;

  // From 1 to `most`. Without a fallback the key must be there.
  int64_t whole(KeyNames names, int64_t most, std::optional<int64_t> fallback = {}) const;
  // From 0 to `most`.
  int64_t whole_or_zero(const char* key, int64_t most, std::optional<int64_t> fallback = {}) const;
  // A number above 0 that keeps its precision in 32 bits.
  double positive(KeyNames names, std::optional<double> fallback = {}) const;
  bool flag(const char* key, bool fallback = false) const;
  std::string text(KeyNames names, const std::string& fallback) const;
  // `count` numbers above 0.
  std::vector<float> factors(const char* key, int64_t count) const;
  // Numbers from 0 to `most`. Empty if the key is missing.
  std::vector<int64_t> wholes(const char* key, int64_t most) const;
  // Empty if the key is missing.
  std::vector<std::string> texts(const char* key) const;

  [[noreturn]] void refuse(std::string_view key, const std::string& why,
                           const std::string& hint = {}) const;
  const std::string& where() const { return where_; }
  const rapidjson::Value& json() const { return json_; }

 private:
  const rapidjson::Value& json_;
  std::string where_;
  const rapidjson::Value* defaults_;
};

}  // namespace assay
