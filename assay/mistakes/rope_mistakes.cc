#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "assay/mistakes/number_text.h"
#include "assay/mistakes/rotation.h"
#include "assay/mistakes/unwanted_rotation.h"

namespace assay::mistakes {
namespace {

KernelHooks moved(std::function<double(double position, double by)> move) {
  return rotated([move = std::move(move)](Rotation& rotation, const OpContext& context) {
    for (double& position : rotation.positions) position = move(position, context.parameter);
  });
}

std::vector<double> base_grid(const Network&) {
  std::vector<double> grid = ratios(100, 1e8, 400);
  for (const double value : {1e4, 1e5, 2.5e5, 5e5, 1e6, 1e7}) grid.push_back(value);
  std::sort(grid.begin(), grid.end());
  return grid;
}

double other_base(const OpContext& context) {
  return context.network.rope_at(context.op()).base == 10000.0 ? 500000.0 : 10000.0;
}

std::string pairing_text(const Network& network, double) {
  return network.rope->pairing == RopePairing::kAdjacent
             ? "rotates the halves of a head against each other where adjacent elements are pairs"
             : "rotates adjacent elements where the halves of a head are pairs";
}

std::string multiple_text(const Network&, double by) {
  return by == -1 ? "rotates backwards"
                  : fmt::format("rotates by {} times the position", number_unlike(by, 1));
}

// Whether the frequencies of a log without a model have factors: their base is then unknown.
bool has_unknown_factors(const Network& network, Op) {
  return network.model == nullptr && network.rope && !rope_base(network.rope->frequencies);
}

std::string base_text(const Network& network, double value) {
  const double own = rope_base(network.rope->frequencies).value_or(network.rope->base);
  const double local = network.local_rope.base;
  const std::string text = "rotates with the frequency base " + rounded(value);
  if (!(local > 0)) {
    return fmt::format("rotates with the frequency base {} in place of {}",
                       rounded_unlike(value, own), rounded_unlike(own, value));
  }
  // Then those are meant that have the other one.
  if (rounded(value) == rounded(own)) {
    return fmt::format("{} in layers with a window, too, in place of {}", text, rounded(local));
  }
  if (rounded(value) == rounded(local)) {
    return fmt::format("{} in layers without a window, too, in place of {}", text, rounded(own));
  }
  return fmt::format("{} in place of {} ({} in layers with a window)", text, rounded(own),
                     rounded(local));
}

std::string base_alone_text(const Network&, double value) {
  return fmt::format("rotates with the frequency base {} and no frequency factors", rounded(value));
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

void turn_half_the_dimensions(Rotation& rotation, const OpContext&) {
  std::vector<double>& frequencies = rotation.settings.frequencies;
  std::fill(frequencies.begin() + std::ssize(frequencies) / 2, frequencies.end(), 0.0);
}

// Of the decode path alone.
Mistake decode_mistake() {
  return {.cause = "rope_position",
          .text =
              [](const Network&, double by) {
                return fmt::format("rotates by position {:+.0f} after the prompt", by);
              },
          .edit = rotated([](Rotation& rotation, const OpContext& context) {
            const auto end = static_cast<double>(context.n_together);
            for (double& position : rotation.positions) {
              if (position >= end) position += context.parameter;
            }
          }),
          .possible = [](const Network& network, Op) { return network.n_prompt > 0; },
          .grid = among({-2, -1, 1, 2}),
          .faults = {of_both("rope-off-by-one-in-decode",
                             "what follows the prompt is turned by the angles of the next position",
                             1)}};
}

// As where an offset grows by the prompt's length once more when its first token has been decoded.
Mistake prompt_counted_twice_mistake() {
  return {.cause = "rope_position",
          .text = plainly("moves positions on by the length of the prompt, less 1, after the first "
                          "token behind it"),
          .edit = rotated([](Rotation& rotation, const OpContext& context) {
            const auto end = static_cast<double>(context.n_together);
            for (double& position : rotation.positions) {
              if (position > end) position += end - 1;
            }
          }),
          .possible = [](const Network& network, Op) { return network.n_prompt > 1; }};
}

// Heads and tokens are taken for each other: [heads, tokens] where it is [tokens, heads].
Mistake heads_for_positions_mistake() {
  return {.cause = "rope_position",
          .text = plainly("takes the number of the head for the position"),
          .edit = {.rope = [](const OpContext& context, RopeCall call, Kernels& kernels) {
            std::vector<double> heads;
            for (int64_t i = 0; i < call.n_tokens * call.n_heads; ++i) {
              heads.push_back(static_cast<double>(i % call.n_heads));
            }
            const auto table = rope_table(context.network.rope_at(context.op()), heads);
            call.cos_sin = table.data();
            call.n_tokens *= call.n_heads;
            call.n_heads = 1;
            kernels.run(call);
          }}};
}

// From which position on, or up to which: each of a short prompt, and the ends of tables and
// chunks.
std::vector<double> borders(int first) {
  std::vector<double> all;
  for (int at = first; at <= 64; ++at) all.push_back(at);
  for (int at = 128; at <= 8192; at *= 2) {
    all.push_back(at - 1);
    all.push_back(at);
  }
  return all;
}

// A chunk of a prompt that begins a position too early or too late.
Mistake later_chunk_mistake(double by) {
  return {.cause = "rope_position",
          .text =
              [by](const Network&, double from) {
                return fmt::format("rotates by position {:+.0f} from position {:.0f} on", by, from);
              },
          .edit = moved([by](double position, double from) {
            return position >= from ? position + by : position;
          }),
          .grid = among({2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096})};
}

Mistake table_of_zeros_mistake() {
  return {.cause = "rope_position",
          .text =
              [](const Network&, double end) {
                return fmt::format("has cosines and sines of 0 from position {:.0f} on", end);
              },
          .edit = rotated([](Rotation& rotation, const OpContext& context) {
            rotation.table_end = context.parameter;
          }),
          .grid = among(borders(2))};
}

// Rotations at other positions.
std::vector<Mistake> position_mistakes() {
  std::vector<double> shifts;
  for (int by = -16; by <= 16; ++by) {
    if (by != 0) shifts.push_back(by);
  }
  const std::vector<double> places = borders(1);
  const std::vector<double> several = borders(2);
  Injected of_k = of_both("rope-k-position-off-by-one",
                          "K alone is turned by the angles of the next position", 1);
  of_k.at = Checkpoint::kKRope;
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
       .grid = among({-1}),
       .faults = {of_both("rope-backwards", "sines have the wrong sign: turned back", -1)}}};
  // What is left out or done twice has the factor of cosines and sines (phi3's) as often.
  for (const int count : {0, 2}) {
    mistakes.push_back(
        {.cause = count == 0 ? "rope_missing" : "rope_position",
         .text =
             [count](const Network& network, double) {
               std::string text = count == 0 ? "does not rotate" : "rotates twice";
               if (network.rope->factor != 1) {
                 text += count == 0 ? ", nor multiply by the factor of the rotation"
                                    : ", with the factor of the rotation each time";
               }
               return text;
             },
         .edit = rotated([count](Rotation& rotation, const OpContext&) {
           for (double& position : rotation.positions) position *= count;
           rotation.settings.factor = std::pow(rotation.settings.factor, count);
         }),
         .faults = {count == 0 ? of_both("rope-missing", "Q and K are not turned")
                               : of_both("rope-twice", "Q and K are turned twice")}});
  }
  mistakes.push_back({.cause = "rope_missing",
                      .text = plainly("does not rotate"),
                      .edit = moved([](double, double) { return 0; }),
                      .possible = has_table_factor});
  mistakes.push_back(
      {.cause = "rope_scaling",
       .text = multiple_text,
       .edit = moved([](double position, double by) { return position * by; }),
       .grid = among({1.0 / 32, 1.0 / 16, 0.125, 0.25, 0.5,  0.75, 0.9, 0.95, 0.98, 0.99,
                      1.01,     1.02,     1.05,  1.1,  1.33, 2,    4,   8,    16,   32}),
       .refine = true,
       .faults = {
           of_table("rope-linear-scaling", "positions are halved", needs_rotary, with(0.5))}});
  mistakes.push_back(decode_mistake());
  mistakes.push_back(prompt_counted_twice_mistake());
  mistakes.push_back(heads_for_positions_mistake());
  mistakes.push_back({.cause = "rope_position",
                      .text = plainly("takes sines for cosines and cosines for sines"),
                      .edit = rotated([](Rotation& rotation, const OpContext&) {
                        rotation.settings.sine_for_cosine = true;
                      }),
                      .faults = {of_both("rope-sin-for-cos", "sine and cosine are swapped")}});
  const auto move_from = [&](std::string before, std::string after,
                             const std::vector<double>& values, double (*move)(double, double),
                             std::vector<Injected> faults = {}) {
    mistakes.push_back(
        {.cause = "rope_position",
         .text = [=](const Network&,
                     double at) { return fmt::format("{} {:.0f}{}", before, at, after); },
         .edit = moved(move),
         .grid = among(values),
         .faults = std::move(faults)});
  };
  move_from("stays at position 0 from position", " on", several,
            [](double position, double from) { return position >= from ? 0 : position; });
  move_from("counts from position 0 again at position", "", places,
            [](double position, double at) { return position >= at ? position - at : position; },
            {of_both("rope-counts-again", "position 12 is turned as position 0, and so on", 12)});
  move_from("counts from position 0 again every", " positions", several,
            [](double position, double count) { return std::fmod(position, count); });
  move_from("stays at position", " from there on, as if its table ended", places,
            [](double position, double last) { return std::min(position, last); },
            {of_both("rope-table-ends", "positions after 12 are turned as position 12", 12)});
  for (const double by : {-1, 1}) mistakes.push_back(later_chunk_mistake(by));
  mistakes.push_back(table_of_zeros_mistake());
  // The same of an engine that evaluates tokens in batches.
  mistakes.push_back({.cause = "rope_position",
                      .edit = rotated([](Rotation& rotation, const OpContext& context) {
                        const auto first = static_cast<double>(context.site.first_position);
                        for (double& position : rotation.positions) position -= first;
                      }),
                      .faults = {of_both("rope-restarts-in-decode",
                                         "each batch is turned as if it began at position 0")}});
  return mistakes;
}

// Rotations with frequencies of another base.
std::vector<Mistake> base_mistakes() {
  return {
      {.cause = "rope_scaling",
       .text = base_alone_text,
       .edit = rotated(set_base),
       .possible = has_unknown_factors,
       .grid = base_grid,
       .refine = true},
      {.cause = "rope_base",
       .text = base_text,
       .edit = rotated(set_base_beside_factors),
       .possible = [](const Network& network, Op op) { return !has_unknown_factors(network, op); },
       .grid = base_grid,
       .refine = true,
       .faults = {of_table("rope-base", "frequency base 500000 for 10000, or 10000 for another",
                           needs_rotary, other_base)}}};
}

// Positions, frequencies, their products, and the cosines and sines of these: a table that is
// computed in the model's own type.
Mistake rounded_throughout(Rounding rounding) {
  Mistake mistake = {
      .cause = "rounding",
      .text = plainly(std::string("computes the rotary angles and their cosines and sines in ") +
                      rounding.type),
      .edit = rotated([rounding](Rotation& rotation, const OpContext&) {
        for (double& frequency : rotation.settings.frequencies) {
          frequency = rounding.round(static_cast<float>(frequency));
        }
        for (double& position : rotation.positions) {
          position = rounding.round(static_cast<float>(position));
        }
        rotation.settings.round_angle = rotation.settings.round = rounding.round;
      })};
  if (rounding.round == kBf16Rounding.round) {
    mistake.faults = {of_both("rope-in-bf16", "the table of Q and K is computed in bfloat16")};
  }
  return mistake;
}

// theta^(2i / d) in the place of its reciprocal, in float: the angles soon have no digits behind
// the point.
void take_reciprocals(Rotation& rotation, const OpContext&) {
  for (double& frequency : rotation.settings.frequencies) {
    if (frequency != 0) frequency = static_cast<float>(1 / frequency);
  }
  rotation.settings.round_angle = [](float angle) { return angle; };
}

// Frequencies or angles in half precision, as where a model's buffers are converted with it.
std::vector<Mistake> angle_roundings() {
  std::vector<Mistake> mistakes;
  for (const Rounding rounding : kRoundings) {
    mistakes.push_back(
        {.cause = "rounding",
         .text = plainly(std::string("rounds the rotary frequencies to ") + rounding.type),
         .edit = rotated([rounding](Rotation& rotation, const OpContext&) {
           for (double& frequency : rotation.settings.frequencies) {
             frequency = rounding.round(static_cast<float>(frequency));
           }
         })});
    mistakes.push_back(
        {.cause = "rounding",
         .text = plainly(std::string("rounds the rotary angles to ") + rounding.type),
         .edit = rotated([rounding](Rotation& rotation, const OpContext&) {
           rotation.settings.round_angle = rounding.round;
         })});
    if (rounding.round == kBf16Rounding.round) {
      mistakes.back().faults = {
          of_both("rope-bf16-angles", "the angles of Q and K are rounded to bfloat16")};
    }
    mistakes.push_back(rounded_throughout(rounding));
  }
  return mistakes;
}

// Heads in transformers' order, in which the two of a pair stand half a head apart, rotated as if
// they stood side by side.
void rotate_neighbours_of_halves(const OpContext& context, const RopeCall& call, Kernels&) {
  const std::vector<int64_t>& at = context.inputs.positions;
  Matrix x(std::ssize(at), call.n_tokens * call.n_heads * call.head_dim / std::ssize(at));
  std::copy_n(call.x, x.values.size(), x.values.begin());
  const Matrix turned = rope(turned_heads(context.network, x, true),
                             context.network.rope_at(context.op()), {at.begin(), at.end()});
  std::ranges::copy(turned_heads(context.network, turned, false).values, call.out);
}

bool has_whole_heads_of_neighbours(const Network& network, Op op) {
  if (network.model == nullptr || op.layer < 0) return false;
  if (op.checkpoint != Checkpoint::kQRope && op.checkpoint != Checkpoint::kKRope) return false;
  const RopeSettings& settings = network.rope_at(op);
  return settings.pairing == RopePairing::kAdjacent && settings.first_turned == 0 &&
         2 * std::ssize(settings.frequencies) == settings.head_dim &&
         settings.head_dim == network.head_dim;
}

Mistake neighbours_of_halves_mistake() {
  return {.cause = "rope_pairing",
          .text = plainly("rotates neighbours in the order that transformers' files have, where "
                          "the halves of a head are pairs"),
          .edit = {.rope = rotate_neighbours_of_halves},
          .possible = has_whole_heads_of_neighbours};
}

bool is_biased_and_rotated(const Network& network, Op op) {
  const bool of_qk = op.checkpoint == Checkpoint::kQ || op.checkpoint == Checkpoint::kK;
  return of_qk && network.head_dim > 2 && network.rotary() && network.has_bias(op);
}

// The rows of Q and K are put in another order for the rotation, their biases are not.
Mistake bias_order_mistake(bool to_halves) {
  Mistake mistake = {
      .cause = "rope_pairing",
      .text =
          plainly(to_halves ? "has the bias in the order of rotary halves, not of adjacent pairs"
                            : "has the bias in the order of adjacent pairs, not of rotary halves"),
      .edit = {.matmul =
                   [to_halves](const OpContext& context, MatmulCall call, Kernels& kernels) {
                     Matrix bias(1, call.bias == nullptr ? 0 : call.w.rows);
                     std::copy_n(call.bias, bias.columns, bias.row(0));
                     bias = turned_heads(context.network, bias, to_halves);
                     if (call.bias != nullptr) call.bias = bias.values.data();
                     kernels.run(call);
                   }},
      .possible = is_biased_and_rotated};
  if (!to_halves) return mistake;
  mistake.faults = {
      {.name = "qk-bias-order",
       .group = FaultGroup::kRotary,
       .what = "the biases of Q and K are in the order of halves where pairs are adjacent, and the "
               "reverse",
       .at = Checkpoint::kQ,
       .unsupported_reason = [](const Model& model) -> std::string {
         const std::string reason = needs_rotary(model);
         if (!reason.empty()) return reason;
         const bool biased = model.layers.front().linear(Checkpoint::kQ).bias != nullptr;
         return biased ? "" : "its queries have no bias";
       },
       .also = {Checkpoint::kK},
       .in_arguments = true}};
  return mistake;
}

}  // namespace

