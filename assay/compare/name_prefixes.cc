#include "assay/compare/name_prefixes.h"

#include <fmt/format.h>

#include "assay/compare/name_pattern.h"
#include "base/error.h"
#include "base/json_file.h"

namespace assay {

NamePrefixes NamePrefixes::parse(const rapidjson::Value& object, const std::string& where) {
  constexpr const char* kHint =
      "'prefixes' is {\"module.\": \"\"}: what names begin with, and should";
  if (!object.IsObject()) throw Error("'prefixes' is not an object", where, kHint);
  refuse_repeated_keys(object, "'prefixes'", where, kHint);
  if (object.MemberCount() > kMost) {
    throw Error(fmt::format("'prefixes' has {} entries, more than {}", object.MemberCount(), kMost),
                where, "give fewer");
  }
  NamePrefixes prefixes;
  for (const auto& [key, value] : object.GetObject()) {
    const std::string from = json_text_of(key);
    const std::string named = fmt::format("'{}' of 'prefixes'", printable(from, 40));
    if (from.empty()) throw Error(named + " is empty", where, kHint);
    if (!value.IsString()) throw Error(named + " is not a text", where, kHint);
    const std::string to = json_text_of(value);
    if (from.size() > NamePattern::kMaxPattern || to.size() > NamePattern::kMaxPattern) {
      throw Error(fmt::format("{} has more than {} bytes", named, NamePattern::kMaxPattern), where,
                  "give a shorter text");
    }
    prefixes.prefixes_.emplace_back(from, to);
  }
  return prefixes;
}

void NamePrefixes::add(const NamePrefixes& other) {
  prefixes_.insert(prefixes_.end(), other.prefixes_.begin(), other.prefixes_.end());
}

std::string NamePrefixes::without(const std::string& name) const {
  std::string result = name;
  for (const auto& [from, to] : prefixes_) {
    if (result.starts_with(from)) result.replace(0, from.size(), to);
  }
  return result;
}

}  // namespace assay
