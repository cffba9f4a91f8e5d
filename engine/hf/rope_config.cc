#include "engine/hf/rope_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <optional>
#include <utility>

#include "base/json_file.h"
#include "model/hyperparameter_keys.h"

namespace assay {
namespace {

constexpr int64_t kMaxOriginalPositions = int64_t{1} << 31;
constexpr char kParameters[] = "rope_parameters";
constexpr char kScaling[] = "rope_scaling";
constexpr char kOriginal[] = "original_max_position_embeddings";

// All that a scaling may state; another key is a computation that Assay does not know.
constexpr std::string_view kKnown[] = {"rope_type",        "type",
                                       "rope_theta",       "partial_rotary_factor",
                                       "factor",           kOriginal,
                                       "beta_fast",        "beta_slow",
                                       "attention_factor", "truncate",
                                       "long_factor",      "short_factor",
                                       "mscale",           "mscale_all_dim",
                                       "low_freq_factor",  "high_freq_factor",
                                       "full_attention",   "sliding_attention"};

// Where transformers has another default than 10000.
struct ThetaDefault {
  std::string_view model_type;
  double theta;
};
constexpr ThetaDefault kThetas[] = {{"smollm3", 2e6},    {"gemma3_text", 1e6}, {"mixtral", 1e6},
                                    {"gpt_oss", 150000}, {"ernie4_5", 500000}, {"olmo3", 500000}};
// Where transformers may rotate a part of each head, and which by default. Others do not read it.
constexpr std::pair<std::string_view, double> kShares[] = {{"gpt_neox", 0.25}, {"phi", 0.5},
                                                           {"phi3", 1.0},      {"stablelm", 0.25},
                                                           {"nemotron", 0.5},  {"glm4", 0.5}};

double default_theta(const HfConfig& config) {
  for (const ThetaDefault& each : kThetas) {
    if (each.model_type == config.model->model_type) return each.theta;
  }
  return hyperparameter::kDefaultRopeBase;
}

std::optional<double> default_share(const HfConfig& config) {
  for (const auto& [model_type, share] : kShares) {
    if (model_type == config.model->model_type) return share;
  }
  return std::nullopt;
}

// The rescaling of Llama 3.1: wavelengths up to original / high stay, those from original / low on
// are stretched by the factor, and between them the divisor is interpolated.
std::vector<float> llama3_divisors(const ConfigObject& scaling, int64_t dimensions, double base) {
  const double factor = scaling.positive({"factor"});
  const double low = scaling.positive({"low_freq_factor"});
  const double high = scaling.positive({"high_freq_factor"});
  const auto original = static_cast<double>(scaling.whole({kOriginal}, kMaxOriginalPositions));
  if (!(high > low)) scaling.refuse("high_freq_factor", "is not above low_freq_factor");
  std::vector<float> divisors;
  for (int64_t i = 0; i < dimensions; i += 2) {
    const double exponent = static_cast<double>(i) / static_cast<double>(dimensions);
    const double wavelength = 2.0 * std::numbers::pi * std::pow(base, exponent);
    const double smooth = std::clamp((original / wavelength - low) / (high - low), 0.0, 1.0);
    divisors.push_back(static_cast<float>(1.0 / ((1.0 - smooth) / factor + smooth)));
  }
  return divisors;
}

double mscale(double factor, double scale) {
  return factor > 1.0 ? 0.1 * scale * std::log(factor) + 1.0 : 1.0;
}

class RopeReader {
 public:
  RopeReader(const ConfigObject& object, const HfConfig& config)
      : object_(object), config_(config) {}

  RopeConfig read() {
    rope_.original_context_length =
        object_.find(kOriginal) == nullptr ? 0 : object_.whole({kOriginal}, kMaxOriginalPositions);
    const char* key = object_.find(kParameters) != nullptr ? kParameters : kScaling;
    const rapidjson::Value* value = object_.find(key);
    if (value == nullptr) {
      read_plain(object_);
      reject_one_for_both(object_);
      read_local_base(object_, {"rope_local_base_freq"});
      return std::move(rope_);
    }
    const ConfigObject parameters(*value, fmt::format("{}, {}", object_.where(), key));
    reject_unknown(parameters);
    if (parameters.find("full_attention") != nullptr) {
      read_both(parameters);
    } else {
      read_one(parameters);
      reject_one_for_both(parameters);
      read_local_base(object_, {"rope_local_base_freq"});
    }
    return std::move(rope_);
  }

