#include "engine/hf/json_object.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/json_file.h"
#include "engine/hf/config.h"
#include "engine/model_config.h"

namespace assay {

ConfigObject::ConfigObject(const rapidjson::Value& json, std::string where,
                           const rapidjson::Value* defaults)
    : json_(json), where_(std::move(where)), defaults_(defaults) {
  if (!json.IsObject()) throw Error("is not a JSON object", where_, kConfigHint);
}

const rapidjson::Value* ConfigObject::find(const char* key) const {
  const auto found = json_.FindMember(key);
  if (found != json_.MemberEnd()) return found->value.IsNull() ? nullptr : &found->value;
  return default_of(key);
}

const rapidjson::Value* ConfigObject::default_of(const char* key) const {
  if (defaults_ == nullptr) return nullptr;
  const auto found = defaults_->FindMember(key);
  return found == defaults_->MemberEnd() ? nullptr : &found->value;
}

const char* ConfigObject::present(KeyNames names) const {
  for (const char* name : names) {
    if (states(name) && find(name) != nullptr) return name;
  }
  for (const char* name : names) {
    if (find(name) != nullptr) return name;
  }
  return *names.begin();
}

const char* ConfigObject::own(KeyNames names) const {
  for (const char* name : names) {
    if (default_of(name) != nullptr) return name;
  }
  return present(names);
}

int64_t ConfigObject::whole(KeyNames names, int64_t most, std::optional<int64_t> fallback) const {
  const char* key = present(names);
  const auto* value = find(key);
  if (value == nullptr && fallback) return *fallback;
  if (value == nullptr) refuse(key, "is missing", kConfigHint);
  if (!value->IsInt64() || value->GetInt64() < 1 || value->GetInt64() > most) {
    refuse(key, fmt::format("is not a whole number from 1 to {}", most));
  }
  return value->GetInt64();
}

int64_t ConfigObject::whole_or_zero(const char* key, int64_t most,
                                    std::optional<int64_t> fallback) const {
  const auto* value = find(key);
  return value != nullptr && value->IsInt64() && value->GetInt64() == 0
             ? 0
             : whole({key}, most, fallback);
}

double ConfigObject::positive(KeyNames names, std::optional<double> fallback) const {
  const char* key = present(names);
  const auto* value = find(key);
  if (value == nullptr && fallback) return *fallback;
  if (value == nullptr) refuse(key, "is missing", kConfigHint);
  if (!value->IsNumber() || !(value->GetDouble() > 0.0) || !std::isfinite(value->GetDouble())) {
    refuse(key, "is not a finite number above 0");
  }
  if (!is_in_float_range(value->GetDouble())) {
    refuse(key, "is outside of the range of 32-bit floats", kConfigHint);
  }
  return value->GetDouble();
}

bool ConfigObject::flag(const char* key, bool fallback) const {
  const auto* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->IsBool()) refuse(key, "is neither true nor false");
  return value->GetBool();
}

std::string ConfigObject::text(KeyNames names, const std::string& fallback) const {
  const char* key = present(names);
  const auto* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->IsString()) refuse(key, "is not a string");
  return json_text_of(*value);
}

std::vector<float> ConfigObject::factors(const char* key, int64_t count) const {
  const auto* value = find(key);
  if (value == nullptr) refuse(key, "is missing", kConfigHint);
  std::vector<float> result;
  if (value->IsArray()) {
    for (const auto& each : value->GetArray()) {
      const float factor = each.IsNumber() ? each.GetFloat() : 0.0F;
      if (!(factor > 0.0F) || !std::isfinite(factor)) break;
      result.push_back(factor);
    }
  }
  if (!value->IsArray() || value->Size() != static_cast<size_t>(count) ||
      result.size() != static_cast<size_t>(count)) {
    refuse(key, fmt::format("is not an array of {} numbers above 0", count));
  }
  return result;
}

std::vector<int64_t> ConfigObject::wholes(const char* key, int64_t most) const {
  const auto* value = find(key);
  std::vector<int64_t> result;
  if (value == nullptr) return result;
  if (!value->IsArray()) refuse(key, "is not an array");
  for (const auto& each : value->GetArray()) {
    if (!each.IsInt64() || each.GetInt64() < 0 || each.GetInt64() > most) {
      refuse(key, fmt::format("holds something that is not a whole number from 0 to {}", most));
    }
    result.push_back(each.GetInt64());
  }
  return result;
}

std::vector<std::string> ConfigObject::texts(const char* key) const {
  const auto* value = find(key);
  std::vector<std::string> result;
  if (value == nullptr) return result;
  if (!value->IsArray()) refuse(key, "is not an array");
  for (const auto& each : value->GetArray()) {
    if (!each.IsString()) refuse(key, "holds something that is not a string");
    result.push_back(json_text_of(each));
  }
  return result;
}

void ConfigObject::refuse(std::string_view key, const std::string& why,
                          const std::string& hint) const {
  const std::string name(key);
  const bool is_default = !states(name.c_str()) && default_of(name.c_str()) != nullptr;
  throw Error(fmt::format("key '{}'{} {}", key, is_default ? ", by its default," : "", why), where_,
              hint);
}

}  // namespace assay
