#include "assay/compare/policy.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "base/error.h"
#include "base/json_file.h"

namespace assay {
namespace {

constexpr int64_t kMaxBytes = 1 << 20;
constexpr size_t kMaxGlobs = 1000;
constexpr size_t kMaxGlob = 256;  // bytes
constexpr const char* kHint =
    "a policy is {\"default\": {\"rel_l2\": 1e-2}, \"checkpoints\": {\"layer_*\": {\"rel_l2\": "
    "1e-5}}}";

using Value = rapidjson::Value;

struct Metric {
  const char* name;
  std::optional<double> Tolerance::*limit;
  double bound;
};

constexpr Metric kMetrics[] = {{"rel_l2", &Tolerance::rel_l2, kRelL2Bound},
                               {"max_abs", &Tolerance::max_abs, kMaxAbsBound},
                               {"kl", &Tolerance::kl, kKlBound}};

// The members of an object, rejecting other types and repeated names.
const Value& checked_object(const Value& value, const std::string& name, const std::string& path) {
  if (!value.IsObject()) throw Error(name + " is not an object", path, kHint);
  std::set<std::string> seen;
  for (const auto& member : value.GetObject()) {
    if (!seen.insert(json_text_of(member.name)).second) {
      throw Error(fmt::format("{} has the key '{}' twice", name, json_text_of(member.name)), path,
                  kHint);
    }
  }
  return value;
}

Tolerance read_tolerance(const Value& value, const std::string& name, const std::string& path) {
  Tolerance tolerance;
  for (const auto& member : checked_object(value, name, path).GetObject()) {
    const std::string key = json_text_of(member.name);
    const auto* metric = std::find_if(std::begin(kMetrics), std::end(kMetrics),
                                      [&](const Metric& each) { return each.name == key; });
    if (metric == std::end(kMetrics)) {
      throw Error(fmt::format("{} has the unknown metric '{}'", name, key), path,
                  "the metrics are rel_l2, max_abs and kl");
    }
    if (!member.value.IsNumber() || !(member.value.GetDouble() >= 0)) {
      throw Error(fmt::format("'{}' of {} is not a number of 0 or more", key, name), path, kHint);
    }
    const double limit = member.value.GetDouble();
    if (!(limit < metric->bound)) {
      throw Error(fmt::format("'{}' of {} is {}, which lets anything pass", key, name, limit), path,
                  fmt::format("give less than {}, or leave the checkpoint out with --checkpoints",
                              metric->bound));
    }
    tolerance.*metric->limit = limit;
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
  const rapidjson::Document document = read_json_file(path, kMaxBytes, kHint);
  Policy policy;
  for (const auto& member : checked_object(document, "the policy", path).GetObject()) {
    const std::string key = json_text_of(member.name);
    if (key == "default") {
      policy.default_ = read_tolerance(member.value, "'default'", path);
    } else if (key == "checkpoints") {
      for (const auto& entry : checked_object(member.value, "'checkpoints'", path).GetObject()) {
        const std::string glob = json_text_of(entry.name);
        if (glob.size() > kMaxGlob || policy.globs_.size() >= kMaxGlobs) {
          throw Error(fmt::format("'checkpoints' has more than {} globs, or one of more than {} "
                                  "bytes",
                                  kMaxGlobs, kMaxGlob),
                      path, "give one glob for all layers, as in layer_*_output");
        }
        policy.globs_.emplace_back(glob, read_tolerance(entry.value, "'" + glob + "'", path));
      }
    } else {
      throw Error(fmt::format("the policy has the unknown key '{}'", key), path, kHint);
    }
  }
  if (!document.HasMember("default") && policy.globs_.empty()) {
    throw Error("the policy names no tolerance", path, kHint);
  }
  return policy;
}

std::vector<std::string> Policy::unused_globs(const std::vector<std::string>& names) const {
  std::vector<std::string> unused;
  for (const auto& one : globs_) {
    const std::string& glob = one.first;
    const bool used = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return fnmatch(glob.c_str(), name.c_str(), 0) == 0;
    });
    if (!used) unused.push_back(glob);
  }
  return unused;
}

Tolerance Policy::tolerance(const std::string& checkpoint) const {
  if (rule_) return rule_(checkpoint);
  for (const auto& [glob, tolerance] : globs_) {
    if (fnmatch(glob.c_str(), checkpoint.c_str(), 0) == 0) return tolerance;
  }
  return default_;
}

}  // namespace assay