 private:
  static void reject_unknown(const ConfigObject& parameters) {
    for (const auto& member : parameters.json().GetObject()) {
      const std::string name = json_text_of(member.name);
      if (std::find(std::begin(kKnown), std::end(kKnown), name) == std::end(kKnown) &&
          !member.value.IsNull()) {
        parameters.refuse(name, "asks for what Assay does not compute");
      }
    }
  }

  // Of layers without and with a window, as gemma3 and olmo3 have them.
  void read_both(const ConfigObject& parameters) {
    if (!config_.architecture->local_rope) {
      parameters.refuse("full_attention", "does not belong to this model_type");
    }
    const auto part = [&](const char* name) {
      const rapidjson::Value* value = parameters.find(name);
      if (value == nullptr) parameters.refuse(name, "is missing", kConfigHint);
      ConfigObject result(*value, fmt::format("{}, {}", parameters.where(), name));
      reject_unknown(result);
      return result;
    };
    read_one(part("full_attention"));
    const ConfigObject local = part("sliding_attention");
    if (type_of(local) != "default") {
      local.refuse("rope_type", fmt::format("is '{}'", type_of(local)),
                   "Assay computes no scaling for layers with a window");
    }
    read_local_base(local, {"rope_theta"});
  }

  void read_local_base(const ConfigObject& object, KeyNames names) {
    const Architecture& architecture = *config_.architecture;
    if (!architecture.local_rope) return;
    const bool own = architecture.local_rope_base > 0.0;
    const double base = object.positive(names, own ? architecture.local_rope_base : base_);
    if (own || base != base_) rope_.numbers[hyperparameter::kLocalRopeBase] = base;
  }

  // transformers takes the class's own base for olmo3's layers with a window, whatever else is
  // stated for all layers; llama.cpp's converter takes what is stated.
  void reject_one_for_both(const ConfigObject& parameters) const {
    if (config_.model->model_type != "olmo3") return;
    const bool is_older = object_.find(kParameters) == nullptr;
    if (is_older && base_ == default_theta(config_)) return;
    parameters.refuse(is_older ? "rope_theta" : "full_attention",
                      is_older ? "is for layers without a window only" : "is missing",
                      "state rope_parameters with full_attention and sliding_attention");
  }

  static std::string type_of(const ConfigObject& parameters) {
    return parameters.text({"rope_type", "type"}, "default");
  }

  // The share of each head that is rotated, and the base.
  void read_plain(const ConfigObject& parameters) {
    const KeyNames shares = {"partial_rotary_factor", "rotary_pct", "rope_pct", "rope_percent",
                             "rope_percentage"};
    const bool inside = parameters.find("partial_rotary_factor") != nullptr;
    const ConfigObject& place = inside ? parameters : object_;
    const std::optional<double> own = default_share(config_);
    const double share = place.positive(shares, own.value_or(1.0));
    const char* key = place.present(shares);
    if (!own && share != 1.0) place.refuse(key, "does not belong to this model_type");
    if (share > 1.0) place.refuse(key, "is above 1");
    rope_.dimensions = static_cast<int64_t>(share * static_cast<double>(config_.head_dim));
    if (rope_.dimensions < 2 || rope_.dimensions % 2 != 0) {
      place.refuse(
          place.find(key) == nullptr ? "head_dim" : key,
          fmt::format("gives {} rotary dimensions; the number must be even", rope_.dimensions));
    }
    const KeyNames thetas = {"rope_theta", "rotary_emb_base"};
    base_ = parameters.find("rope_theta") != nullptr
                ? parameters.positive({"rope_theta"})
                : object_.positive(thetas, default_theta(config_));
    rope_.numbers[hyperparameter::kRopeBase] = base_;
  }

