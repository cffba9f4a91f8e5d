#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "assay/mistakes/llama3_mistake.h"
#include "assay/mistakes/rotation.h"
#include "assay/mistakes/unwanted_rotation.h"
#include "engine/rope_table.h"
#include "kernels/half.h"

// How a rotation is scaled, how much of a head it turns, and which layers have which rotation.
namespace assay::mistakes {
namespace {

constexpr double kDefaultBase = 10000.0;

using ConfigEdit = std::function<void(ModelConfig&)>;

bool has_model(const Network& network, Op) {
  return network.model != nullptr;
}

const ModelConfig& config_of(const Network& network) {
  return network.model->config();
}

// The frequencies of the op's layer with other hyperparameters.
std::vector<double> frequencies_with(const ConfigEdit& edit, const Network& network, Op op) {
  ModelConfig config = config_of(network);
  const bool local = config.layer(op.layer).local_rope;
  edit(config);
  return rotary_frequencies(config, local ? std::vector<float>() : network.rope_factors, local);
}

// A rotation with the frequencies of other hyperparameters, where those make a difference.
Mistake of_config(std::string cause, std::string text, const ConfigEdit& edit,
                  std::vector<Injected> faults = {}) {
  return {.cause = std::move(cause),
          .text = plainly(std::move(text)),
          .edit = rotated([edit](Rotation& rotation, const OpContext& context) {
            rotation.settings.frequencies = frequencies_with(edit, context.network, context.op());
          }),
          .possible =
              [edit](const Network& network, Op op) {
                return network.model != nullptr && network.rope &&
                       frequencies_with(edit, network, op) != network.rope_at(op).frequencies;
              },
          .faults = std::move(faults)};
}

std::string needs_factors(const Model& model) {
  if (std::string reason = needs_rotary(model); !reason.empty()) return reason;
  const bool plain = model.rope_factors_short.empty() && model.config().rope_freq_scale == 1.0;
  return plain ? "its frequencies have no factors" : "";
}

std::string needs_two_factors(const Model& model) {
  return model.rope_factors_short == model.rope_factors_long
             ? "it has no short and long frequency factors"
             : "";
}

std::string needs_attention_factor(const Model& model) {
  if (std::string reason = needs_rotary(model); !reason.empty()) return reason;
  return model.config().rope_attn_factor == 1.0 ? "its rotation has no attention factor" : "";
}

double published_factor(const ModelConfig& config) {
  return 0.1 * std::log(1.0 / config.rope_freq_scale) + 1.0;
}

bool states_factor(const ModelConfig& config) {
  return config.yarn && !(std::abs(config.rope_attn_factor - published_factor(config)) <= 1e-6);
}

// Where the bases are equal only the scaling of the layers differs, which has mistakes of its own.
bool has_two_bases(const ModelConfig& config) {
  return config.local_rope_freq_base > 0.0 && config.local_rope_freq_base != config.rope_freq_base;
}

void leave_factors_out(Rotation& rotation) {
  std::vector<double>& frequencies = rotation.settings.frequencies;
  frequencies = rope_frequencies(rotation.settings.base, frequencies.size());
}

// How many of the first pairs turn; 0 where all do, or where others behind them turn, too.
size_t pairs_that_turn(const Network& network, Op op) {
  if (!network.rope || network.model == nullptr) return 0;
  constexpr double kStill = 1e20;
  const std::vector<double> factors = factors_of(network.rope_at(op));
  const auto still = std::ranges::find_if(factors, [](double each) { return each > kStill; });
  const bool all = still != factors.end() &&
                   std::all_of(still, factors.end(), [](double each) { return each > kStill; });
  return all ? static_cast<size_t>(still - factors.begin()) : 0;
}

std::string needs_pairs_that_turn(const Model& model) {
  constexpr float kStill = 1e20F;
  const bool any = !model.rope_factors_short.empty() && model.rope_factors_short.back() > kStill &&
                   model.rope_factors_short.front() < kStill;
  return any ? "" : "all pairs of a head turn";
}

// The rotation of the other kind of layers, with heads of this one's size.
void take_other_rotation(Rotation& rotation, const RopeSettings& other) {
  std::vector<double> frequencies = std::move(rotation.settings.frequencies);
  const int64_t head_dim = rotation.settings.head_dim;
  rotation.settings = other;
  if (other.head_dim == head_dim) return;
  rotation.settings.head_dim = head_dim;
  rotation.settings.frequencies = rope_frequencies(other.base, frequencies.size());
}

void multiply_by_factors(Rotation& rotation, const OpContext&) {
  const std::vector<double> factors = factors_of(rotation.settings);
  for (size_t i = 0; i < factors.size(); ++i) {
    rotation.settings.frequencies[i] *= factors[i] * factors[i];
  }
}

void swap_short_and_long_factors(Rotation& rotation, const OpContext& context) {
  const Model& model = *context.network.model;
  const auto with_short = rotary_frequencies(model.config(), model.rope_factors_short);
  const auto with_long = rotary_frequencies(model.config(), model.rope_factors_long);
  std::vector<double>& frequencies = rotation.settings.frequencies;
  frequencies = frequencies == with_short ? with_long : with_short;
}

// Where YaRN multiplies the attention's scores too.
bool scales_scores(const Network& network, Op) {
  return network.model != nullptr && config_of(network).yarn_score_factor != 1.0;
}

void run_with_unscaled_scores(const OpContext& context, AttentionCall call, Kernels& kernels) {
  call.shape.scale = static_cast<float>(static_cast<double>(call.shape.scale) /
                                        config_of(context.network).yarn_score_factor);
  kernels.run(call);
}

bool scales_by_yarn(const Network& network, Op) {
  return network.model != nullptr && network.rope && config_of(network).yarn;
}

// Lengths that engines take for the original context: that of the model, by and without the factor,
// that by factors, and defaults.
std::vector<double> other_contexts(const Network& network) {
  const ModelConfig& config = config_of(network);
  const auto context = static_cast<double>(config.context_length);
  std::vector<double> lengths = {context, context * config.rope_freq_scale};
  for (double length = 512; length <= 131072; length *= 2) lengths.push_back(length);
  const auto own = static_cast<double>(config.rope_original_context_length);
  for (double times = 2; times <= 64; times *= 2) lengths.push_back(times * own);
  std::erase_if(lengths, [own](double length) { return length < 1.0 || length == own; });
  std::ranges::sort(lengths);
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  return lengths;
}

// By the factor of the scaling, with and without what YaRN multiplies cosines and sines by.
std::vector<Mistake> yarn_mistakes() {
  std::vector<Mistake> mistakes;
  for (const bool keeps_factor : {false, true}) {
    Mistake linear =
        of_config("rope_scaling", "divides all positions by the factor: linear for YaRN",
                  [](ModelConfig& config) { config.yarn.reset(); });
    linear.edit = rotated([keeps_factor](Rotation& rotation, const OpContext& context) {
      rotation.settings.frequencies = frequencies_with(
          [](ModelConfig& config) { config.yarn.reset(); }, context.network, context.op());
      if (!keeps_factor) rotation.settings.factor = 1.0;
    });
    mistakes.push_back(std::move(linear));
  }
  const UnsupportedReason needs_yarn =
      needs("YaRN", [](const ModelConfig& config) { return config.yarn.has_value(); });
  mistakes.front().faults = {
      of_table("rope-linear-for-yarn", "positions are divided by YaRN's factor alone", needs_yarn)};
  mistakes.push_back(of_config(
      "rope_scaling", "takes YaRN's default betas, 32 and 1, for those of the file",
      [](ModelConfig& config) {
        if (config.yarn) config.yarn = Yarn{.extrapolation = config.yarn->extrapolation};
      },
      {of_table("rope-yarn-betas", "YaRN's default betas are taken for the file's",
                needs("other betas of YaRN than the default", [](const ModelConfig& config) {
                  return config.yarn && (config.yarn->beta_fast != Yarn().beta_fast ||
                                         config.yarn->beta_slow != Yarn().beta_slow);
                }))}));
  // The borders of the ramp follow the base.
  mistakes.push_back(
      {.cause = "rope_base",
       .text =
           [](const Network& network, double base) {
             return fmt::format("rotates with the frequency base {:.0f} in place of {:.0f}", base,
                                config_of(network).rope_freq_base);
           },
       .edit = rotated([](Rotation& rotation, const OpContext& context) {
         rotation.settings.frequencies = frequencies_with(
             [base = context.parameter](ModelConfig& config) { config.rope_freq_base = base; },
             context.network, context.op());
       }),
       .possible = scales_by_yarn,
       .grid = usual_bases});
  mistakes.push_back(
      {.cause = "rope_scaling",
       .text =
           [](const Network& network, double length) {
             return fmt::format("takes {:.0f} for YaRN's original context, which is {}", length,
                                config_of(network).rope_original_context_length);
           },
       .edit = rotated([](Rotation& rotation, const OpContext& context) {
         const auto length = static_cast<int64_t>(context.parameter);
         rotation.settings.frequencies = frequencies_with(
             [length](ModelConfig& config) { config.rope_original_context_length = length; },
             context.network, context.op());
       }),
       .possible = scales_by_yarn,
       .grid = other_contexts,
       .faults = {of_table("rope-yarn-context", "8 times the original context is taken for YaRN's",
                           needs_yarn, [](const OpContext& context) {
                             const ModelConfig& config = config_of(context.network);
                             return 8.0 * static_cast<double>(config.rope_original_context_length);
                           })}});
  KernelHooks unscaled = rotated([](Rotation& rotation, const OpContext&) {
    leave_factors_out(rotation);
    rotation.settings.factor = 1.0;
  });
  unscaled.attention = run_with_unscaled_scores;
  mistakes.push_back({.cause = "rope_scaling",
                      .text = plainly("leaves YaRN out of the rotation and of the scores"),
                      .edit = std::move(unscaled),
                      .possible = scales_scores,
                      .together = true});
  Mistake borders = of_config("rope_scaling", "", [](ModelConfig& config) {
    config.yarn_whole_pairs = !config.yarn_whole_pairs;
  });
  borders.text = [](const Network& network, double) {
    return std::string(config_of(network).yarn_whole_pairs ? "does not round" : "rounds") +
           " the borders of YaRN's ramp to whole pairs";
  };
  mistakes.push_back(std::move(borders));
  return mistakes;
}

std::vector<Mistake> factor_mistakes() {
  return {
      {.cause = "rope_scaling",
       .text = plainly("leaves out the factors of the frequencies"),
       .edit = rotated([](Rotation& rotation, const OpContext&) { leave_factors_out(rotation); }),
       .possible = has_factors,
       .faults = {of_table("rope-factors-missing", "the factors of the frequencies are left out",
                           needs_factors)}},
      {.cause = "rope_scaling",
       .text = plainly("leaves out the factors of the frequencies and that of the rotation"),
       .edit = rotated([](Rotation& rotation, const OpContext&) {
         leave_factors_out(rotation);
         rotation.settings.factor = 1.0;
       }),
       .possible = [](const Network& network,
                      Op op) { return has_factors(network, op) && has_table_factor(network, op); }},
      {.cause = "rope_scaling",
       .text = plainly("reads neither base nor scaling: rotates with the frequency base 10000"),
       .edit = rotated([](Rotation& rotation, const OpContext&) {
         rotation.settings.base = kDefaultBase;
         leave_factors_out(rotation);
         rotation.settings.factor = 1.0;
       }),
       .possible =
           [](const Network& network, Op op) {
             return has_model(network, op) && has_factors(network, op) &&
                    config_of(network).rope_freq_base != kDefaultBase;
           }},
      {.cause = "rope_scaling",
       .text = plainly("multiplies the frequencies by their factors"),
       .edit = rotated(multiply_by_factors),
       .possible = has_factors,
       .faults = {of_table("rope-factors-multiply",
                           "the factors multiply the frequencies in place of dividing them",
                           needs_factors)}},
      {.cause = "rope_scaling",
       .text = plainly("takes long factors for short ones, or the reverse"),
       .edit = rotated(swap_short_and_long_factors),
       .possible =
           [](const Network& network, Op) {
             return network.model != nullptr && needs_two_factors(*network.model).empty();
           },
       .faults = {of_table("rope-factors-long-for-short", "long factors for short, and the reverse",
                           needs_two_factors)}},
      {.cause = "rope_scaling",
       .text = plainly("scales the rotation of layers with a window too"),
       .edit = rotated([](Rotation& rotation, const OpContext& context) {
         const std::vector<double> factors = factors_of(*context.network.rope);
         for (size_t i = 0; i < factors.size(); ++i) {
           rotation.settings.frequencies[i] /= factors[i];
         }
         rotation.settings.factor = context.network.rope->factor;
       }),
       .possible =
           [](const Network& network, Op op) {
             return has_model(network, op) && config_of(network).layer(op.layer).local_rope &&
                    !factors_of(*network.rope).empty() &&
                    network.rope_at(op).head_dim == network.rope->head_dim;
           },
       .faults = {of_table(
           "rope-scaling-in-windows", "layers with a window have the scaling of the others",
           needs("scaling of some layers alone",
                 [](const ModelConfig& config) {
                   return config.local_rope_freq_base > 0.0 && config.rope_freq_scale != 1.0;
                 }))}},
      {.cause = "rope_dimensions",
       .text = plainly("turns the first elements of a head alone, as if they were all of it, and "
                       "not the first pairs of the whole head"),
       .edit = rotated([](Rotation& rotation, const OpContext& context) {
         const size_t count = pairs_that_turn(context.network, context.op());
         if (count == 0) return;
         rotation.settings.frequencies = rope_frequencies(rotation.settings.base, count);
       }),
       .possible = [](const Network& network, Op op) { return pairs_that_turn(network, op) > 0; },
       .faults = {of_table("rope-part-for-pairs",
                           "a part of each head is turned for the first pairs of the whole",
                           needs_pairs_that_turn)}},
      {.cause = "rope_attention_factor",
       .text = plainly("leaves out the factor of the rotation"),
       .edit =
           rotated([](Rotation& rotation, const OpContext&) { rotation.settings.factor = 1.0; }),
       .possible = has_table_factor,
       .faults = {of_table("rope-attention-factor",
                           "the attention factor of the rotation is left out",
                           needs_attention_factor)}},
      {.cause = "rope_attention_factor",
       .text = plainly("applies the factor of the rotation twice"),
       .edit = rotated([](Rotation& rotation, const OpContext&) {
         rotation.settings.factor *= rotation.settings.factor;
       }),
       .possible = has_table_factor},
      {.cause = "rope_attention_factor",
       .text = plainly("multiplies the factor of the rotation by 0.1 ln(factor) + 1"),
       .edit = rotated([](Rotation& rotation, const OpContext& context) {
         rotation.settings.factor *= published_factor(config_of(context.network));
       }),
       .possible =
           [](const Network& network, Op op) {
             return has_model(network, op) && states_factor(config_of(network));
           }},
      {.cause = "rope_attention_factor",
       .text = plainly("takes 0.1 ln(factor) + 1 for the factor of the rotation"),
       .edit = rotated([](Rotation& rotation, const OpContext& context) {
         rotation.settings.factor = published_factor(config_of(context.network));
       }),
       .possible =
           [](const Network& network, Op op) {
             return has_model(network, op) && states_factor(config_of(network));
           },
       .faults = {of_table("rope-attention-factor-stated",
                           "0.1 ln(factor) + 1 is taken for the attention factor of the file",
                           needs("attention factor of its own for YaRN", states_factor))}}};
}

// Layers with the rotation of others.
std::vector<Mistake> window_layer_mistakes() {
  const UnsupportedReason needs_two_bases = needs("second base", has_two_bases);
  std::vector<Mistake> mistakes;
  for (const bool local : {true, false}) {
    mistakes.push_back(
        {.cause = "rope_base",
         .text = plainly(local ? "rotates layers with a window as those without"
                               : "rotates layers without a window as those with one"),
         .edit = rotated([local](Rotation& rotation, const OpContext& context) {
           take_other_rotation(rotation,
                               local ? *context.network.rope : context.network.local_rope);
         }),
         .possible =
             [local](const Network& network, Op op) {
               return has_model(network, op) && has_two_bases(config_of(network)) &&
                      config_of(network).layer(op.layer).local_rope == local;
             },
         .faults = {of_table(local ? "rope-global-base" : "rope-local-base",
                             local ? "layers with a window have the rotation of the others"
                                   : "layers without a window have the rotation of the others",
                             needs_two_bases)}});
  }
  return mistakes;
}

// A divisor of the head, or what one of the usual factors leaves of it: tenths and eighths.
bool is_usual_part(int64_t dim, int64_t head_dim) {
  if (head_dim % dim == 0) return true;
  const auto is_of = [&](int64_t parts) {
    for (int64_t i = 1; i < parts; ++i) {
      if (head_dim * i / parts == dim) return true;
    }
    return false;
  };
  return is_of(10) || is_of(8);
}

std::vector<Mistake> dimension_mistakes() {
  const auto set_dimensions = [](double dimensions) {
    return
        [dimensions](ModelConfig& config) { config.rotary_dim = static_cast<int64_t>(dimensions); };
  };
  return {
      {.cause = "rope_dimensions",
       .text =
           [](const Network& network, double dimensions) {
             return fmt::format("rotates {:.0f} of the {} elements of a head in place of {}",
                                dimensions, network.head_dim, config_of(network).rotary_dim);
           },
       .edit = rotated([set_dimensions](Rotation& rotation, const OpContext& context) {
         rotation.settings.frequencies =
             frequencies_with(set_dimensions(context.parameter), context.network, context.op());
         if (rotation.settings.first_turned > 0) {
           rotation.settings.first_turned =
               context.network.head_dim - static_cast<int64_t>(context.parameter);
         }
       }),
       .possible = [](const Network& network,
                      Op op) { return has_model(network, op) && network.rope_factors.empty(); },
       .grid =
           [](const Network& network) {
             std::vector<double> grid;
             for (int64_t dim = 2; dim <= network.head_dim; dim += 2) {
               if (is_usual_part(dim, network.head_dim) && dim != config_of(network).rotary_dim) {
                 grid.push_back(static_cast<double>(dim));
               }
             }
             return grid;
           },
       .faults = {of_table(
           "rope-all-dimensions", "the whole of each head is turned",
           needs("rotation of a part of each head",
                 [](const ModelConfig& config) { return config.rotary_dim < config.head_dim; }),
           [](const OpContext& context) {
             return static_cast<double>(context.network.head_dim);
           })}},
      {.cause = "rope_dimensions",
       .text = plainly("rotates the first elements of a head in place of the last"),
       .edit = rotated(
           [](Rotation& rotation, const OpContext&) { rotation.settings.first_turned = 0; }),
       .possible = [](const Network& network,
                      Op op) { return network.rope && network.rope_at(op).first_turned > 0; },
       .faults = {of_table(
           "rope-first-dimensions", "the first elements of a head are turned in place of the last",
           needs("rotation of the end of each head",
                 [](const ModelConfig& config) { return config.first_turned() > 0; }))}},
      {.cause = "rope_dimensions",
       .text = plainly("takes the frequencies that a rotation of the whole head has"),
       .edit = rotated([](Rotation& rotation, const OpContext&) {
         RopeSettings& settings = rotation.settings;
         const size_t pairs = settings.frequencies.size();
         settings.frequencies =
             rope_frequencies(settings.base, static_cast<size_t>(settings.head_dim / 2));
         settings.frequencies.resize(pairs);
       }),
       .possible =
           [](const Network& network, Op op) {
             return has_model(network, op) && !has_factors(network, op) &&
                    config_of(network).rotary_dim < network.head_dim;
           },
       .faults = {of_table(
           "rope-frequencies-of-head", "the frequencies are those of a rotation of the whole head",
           needs("plain rotation of a part of each head", [](const ModelConfig& config) {
             return config.rotary_dim < config.head_dim && !config.yarn &&
                    config.rope_freq_scale == 1.0;
           }))}}};
}

}  // namespace

std::vector<Mistake> rope_scaling_mistakes() {
  std::vector<Mistake> mistakes;
  for (auto part :
       {factor_mistakes(), yarn_mistakes(), window_layer_mistakes(), dimension_mistakes()}) {
    for (Mistake& mistake : part) mistakes.push_back(std::move(mistake));
  }
  mistakes.push_back(llama3_base_mistake());
  mistakes.push_back(unwanted_mistake());
  return mistakes;
}

}  // namespace assay::mistakes
