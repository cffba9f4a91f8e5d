#include "engine/hf/rope_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <optional>
#include <utility>

#include "base/json_file.h"
#include "engine/model_config.h"
#include "model/hyperparameter_keys.h"

namespace assay {
namespace {

constexpr int64_t kMaxOriginalPositions = int64_t{1} << 31;
constexpr int64_t kMaxSection = 65536;
constexpr char kParameters[] = "rope_parameters";
constexpr char kScaling[] = "rope_scaling";
constexpr char kShare[] = "partial_rotary_factor";
constexpr char kLocalBase[] = "rope_local_base_freq";
constexpr char kLayerBases[] = "layer_rope_theta";  // 0 of layers that are not rotated
constexpr char kAlpha[] = "alpha";
constexpr char kOriginal[] = "original_max_position_embeddings";
constexpr char kTemperature[] = "llama_4_scaling_beta";
constexpr char kShortMscale[] = "short_mscale";
constexpr char kLongMscale[] = "long_mscale";

// All that a scaling may state; another key is a computation that Assay does not know.
constexpr std::string_view kKnown[] = {"rope_type",
                                       "type",
                                       "rope_theta",
                                       "partial_rotary_factor",
                                       "factor",
                                       kOriginal,
                                       "beta_fast",
                                       "beta_slow",
                                       "attention_factor",
                                       "truncate",
                                       "long_factor",
                                       "short_factor",
                                       "mscale",
                                       "mscale_all_dim",
                                       "low_freq_factor",
                                       "high_freq_factor",
                                       "full_attention",
                                       "sliding_attention",
                                       kAlpha};
// And of Phi-3.5-MoE.
constexpr std::string_view kKnownMscales[] = {kShortMscale, kLongMscale};
// And of networks that may see images: how positions in these share the pairs.
constexpr std::string_view kKnownOfSections[] = {"mrope_section", "mrope_interleaved"};
// And of networks whose scores have a temperature; the context's length stands outside, too.
constexpr std::string_view kKnownBesideTemperature[] = {kTemperature, "max_position_embeddings"};

// The rescaling of Llama 3.1: wavelengths up to original / high stay, those from original / low on
// are stretched by the factor, and between them the divisor is interpolated.
std::vector<float> llama3_divisors(const ConfigObject& scaling, int64_t dimensions, double base) {
  const double factor = scaling.positive({"factor"});
  const double low = scaling.positive({"low_freq_factor"});
  const double high = scaling.positive({"high_freq_factor"});
  const auto original = static_cast<double>(scaling.whole({kOriginal}, kMaxOriginalPositions));
  if (!(high >= low)) scaling.refuse("high_freq_factor", "is below low_freq_factor");
  std::vector<float> divisors;
  for (int64_t i = 0; i < dimensions; i += 2) {
    const double exponent = static_cast<double>(i) / static_cast<double>(dimensions);
    const double wavelength = 2.0 * std::numbers::pi * std::pow(base, exponent);
    const double turns = original / wavelength;
    const double kept = turns < low ? 0.0 : 1.0;  // where the two are one, as in Llama 4
    const double smooth = high > low ? std::clamp((turns - low) / (high - low), 0.0, 1.0) : kept;
    divisors.push_back(static_cast<float>(1.0 / ((1.0 - smooth) / factor + smooth)));
  }
  return divisors;
}

double mscale(double factor, double scale) {
  return factor > 1.0 ? 0.1 * scale * std::log(factor) + 1.0 : 1.0;
}

// The one that all layers have that are rotated; nothing where config.json does not list them.
std::optional<double> base_of_layers(const ConfigObject& object, const HfConfig& config) {
  std::optional<double> one;
  for (const double base : bases_of_layers(object, config)) {
    if (base == 0.0) continue;
    if (one && base != *one) {
      object.refuse(kLayerBases, fmt::format("has {} and {}", *one, base),
                    "Assay runs models where all layers that are rotated have one base");
    }
    one = base;
  }
  return one;
}

class RopeReader {
 public:
  RopeReader(const ConfigObject& object, const HfConfig& config)
      : object_(object), config_(config) {}