  void read_one(const ConfigObject& parameters) {
    read_plain(parameters);
    if (parameters.find(kOriginal) != nullptr) {
      rope_.original_context_length = parameters.whole({kOriginal}, kMaxOriginalPositions);
    }
    const std::string type = type_of(parameters);
    const Architecture& architecture = *config_.architecture;
    // Dynamic scaling begins behind the context, where no session goes.
    if (type == "default" || type == "dynamic") return;
    if (type == "linear") {
      rope_.scaling = "linear";
      rope_.numbers[hyperparameter::kRopeFactor] = parameters.positive({"factor"});
    } else if (type == "yarn") {
      read_yarn(parameters);
    } else if (type == "llama3" && architecture.rope_freqs) {
      rope_.factors["rope_freqs.weight"] = llama3_divisors(parameters, rope_.dimensions, base_);
    } else if ((type == "longrope" || type == "su") && architecture.rope_long_short) {
      read_longrope(parameters);
    } else {
      parameters.refuse(
          parameters.present({"rope_type", "type"}),
          fmt::format("is '{}', which Assay does not compute for '{}'", type, architecture.name));
    }
  }

  void read_yarn(const ConfigObject& parameters) {
    rope_.scaling = "yarn";
    const double factor = parameters.positive({"factor"});
    rope_.numbers[hyperparameter::kRopeFactor] = factor;
    rope_.numbers[hyperparameter::kYarnBetaFast] = parameters.positive({"beta_fast"}, 32.0);
    rope_.numbers[hyperparameter::kYarnBetaSlow] = parameters.positive({"beta_slow"}, 1.0);
    const bool has_scales =
        parameters.find("mscale") != nullptr && parameters.find("mscale_all_dim") != nullptr;
    if (parameters.find("attention_factor") != nullptr) {
      rope_.numbers[hyperparameter::kYarnAttentionFactor] =
          parameters.positive({"attention_factor"});
    } else if (has_scales) {
      rope_.numbers[hyperparameter::kYarnAttentionFactor] =
          mscale(factor, parameters.positive({"mscale"})) /
          mscale(factor, parameters.positive({"mscale_all_dim"}));
    }
    if (config_.architecture->yarn_log_multiplier && parameters.find("mscale_all_dim") != nullptr) {
      rope_.numbers[hyperparameter::kYarnLogMultiplier] =
          0.1 * parameters.positive({"mscale_all_dim"});
      rope_.numbers.try_emplace(hyperparameter::kYarnAttentionFactor, mscale(factor, 1.0));
    }
    const bool whole_pairs = parameters.flag("truncate", true);
    if (whole_pairs != config_.architecture->yarn_whole_pairs) rope_.yarn_whole_pairs = whole_pairs;
  }

  void read_longrope(const ConfigObject& parameters) {
    const int64_t half = rope_.dimensions / 2;
    rope_.factors["rope_factors_long.weight"] = parameters.factors("long_factor", half);
    rope_.factors["rope_factors_short.weight"] = parameters.factors("short_factor", half);
    const auto context =
        static_cast<double>(object_.whole({"max_position_embeddings"}, kMaxOriginalPositions));
    const double original = rope_.original_context_length > 0
                                ? static_cast<double>(rope_.original_context_length)
                                : context;
    const double scale = rope_.original_context_length > 0 ? context / original
                                                           : parameters.positive({"factor"}, 1.0);
    double factor = 1.0;
    if (scale > 1.0 && original > 1.0)
      factor = std::sqrt(1.0 + std::log(scale) / std::log(original));
    rope_.numbers[hyperparameter::kRopeAttentionFactor] =
        parameters.positive({"attention_factor"}, factor);
  }

  const ConfigObject& object_;
  const HfConfig& config_;
  RopeConfig rope_;
  double base_ = 0.0;
};

}  // namespace

RopeConfig read_rope_config(const ConfigObject& object, const HfConfig& config) {
  return RopeReader(object, config).read();
}

}  // namespace assay
