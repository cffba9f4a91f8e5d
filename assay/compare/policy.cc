#include "assay/compare/policy.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <iterator>

#include "assay/compare/log_probabilities.h"
#include "base/error.h"
#include "base/json_file.h"

namespace assay {
namespace {

constexpr int64_t kMaxPolicyBytes = 1 << 20;
constexpr size_t kMaxPatterns = 1000;
constexpr size_t kMaxGlob = 256;  // bytes
constexpr size_t kSha256Digits = 64;
constexpr const char* kPolicyHint =
    "a policy is {\"default\": {\"rel_l2\": 1e-2}, \"checkpoints\": {\"layer_*\": {\"rel_l2\": "
    "1e-5}}}";

using Value = rapidjson::Value;

struct MetricKey {
  const char* name;
  std::optional<double> Tolerance::*limit;
  double bound;
};

constexpr MetricKey kMetrics[] = {{"rel_l2", &Tolerance::rel_l2, kRelL2Bound},
                                  {"max_abs", &Tolerance::max_abs, kMaxAbsBound},
                                  {"kl", &Tolerance::kl, kKlBound}};

// The members of an object, rejecting other types and repeated names.
const Value& checked_object(const Value& value, const std::string& name, const std::string& path) {
  if (!value.IsObject()) throw Error(name + " is not an object", path, kPolicyHint);
  refuse_repeated_keys(value, name, path, kPolicyHint);
  return value;
}

// "floor", which has to be a number of which `k` times is below the bound of rel_l2.
double read_floor(const Value& value, const std::string& name, const std::string& path, double k) {
  if (!value.IsNumber() || !(value.GetDouble() >= 0)) {
    throw Error(fmt::format("'floor' of {} is not a number of 0 or more", name), path, kPolicyHint);
  }
  const double floor = value.GetDouble();
  if (k * floor < kRelL2Bound) return floor;
  throw Error(fmt::format("'floor' of {} is {}, and zeros are off by {}: {} times it lets anything "
                          "pass",
                          name, floor, kRelL2Bound, k),
              path, "measure it between runs that compute the same, or give a smaller k");
}

double read_limit(const MetricKey& metric, const Value& value, const std::string& name,
                  const std::string& path) {
  if (!value.IsNumber() || !(value.GetDouble() >= 0)) {
    throw Error(fmt::format("'{}' of {} is not a number of 0 or more", metric.name, name), path,
                kPolicyHint);
  }
  const double limit = value.GetDouble();
  if (limit < metric.bound) return limit;
  throw Error(fmt::format("'{}' of {} is {}, which lets anything pass", metric.name, name, limit),
              path,
              fmt::format("give less than {}, or leave the checkpoint out with --checkpoints",
                          metric.bound));
}

Tolerance read_tolerance(const Value& value, const std::string& name, const std::string& path,
                         std::optional<double> k) {
  Tolerance tolerance;
  for (const auto& member : checked_object(value, name, path).GetObject()) {
    const std::string key = json_text_of(member.name);
    if (key == "floor") {
      if (!k) throw Error(name + " has a floor, and the policy no k", path, "give k, such as 3");
      tolerance.floor = read_floor(member.value, name, path, *k);
      continue;
    }
    // Where the floor was found, which says nothing of what may pass.
    if (k && (key == "run" || key == "token_idx" || key == "records")) continue;
    const auto* metric = std::find_if(std::begin(kMetrics), std::end(kMetrics),
                                      [&](const MetricKey& each) { return each.name == key; });
    if (metric == std::end(kMetrics)) {
      throw Error(fmt::format("{} has the unknown metric '{}'", name, key), path,
                  "the metrics are rel_l2, max_abs and kl");
    }
    tolerance.*metric->limit = read_limit(*metric, member.value, name, path);
  }
  if (tolerance.floor) {
    if (tolerance.rel_l2) {
      throw Error(name + " has both a floor and rel_l2", path, "give one of them");
    }
    const Tolerance of_floor = floor_tolerance(*k, *tolerance.floor);
    tolerance.rel_l2 = of_floor.rel_l2;
    tolerance.floor = of_floor.floor;
  }
  if (!tolerance.rel_l2 && !tolerance.max_abs && !tolerance.kl) {
    throw Error(name + " names no metric, so that anything would pass", path,
                "give rel_l2, max_abs or kl");
  }
  return tolerance;
}

double read_k(const Value& value, const std::string& path) {
  const double k = value.IsNumber() ? value.GetDouble() : 0;
  if (k >= kLeastK && k <= kMostK) return k;
  throw Error(fmt::format("'k' is not a number from {} to {}", kLeastK, kMostK), path,
              "it says how many times its floor an error may be");
}

// The SHA-256 of the models of "measured": {"runs": [{"model_sha256": ...}]}. All else in it is for
// people. `assay floors` writes the key for each run, null where its log names no model: were one
// that is missing or misspelt taken for such a run, floors of one model would hold another.
std::set<std::string> read_model_hashes(const Value& measured, const std::string& path) {
  constexpr const char* kHint = "write the file with assay floors";
  std::set<std::string> hashes;
  const Value& object = checked_object(measured, "'measured'", path);
  const auto runs = object.FindMember("runs");
  if (runs == object.MemberEnd() || !runs->value.IsArray()) {
    throw Error("'measured' has no array 'runs'", path, kHint);
  }
  if (runs->value.Empty()) throw Error("'runs' of 'measured' is empty", path, kHint);
  for (const Value& run : runs->value.GetArray()) {
    const Value& members = checked_object(run, "a run of 'measured'", path);
    const auto hash = members.FindMember("model_sha256");
    if (hash == members.MemberEnd()) {
      throw Error(
          "a run of 'measured' has no 'model_sha256'", path,
          "write the file with assay floors, which gives null for a log that names no model");
    }
    if (hash->value.IsNull()) continue;
    if (!hash->value.IsString() || hash->value.GetStringLength() != kSha256Digits) {
      throw Error("'model_sha256' of a run is no SHA-256", path, kHint);
    }
    hashes.insert(json_text_of(hash->value));
  }
  return hashes;
}

}  // namespace

bool is_plain_name(const std::string& glob) {
  return glob.find_first_of("*?[\\") == std::string::npos;
}

Tolerance floor_tolerance(double k, double floor) {
  Tolerance tolerance;
  tolerance.floor = std::max(floor, kLeastFloor);
  tolerance.rel_l2 = std::min(k * *tolerance.floor, kWidestTolerance);
  return tolerance;
}

Policy::Policy() : default_(Tolerance()), built_in_(true) {
  default_->rel_l2 = kDefaultRelL2;
}

void Policy::add(const std::string& glob) {
  if (is_plain_name(glob)) {
    names_.emplace(glob, globs_.size());
  } else {
    patterns_.push_back(globs_.size());
  }
  if (glob.size() > kMaxGlob || patterns_.size() > kMaxPatterns) {
    throw Error(fmt::format("'checkpoints' has more than {} globs, or one of more than {} bytes",
                            kMaxPatterns, kMaxGlob),
                path_, "give one glob for all layers, as in layer_*_output");
  }
  globs_.emplace_back(glob, Tolerance());
}

Policy Policy::from_file(const std::string& path) {
  const rapidjson::Document document = read_json_file(path, kMaxPolicyBytes, kPolicyHint);
  const Value& members = checked_object(document, "the policy", path);
  Policy policy;
  policy.path_ = path;
  policy.built_in_ = false;
  std::optional<double> k;
  if (members.HasMember("k")) k = read_k(members["k"], path);
  policy.measured_ = k.has_value();
  if (policy.measured_) policy.default_.reset();
  for (const auto& member : members.GetObject()) {
    const std::string key = json_text_of(member.name);
    if (key == "k") continue;
    if (key == "default") {
      policy.default_ = read_tolerance(member.value, "'default'", path, k);
    } else if (key == "measured" && k) {
      policy.model_hashes_ = read_model_hashes(member.value, path);
      policy.written_by_floors_ = true;
    } else if (key == "checkpoints") {
      for (const auto& entry : checked_object(member.value, "'checkpoints'", path).GetObject()) {
        const std::string glob = json_text_of(entry.name);
        const std::string name = fmt::format("'{}'", printable(glob, 80));
        policy.add(glob);
        policy.globs_.back().second = read_tolerance(entry.value, name, path, k);
      }
    } else {
      throw Error(fmt::format("the policy has the unknown key '{}'", key), path, kPolicyHint);
    }
  }
  if (!document.HasMember("default") && policy.globs_.empty()) {
    throw Error("the policy names no tolerance", path, kPolicyHint);
  }
  return policy;
}

std::vector<std::string> Policy::unused_globs(const std::vector<std::string>& names) const {
  const std::set<std::string> known(names.begin(), names.end());
  std::vector<std::string> unused;
  for (const auto& one : globs_) {
    const std::string& glob = one.first;
    const bool used = names_.contains(glob)
                          ? known.contains(glob)
                          : std::any_of(names.begin(), names.end(), [&](const std::string& name) {
                              return fnmatch(glob.c_str(), name.c_str(), 0) == 0;
                            });
    if (!used &&
        !(holds_log_probabilities(glob) && known.contains(std::string(kLogProbabilitiesName)))) {
      unused.push_back(glob);
    }
  }
  return unused;
}

const Tolerance* Policy::find(const std::string& checkpoint) const {
  const auto name = names_.find(checkpoint);
  const size_t place = name == names_.end() ? globs_.size() : name->second;
  for (const size_t at : patterns_) {
    if (at > place) break;
    const auto& [glob, tolerance] = globs_[at];
    if (fnmatch(glob.c_str(), checkpoint.c_str(), 0) == 0) return &tolerance;
  }
  return place < globs_.size() ? &globs_[place].second : nullptr;
}

// Floors of logits are not those of log-probabilities, whose values are others.
bool Policy::holds_log_probabilities(const std::string& glob) const {
  return !measured_ && fnmatch(glob.c_str(), std::string(kLogitsName).c_str(), 0) == 0 &&
         find(std::string(kLogProbabilitiesName)) == nullptr;
}

Tolerance Policy::tolerance(const std::string& checkpoint) const {
  if (rule_) return rule_(checkpoint);
  const Tolerance* found = find(checkpoint);
  if (found == nullptr && checkpoint == kLogProbabilitiesName && !measured_) {
    found = find(std::string(kLogitsName));
  }
  if (found != nullptr) return *found;
  if (default_) return *default_;
  throw Error(fmt::format("has no floor for '{}'", printable(checkpoint, 80)), path_,
              "leave it out with --checkpoints, or measure it with assay floors");
}

}  // namespace assay