  RopeConfig read() {
    if (config_.model->rope_base > 0.0) {
      read_plain(object_);
      return std::move(rope_);
    }
    rope_.original_context_length =
        object_.find(kOriginal) == nullptr ? 0 : object_.whole({kOriginal}, kMaxOriginalPositions);
    if (config_.model->model_type == "cohere2_moe" && object_.find(kScaling) != nullptr) {
      object_.refuse(kScaling, "is stated, which transformers does not read of this model_type",
                     "state rope_parameters");
    }
    const char* key = object_.present({kParameters, kScaling});
    const rapidjson::Value* value = object_.find(key);
    if (value == nullptr) value = object_.default_of(kParameters);  // also where null is stated
    if (value == nullptr) {
      read_plain(object_);
      read_local_base(object_, {kLocalBase});
      return std::move(rope_);
    }
    const ConfigObject parameters(*value, fmt::format("{}, {}", object_.where(), key));
    reject_unknown(parameters);
    read_sections(parameters);
    if (rotates_twice() && object_.find(kScaling) == value && !parameters.states("rope_type")) {
      parameters.refuse("rope_type", "is missing", "of this model_type no other name is read");
    }
    if (parameters.find("full_attention") != nullptr) {
      read_both(parameters);
    } else {
      read_one(parameters);
      reject_one_for_both(parameters);
      read_local_base(object_, {kLocalBase});
    }
    return std::move(rope_);
  }

 private:
  // Whether it may state how positions in images share the pairs of a head.
  bool has_sections() const {
    return config_.architecture->rope_sections != RopeSections::kNone ||
           config_.model->ignores_sections;
  }

  // Of positions in images, which a file has to state.
  void read_sections(const ConfigObject& parameters) {
    if (!has_sections()) return;
    const std::vector<int64_t> stated = parameters.wholes("mrope_section", kMaxSection);
    if (!stated.empty() && stated.size() != 3) {
      parameters.refuse("mrope_section", fmt::format("has {} entries, not 3", stated.size()));
    }
    for (size_t i = 0; i < stated.size(); ++i) rope_.sections[i] = static_cast<int32_t>(stated[i]);
  }

  void reject_unknown(const ConfigObject& parameters) const {
    const auto is_known = [&](const std::string& name) {
      return std::ranges::find(kKnown, name) != std::end(kKnown) ||
             (has_sections() &&
              std::ranges::find(kKnownOfSections, name) != std::end(kKnownOfSections)) ||
             (config_.model->own_mscales &&
              std::ranges::find(kKnownMscales, name) != std::end(kKnownMscales)) ||
             (config_.architecture->temperature &&
              std::ranges::find(kKnownBesideTemperature, name) !=
                  std::end(kKnownBesideTemperature));
    };
    for (const auto& member : parameters.json().GetObject()) {
      const std::string name = json_text_of(member.name);
      if (is_known(name) || member.value.IsNull()) continue;
      parameters.refuse(name, "asks for what Assay does not compute");
    }
  }

  // What transformers computes with whatever the type of the rotation is, and cannot do without.
  void read_temperature(const ConfigObject& parameters) {
    rope_.numbers[hyperparameter::kTemperature] = parameters.positive({kTemperature});
    if (parameters.find(kOriginal) == nullptr && type_of(parameters) != "yarn") {
      parameters.refuse(kOriginal, "is missing", kConfigHint);
    }
  }

  // Whether layers with a window may have a base of their own, as those of gemma3 and olmo3.
  bool rotates_twice() const {
    return config_.architecture->local_rope && config_.model->window != HfWindow::kNone;
  }

