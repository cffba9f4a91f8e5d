#include "assay/compare/policy.h"

#include <fmt/format.h>
#include <fnmatch.h>
#include <rapidjson/document.h>
#include <rapidjson/error/en.h>

#include <cmath>
#include <set>
#include <string_view>

#include "assay/log/line_reader.h"
#include "base/error.h"

namespace assay {
namespace {

constexpr int64_t kMaxBytes = 1 << 20;
constexpr const char* kHint =
    "a policy is {\"default\": {\"rel_l2\": 1e-2}, \"checkpoints\": {\"layer_*\": {\"rel_l2\": "
    "1e-5}}}";

using Value = rapidjson::Value;

std::string text_of(const Value& value) {
  return {value.GetString(), value.GetStringLength()};
}

// The members of an object, refusing what is none and what is named twice.
const Value& checked_object(const Value& value, const std::string& name, const std::string& path) {
  if (!value.IsObject()) throw Error(name + " is not an object", path, kHint);
  std::set<std::string> seen;
  for (const auto& member : value.GetObject()) {
    if (!seen.insert(text_of(member.name)).second) {
      throw Error(fmt::format("{} has the key '{}' twice", name, text_of(member.name)), path,
                  kHint);
    }
  }
  return value;
}

Tolerance read_tolerance(const Value& value, const std::string& name, const std::string& path) {
  Tolerance tolerance;
  for (const auto& member : checked_object(value, name, path).GetObject()) {
    const std::string key = text_of(member.name);
    std::optional<double>* limit = key == "rel_l2"    ? &tolerance.rel_l2
                                   : key == "max_abs" ? &tolerance.max_abs
                                   : key == "kl"      ? &tolerance.kl
                                                      : nullptr;
    if (limit == nullptr) {
      throw Error(fmt::format("{} has the unknown metric '{}'", name, key), path,
                  "the metrics are rel_l2, max_abs and kl");
    }
    if (!member.value.IsNumber() || !(member.value.GetDouble() >= 0)) {
      throw Error(fmt::format("'{}' of {} is not a number of 0 or more", key, name), path);
    }
    *limit = member.value.GetDouble();
  }
  if (!tolerance.rel_l2 && !tolerance.max_abs && !tolerance.kl) {
    throw Error(name + " names no metric, so that anything would pass", path,
                "give rel_l2, max_abs or kl");
  }
  return tolerance;
}

}  // namespace

Policy::Policy() {
  default_.rel_l2 = kDefaultRelL2;
}

Policy Policy::from_file(const std::string& path) {
  const InputFile file(path);
  if (file.size() > kMaxBytes) {
    throw Error(fmt::format("{} bytes are too many for a policy", file.size()), path, kHint);
  }
  std::string text(static_cast<size_t>(file.size()), '\0');
  text.resize(file.read(text.data(), text.size(), 0));
  rapidjson::Document document;
  document.Parse<rapidjson::kParseValidateEncodingFlag | rapidjson::kParseIterativeFlag>(
      text.data(), text.size());
  if (document.HasParseError()) {
    std::string_view reason = rapidjson::GetParseError_En(document.GetParseError());
    if (reason.ends_with('.')) reason.remove_suffix(1);
    throw Error(fmt::format("not valid JSON at byte {}: {}", document.GetErrorOffset() + 1, reason),
                path, kHint);
  }
  Policy policy;
  for (const auto& member : checked_object(document, "the policy", path).GetObject()) {
    const std::string key = text_of(member.name);
    if (key == "default") {
      policy.default_ = read_tolerance(member.value, "'default'", path);
    } else if (key == "checkpoints") {
      for (const auto& entry : checked_object(member.value, "'checkpoints'", path).GetObject()) {
        const std::string glob = text_of(entry.name);
        policy.globs_.emplace_back(glob, read_tolerance(entry.value, "'" + glob + "'", path));
      }
    } else {
      throw Error(fmt::format("the policy has the unknown key '{}'", key), path, kHint);
    }
  }
  return policy;
}

const Tolerance& Policy::tolerance(const std::string& checkpoint) const {
  for (const auto& [glob, tolerance] : globs_) {
    if (fnmatch(glob.c_str(), checkpoint.c_str(), 0) == 0) return tolerance;
  }
  return default_;
}

}  // namespace assay
