#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "assay/mistakes/mistake.h"
#include "engine/rope_table.h"

namespace assay::mistakes {
namespace {

constexpr FaultGroup kGroup = FaultGroup::kRotary;
constexpr Checkpoint kQ = Checkpoint::kQRope;
constexpr Checkpoint kK = Checkpoint::kKRope;

// The rotation of a call: its settings and where its rows stand.
struct Rotation {
  RopeSettings settings;
  std::vector<double> positions;
};

KernelHooks edited(std::function<void(Rotation&, const OpContext&)> edit) {
  return {.rope = [edit = std::move(edit)](const OpContext& context, RopeCall call,
                                           Kernels& kernels) {
    const std::vector<int64_t>& positions = context.inputs.positions;
    Rotation rotation{context.network.rope_at(context.op()), {positions.begin(), positions.end()}};
    edit(rotation, context);
    const std::vector<float> table = rope_table(rotation.settings, rotation.positions);
    call.cos_sin = table.data();
    call.pairing = rotation.settings.pairing;
    kernels.run(call);
  }};
}

KernelHooks moved(std::function<double(double position, double by)> move) {
  return edited([move = std::move(move)](Rotation& rotation, const OpContext& context) {
    for (double& position : rotation.positions) position = move(position, context.parameter);
  });
}

// A fault in how Q and K of one layer are turned; found at Q, which is turned first.
Injected of_both(std::string name, std::string what, double parameter = 0) {
  return {.name = std::move(name),
          .group = kGroup,
          .what = std::move(what),
          .at = kQ,
          .unsupported_reason = needs_rotary,
          .parameter = with(parameter),
          .also = {kK}};
}

// A fault in the table of angles, which all layers share.
Injected of_table(std::string name, std::string what, UnsupportedReason reason,
                  std::function<double(const OpContext&)> parameter = {}) {
  return {.name = std::move(name),
          .group = kGroup,
          .what = std::move(what),
          .at = kQ,
          .unsupported_reason = std::move(reason),
          .parameter = std::move(parameter),
          .also = {kK},
          .in_every_layer = true,
          .in_arguments = true};
}

std::string needs_factors(const Model& model) {
  return model.rope_factors_short.empty() ? "its frequencies have no factors" : "";
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

// What the frequencies of the base are divided by; empty where the base is unknown or alone.
std::vector<double> factors_of(const RopeSettings& settings) {
  if (!(settings.base > 0)) return {};
  std::vector<double> factors = rope_frequencies(settings.base, settings.frequencies.size());
  bool any = false;
  for (size_t i = 0; i < factors.size(); ++i) {
    factors[i] /= settings.frequencies[i];
    any = any || std::abs(factors[i] - 1) > 1e-6;
  }
  return any ? factors : std::vector<double>();
}

bool has_factors(const Network& network, Op) {
  return network.rope && !factors_of(*network.rope).empty();
}

bool has_table_factor(const Network& network, Op) {
  return network.rope && network.rope->factor != 1;
}

std::vector<double> base_grid(const Network&) {
  std::vector<double> grid = ratios(100, 1e8, 400);
  for (const double value : {1e4, 1e5, 2.5e5, 5e5, 1e6, 1e7}) grid.push_back(value);
  std::sort(grid.begin(), grid.end());
  return grid;
}

double other_base(const OpContext& context) {
  return context.network.rope->base == 10000.0 ? 500000.0 : 10000.0;
}

std::string rounded(double value) {
  const double unit = std::pow(10, std::floor(std::log10(value)) - 2);
  const double nice = std::round(value / unit) * unit;
  return std::abs(value / nice - 1) < 1e-3 ? fmt::format("{:.15g}", nice)
                                           : fmt::format("{:.4g}", value);
}

std::string pairing_text(const Network& network, double) {
  return network.rope->pairing == RopePairing::kAdjacent
             ? "rotates the halves of a head against each other where adjacent elements are pairs"
             : "rotates adjacent elements where the halves of a head are pairs";
}

std::string multiple_text(const Network&, double by) {
  if (by == 0) return "does not rotate";
  if (by == -1) return "rotates backwards";
  return fmt::format("rotates by {:.4g} times the position", by);
}

std::string base_text(const Network& network, double value) {
  const std::optional<double> known = rope_base(network.rope->frequencies);
  return fmt::format("rotates with the frequency base {}{}", rounded(value),
                     known ? fmt::format(" in place of {}", rounded(*known))
                           : std::string(" and no frequency factors"));
}

std::string base_beside_factors_text(const Network& network, double value) {
  return fmt::format("rotates with the frequency base {} in place of {}", rounded(value),
                     rounded(network.rope->base));
}

void set_base(Rotation& rotation, const OpContext& context) {
  std::vector<double>& frequencies = rotation.settings.frequencies;
  frequencies = rope_frequencies(context.parameter, frequencies.size());
}

void set_base_beside_factors(Rotation& rotation, const OpContext& context) {
  const std::vector<double> factors = factors_of(rotation.settings);
  set_base(rotation, context);
  for (size_t i = 0; i < factors.size(); ++i) rotation.settings.frequencies[i] /= factors[i];
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

void run_with_half_the_dimensions(const OpContext&, RopeCall call, Kernels& kernels) {
  std::vector<float> table(call.cos_sin, call.cos_sin + call.n_tokens * call.rotary_dim);
  const auto width = static_cast<size_t>(call.rotary_dim);
  for (size_t i = 0; i < table.size(); i += 2) {
    if (i % width < width / 2) continue;
    table[i] = 1.0F;
    table[i + 1] = 0.0F;
  }
  call.cos_sin = table.data();
  kernels.run(call);
}

// Rotations at other positions.
std::vector<Mistake> position_mistakes() {
  std::vector<double> shifts;
  for (int by = -16; by <= 16; ++by) {
    if (by != 0) shifts.push_back(by);
  }
  std::vector<double> restarts(64);
  for (size_t i = 0; i < restarts.size(); ++i) restarts[i] = static_cast<double>(i + 1);
  Injected of_k = of_both("rope-k-position-off-by-one",
                          "K alone is turned by the angles of the next position", 1);
  of_k.at = kK;
  std::vector<Mistake> mistakes = {
      {.cause = "rope_position",
       .text = [](const Network&,
                  double by) { return fmt::format("rotates by position {:+.0f}", by); },
       .edit = moved([](double position, double by) { return position + by; }),
       .grid = among(shifts),
       .faults = {of_both("rope-position-off-by-one",
                          "Q and K are turned by the angles of the next position", 1),
                  of_k}},
      {.cause = "rope_position",
       .text = multiple_text,
       .edit = moved([](double position, double by) { return position * by; }),
       .grid = among({-1, 0, 1.0 / 32, 1.0 / 16, 0.125, 0.25, 0.5, 2, 4, 8, 16, 32}),
       .faults = {
           of_both("rope-backwards", "sines have the wrong sign: turned back", -1),
           of_table("rope-linear-scaling", "positions are halved", needs_rotary, with(0.5))}}};
  // What is left out or done twice has the factor of cosines and sines (phi3's) as often.
  for (const int count : {0, 2}) {
    mistakes.push_back(
        {.cause = "rope_position",
         .text = plainly(count == 0 ? "neither rotates nor multiplies by the factor of the rotation"
                                    : "rotates twice, with the factor of the rotation each time"),
         .edit = edited([count](Rotation& rotation, const OpContext&) {
           for (double& position : rotation.positions) position *= count;
           rotation.settings.factor = std::pow(rotation.settings.factor, count);
         }),
         .possible = has_table_factor,
         .faults = {count == 0 ? of_both("rope-missing", "Q and K are not turned")
                               : of_both("rope-twice", "Q and K are turned twice")}});
  }
  mistakes.push_back({.cause = "rope_position",
                      .text = plainly("takes sines for cosines and cosines for sines"),
                      .edit = edited([](Rotation& rotation, const OpContext&) {
                        rotation.settings.sine_for_cosine = true;
                      }),
                      .faults = {of_both("rope-sin-for-cos", "sine and cosine are swapped")}});
  mistakes.push_back(
      {.cause = "rope_position",
       .text =
           [](const Network&, double from) {
             return fmt::format("counts from position 0 again at position {:.0f} and after", from);
           },
       .edit = moved([](double position, double from) { return position >= from ? 0 : position; }),
       .grid = among(restarts)});
  // The same of an engine that evaluates tokens in batches.
  mistakes.push_back({.cause = "rope_position",
                      .edit = edited([](Rotation& rotation, const OpContext& context) {
                        const auto first = static_cast<double>(context.site.first_position);
                        for (double& position : rotation.positions) position -= first;
                      }),
                      .faults = {of_both("rope-restarts-in-decode",
                                         "each batch is turned as if it began at position 0")}});
  return mistakes;
}

// Rotations by other angles from one position to the next.
std::vector<Mistake> frequency_mistakes() {
  return {{.cause = "rope_base",
           .text = base_text,
           .edit = edited(set_base),
           .grid = base_grid,
           .refine = true,
           .faults = {of_table(
               "rope-factors-missing", "the factors of the frequencies are left out", needs_factors,
               [](const OpContext& context) { return context.network.rope->base; })}},
          {.cause = "rope_base",
           .text = plainly("multiplies the frequencies by their factors"),
           .edit = edited(multiply_by_factors),
           .possible = has_factors,
           .faults = {of_table("rope-factors-multiply",
                               "the factors multiply the frequencies in place of dividing them",
                               needs_factors)}},
          {.cause = "rope_base",
           .text = base_beside_factors_text,
           .edit = edited(set_base_beside_factors),
           .possible = has_factors,
           .grid = base_grid,
           .refine = true,
           .faults = {of_table("rope-base", "frequency base 500000 for 10000, or 10000 for another",
                               needs_rotary, other_base)}},
          {.cause = "rope_base",
           .edit = edited(swap_short_and_long_factors),
           .faults = {of_table("rope-factors-long-for-short",
                               "long factors for short, and the reverse", needs_two_factors)}}};
}

}  // namespace

std::vector<Mistake> rope_mistakes() {
  std::vector<Mistake> mistakes = {
      {.cause = "rope_pairing",
       .text = pairing_text,
       .edit = edited([](Rotation& rotation, const OpContext&) {
         RopePairing& pairing = rotation.settings.pairing;
         pairing =
             pairing == RopePairing::kAdjacent ? RopePairing::kHalves : RopePairing::kAdjacent;
       }),
       .faults = {of_both("rope-pairing",
                          "rotary pairs adjacent where they are halves, and the reverse")}}};
  for (Mistake& mistake : position_mistakes()) mistakes.push_back(std::move(mistake));
  for (const Rounding rounding : kRoundings) {
    mistakes.push_back(
        {.cause = "rounding",
         .text = plainly(std::string("rounds the cosines and sines to ") + rounding.type),
         .edit = edited([rounding](Rotation& rotation, const OpContext&) {
           rotation.settings.round = rounding.round;
         })});
    if (rounding.round != kF16Rounding.round) continue;
    mistakes.back().faults = {
        of_both("rope-f16-table", "cosines and sines are rounded to float16")};
  }
  for (Mistake& mistake : frequency_mistakes()) mistakes.push_back(std::move(mistake));
  mistakes.push_back(
      {.edit = {.rope = run_with_half_the_dimensions},
       .faults = {of_both("rope-half-the-dimensions",
                          "only the first half of the rotary dimensions is turned")}});
  mistakes.push_back(
      {.cause = "scale",
       .text = plainly("leaves out the factor of the rotation"),
       .edit = edited([](Rotation& rotation, const OpContext&) { rotation.settings.factor = 1.0; }),
       .possible = has_table_factor,
       .faults = {of_table("rope-attention-factor",
                           "the attention factor of the rotation is left out",
                           needs_attention_factor)}});
  return mistakes;
}

}  // namespace assay::mistakes