  // Of layers without and with a window.
  void read_both(const ConfigObject& parameters) {
    if (!rotates_twice()) {
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
    if (object_.default_of(kShare) != nullptr) check_share(local);
    read_local_base(local, {"rope_theta"});
  }

  // Layers with a window turn as much of a head as the others.
  void check_share(const ConfigObject& local) const {
    const double share = local.positive({kShare}, object_.default_of(kShare)->GetDouble());
    const auto dimensions = static_cast<int64_t>(share * static_cast<double>(config_.head_dim));
    if (dimensions == rope_.dimensions) return;
    local.refuse(kShare,
                 fmt::format("gives {} rotary dimensions, and layers without a window {}",
                             dimensions, rope_.dimensions),
                 "Assay runs models where it is the same in all layers");
  }

  void read_local_base(const ConfigObject& object, KeyNames names) {
    const Architecture& architecture = *config_.architecture;
    if (!architecture.local_rope) return;
    const bool own = architecture.local_rope_base > 0.0;
    const double base = object.positive(names, object_.positive({kLocalBase}, base_));
    if (own || base != base_) rope_.numbers[hyperparameter::kLocalRopeBase] = base;
  }

  // In the newer form transformers reads the two kinds of layers by their names, and nothing else.
  void reject_one_for_both(const ConfigObject& parameters) const {
    const bool is_stated = object_.states(kParameters) && object_.find(kParameters) != nullptr;
    if (!rotates_twice() || !is_stated) return;
    parameters.refuse("full_attention", "is missing",
                      "state rope_parameters with full_attention and sliding_attention");
  }

  // Older files call a rotation by positions in images one of its own.
  std::string type_of(const ConfigObject& parameters) const {
    const std::string type = parameters.text({"rope_type", "type"}, "default");
    return type == "mrope" && has_sections() ? "default" : type;
  }

  // A part of the pairs turns, with the frequencies that it has in a rotation of the whole head.
  bool is_proportional(const ConfigObject& parameters) const {
    return config_.architecture->windowed_heads && !config_.architecture->value_lengths &&
           type_of(parameters) == "proportional";
  }
  // The others turn so little that no float shows it, as converters have it.
  void set_proportional(int64_t n_pairs) {
    std::vector<float> divisors(static_cast<size_t>(config_.head_dim / 2), 1e30F);
    std::fill_n(divisors.begin(), n_pairs, 1.0F);
    rope_.factors["rope_freqs.weight"] = std::move(divisors);
  }

  // The name by which this kind of model has the key: the one with a default.
  const char* name_of(KeyNames names) const {
    for (const char* name : names) {
      if (object_.default_of(name) != nullptr) return name;
    }
    return *names.begin();
  }

  // Of heads whose end is rotated, the share of that end: all of it, whatever share of the whole
  // head is stated, which has to give the end.
  double whole_share(const ConfigObject& place, const char* key) const {
    const auto end = static_cast<double>(config_.head_dim);
    const double whole =
        end + static_cast<double>(object_.whole({"qk_nope_head_dim"}, kMaxSection));
    const bool is_stated = object_.states(kParameters) || &place == &object_;
    if (is_stated && std::trunc(place.positive({key}, end / whole) * whole) != end) {
      place.refuse(key, fmt::format("does not give qk_rope_head_dim, {}", config_.head_dim));
    }
    return 1.0;
  }

  // The share of each head that is rotated, and the base.
  void read_plain(const ConfigObject& parameters) {
    const bool is_nested = &parameters != &object_;
    const bool has_share = is_nested && parameters.find(kShare) != nullptr;
    const ConfigObject& place = has_share ? parameters : object_;
    const char* own = name_of({kShare, "rotary_pct"});
    const char* key = has_share ? kShare : own;
    const double share =
        config_.model->share_of_whole_head ? whole_share(place, key) : place.positive({key}, 1.0);
    const bool proportional = is_nested && is_proportional(parameters);
    if (object_.default_of(own) == nullptr && share != 1.0 && !proportional)
      place.refuse(key, "does not belong to this model_type");
    if (share > 1.0) place.refuse(key, "is above 1");
    rope_.dimensions = static_cast<int64_t>(share * static_cast<double>(config_.head_dim));
    if (proportional) {
      set_proportional(rope_.dimensions / 2);
      rope_.dimensions = config_.head_dim;
    }
    if (!has_share && !object_.states(own) && config_.model->rotary_dim) {
      rope_.dimensions = object_.whole({"rotary_dim"}, config_.head_dim, rope_.dimensions);
    }
    if (rope_.dimensions < 2 || rope_.dimensions % 2 != 0) {
      place.refuse(
          place.find(key) == nullptr ? "head_dim" : key,
          fmt::format("gives {} rotary dimensions; the number must be even", rope_.dimensions));
    }
    base_ = is_nested && parameters.find("rope_theta") != nullptr
                ? parameters.positive({"rope_theta"})
            : config_.model->rope_base > 0.0
                ? config_.model->rope_base
                : object_.positive({name_of({"rope_theta", "rotary_emb_base"})});
    if (const std::optional<double> base = base_of_layers(object_, config_)) base_ = *base;
    rope_.numbers[hyperparameter::kRopeBase] = base_;
  }

  void read_one(const ConfigObject& parameters) {
    read_plain(parameters);
    if (parameters.find(kOriginal) != nullptr) {
      rope_.original_context_length = parameters.whole({kOriginal}, kMaxOriginalPositions);
    }
    const std::string type = type_of(parameters);
    const Architecture& architecture = *config_.architecture;
    if (architecture.temperature) read_temperature(parameters);
    if (parameters.find(kAlpha) != nullptr) return stretch_base(parameters);
    const bool is_longrope = type == "longrope" || type == "su";
    if (config_.model->own_mscales && !is_longrope && type != "default") {
      parameters.refuse(
          parameters.present({"rope_type", "type"}),
          fmt::format("is '{}', which Assay does not compute for '{}'", type, architecture.name));
    }
    if (type != "yarn" && type != "default" && scales_scores(architecture.yarn_log_multiplier) &&
        parameters.find("mscale_all_dim") != nullptr) {
      parameters.refuse("mscale_all_dim", fmt::format("scales scores, and the type is '{}'", type),
                        "Assay scales scores so with yarn");
    }
    // Dynamic scaling begins behind the context, where no session goes.
    if (type == "default" || type == "dynamic") return;
    if (type == "linear") {
      rope_.scaling = "linear";
      rope_.numbers[hyperparameter::kRopeFactor] = parameters.positive({"factor"});
    } else if (is_proportional(parameters)) {
      const double factor = parameters.positive({"factor"}, 1.0);
      if (factor == 1.0) return;
      rope_.scaling = "linear";
      rope_.numbers[hyperparameter::kRopeFactor] = factor;
    } else if (type == "yarn") {
      read_yarn(parameters);
    } else if (type == "llama3" && architecture.rope_freqs) {
      rope_.factors["rope_freqs.weight"] = llama3_divisors(parameters, rope_.dimensions, base_);
    } else if (is_longrope && architecture.rope_long_short) {
      read_longrope(parameters);
    } else {
      parameters.refuse(
          parameters.present({"rope_type", "type"}),
          fmt::format("is '{}', which Assay does not compute for '{}'", type, architecture.name));
    }
  }

  // Of Hunyuan, whose dynamic scaling is another base.
  void stretch_base(const ConfigObject& parameters) {
    if (!config_.model->stretched_base || type_of(parameters) != "dynamic") {
      parameters.refuse(kAlpha, "asks for what Assay does not compute");
    }
    base_ = stretched_base(base_, parameters.positive({kAlpha}), rope_.dimensions);
    if (!std::isfinite(base_) || base_ <= 0.0) {
      parameters.refuse(kAlpha, "gives heads of this size no base");
    }
    rope_.numbers[hyperparameter::kRopeBase] = base_;
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
      const double of_angles = parameters.positive({"mscale"});
      const double of_all = parameters.positive({"mscale_all_dim"});
      if (config_.architecture->yarn_log_multiplier == YarnLog::kOfAngles && of_angles == 1.0) {
        rope_.numbers[hyperparameter::kYarnLogMultiplier] = of_all;
      } else {
        rope_.numbers[hyperparameter::kYarnAttentionFactor] =
            mscale(factor, of_angles) / mscale(factor, of_all);
      }
    }
    if (scales_scores(config_.architecture->yarn_log_multiplier) &&
        parameters.find("mscale_all_dim") != nullptr) {
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
    if (config_.model->own_mscales) return read_mscales(parameters);
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

  // What takes the place of the scale that other networks' lengths give.
  void read_mscales(const ConfigObject& parameters) {
    const double factor = parameters.positive({kShortMscale});
    if (parameters.positive({kLongMscale}) != factor) {
      parameters.refuse(kLongMscale, "is not what short_mscale is",
                        "Assay computes one scale for contexts of all lengths");
    }
    rope_.numbers[hyperparameter::kRopeAttentionFactor] = factor;
  }

  const ConfigObject& object_;
  const HfConfig& config_;
  RopeConfig rope_;
  double base_ = 0.0;
};

}  // namespace

std::vector<double> bases_of_layers(const ConfigObject& object, const HfConfig& config) {
  std::vector<double> bases;
  const rapidjson::Value* listed = object.find(kLayerBases);
  if (!config.architecture->rope_pattern || listed == nullptr) return bases;
  if (listed->IsArray()) {
    for (const auto& each : listed->GetArray()) {
      const double base = each.IsNumber() ? each.GetDouble() : -1.0;
      if (base != 0.0 && !(base > 0.0 && is_in_float_range(base))) break;
      bases.push_back(base);
    }
  }
  if (!listed->IsArray() || listed->Size() != bases.size() ||
      std::ssize(bases) != config.n_layers) {
    object.refuse(kLayerBases, fmt::format("is not {} numbers above 0, or 0", config.n_layers));
  }
  return bases;
}

RopeConfig read_rope_config(const ConfigObject& object, const HfConfig& config) {
  return RopeReader(object, config).read();
}

}  // namespace assay