std::vector<Mistake> rope_mistakes() {
  std::vector<Mistake> mistakes = {
      {.cause = "rope_pairing",
       .text = pairing_text,
       .edit = rotated([](Rotation& rotation, const OpContext&) {
         RopePairing& pairing = rotation.settings.pairing;
         pairing =
             pairing == RopePairing::kAdjacent ? RopePairing::kHalves : RopePairing::kAdjacent;
       }),
       .faults = {of_both("rope-pairing",
                          "rotary pairs adjacent where they are halves, and the reverse")}},
      neighbours_of_halves_mistake(),
      bias_order_mistake(true),
      bias_order_mistake(false)};
  for (auto part : {rope_scaling_mistakes(), position_mistakes(), base_mistakes()}) {
    for (Mistake& mistake : part) mistakes.push_back(std::move(mistake));
  }
  for (const Rounding rounding : kRoundings) {
    mistakes.push_back(
        {.cause = "rounding",
         .text = plainly(std::string("rounds the cosines and sines to ") + rounding.type),
         .edit = rotated([rounding](Rotation& rotation, const OpContext&) {
           rotation.settings.round = rounding.round;
         })});
    if (rounding.round != kF16Rounding.round) continue;
    mistakes.back().faults = {
        of_both("rope-f16-table", "cosines and sines are rounded to float16")};
  }
  for (Mistake& mistake : angle_roundings()) mistakes.push_back(std::move(mistake));
  mistakes.push_back({.cause = "rope_scaling",
                      .text = plainly("takes the reciprocal of each frequency"),
                      .edit = rotated(take_reciprocals),
                      .faults = {of_both("rope-frequencies-inverted",
                                         "each frequency is taken for its reciprocal")}});
  mistakes.push_back(
      {.cause = "rope_dimensions",
       .text = plainly("rotates only the first half of the dimensions that are to be rotated"),
       .edit = rotated(turn_half_the_dimensions),
       .faults = {of_both("rope-half-the-dimensions",
                          "only the first half of the rotary dimensions is turned")}});
  mistakes.push_back(inverted_rotation_mistake());
  return mistakes;
}

}  // namespace assay::mistakes
