#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "assay/mistakes/mistake.h"

// Rotations and sums of the residual stream in 16 bits: what enters them is rounded as well as what
// they give, or each step is.
namespace assay::mistakes {
namespace {

std::vector<float> rounded(const float* values, int64_t count, const Rounding& rounding) {
  std::vector<float> out(values, values + count);
  std::ranges::transform(out, out.begin(), rounding.round);
  return out;
}

struct RotationSteps {
  const char* text;  // before the type
  bool table = false;
  bool each = false;  // the four products, too
  bool result = false;
};
constexpr RotationSteps kRotationSteps[] = {
    {.text = "rounds what it rotates to"},
    {.text = "rounds what it rotates and the result to", .result = true},
    {.text = "rounds what it rotates, the cosines and sines, and the result to",
     .table = true,
     .result = true},
    {.text = "rotates step by step in", .table = true, .each = true, .result = true},
};

// A pair (a, b) becomes (a cos - b sin, a sin + b cos), with each product rounded.
void rotate_by_steps(const RopeCall& call, const Rounding& rounding) {
  const auto product = [&](float a, float b) { return rounding.round(a * b); };
  const int64_t pairs = call.rotary_dim / 2;
  const bool adjacent = call.pairing == RopePairing::kAdjacent;
  for (int64_t row = 0; row < call.n_tokens * call.n_heads; ++row) {
    const float* x = call.x + row * call.head_dim + call.first_turned;
    float* out = call.out + row * call.head_dim + call.first_turned;
    const float* cos_sin = call.cos_sin + row / call.n_heads * call.rotary_dim;
    for (int64_t p = 0; p < pairs; ++p) {
      const int64_t i = adjacent ? 2 * p : p;
      const int64_t j = adjacent ? 2 * p + 1 : p + pairs;
      const float a = x[i];
      const float b = x[j];
      const float cos = cos_sin[2 * p];
      const float sin = cos_sin[2 * p + 1];
      out[i] = product(a, cos) - product(b, sin);
      out[j] = product(a, sin) + product(b, cos);
    }
  }
}

Mistake rounded_rotation(const RotationSteps& steps, const Rounding& rounding) {
  return {
      .cause = "rounding",
      .text = plainly(fmt::format("{} {}", steps.text, rounding.type)),
      .edit = {.rope = [steps, rounding](const OpContext& context, RopeCall call,
                                         Kernels& kernels) {
        const int64_t count = call.n_tokens * call.n_heads * call.head_dim;
        const std::vector<float> x = rounded(call.x, count, rounding);
        const std::vector<int64_t>& positions = context.inputs.positions;
        RopeSettings settings = context.network.rope_at(context.op());
        if (steps.table) settings.round = rounding.round;
        const std::vector<float> table = rope_table(settings, {positions.begin(), positions.end()});
        call.x = x.data();
        call.cos_sin = table.data();
        if (steps.each) {
          std::ranges::copy(x, call.out);
          rotate_by_steps(call, rounding);
        } else {
          kernels.run(call);
        }
        if (steps.result) std::transform(call.out, call.out + count, call.out, rounding.round);
      }}};
}

struct SumSteps {
  const char* text;     // before the type
  bool stream = false;  // and always what the block gives
  bool result = false;
};
constexpr SumSteps kSumSteps[] = {
    {.text = "rounds what it adds to the residual stream to"},
    {.text = "rounds what it adds to the residual stream, and the sum, to", .result = true},
    {.text = "rounds the residual stream and what it adds to it to", .stream = true},
    {.text = "rounds the residual stream, what it adds to it, and the sum, to",
     .stream = true,
     .result = true},
};

Mistake rounded_sum(const SumSteps& steps, const Rounding& rounding) {
  return {.cause = "rounding",
          .text = plainly(fmt::format("{} {}", steps.text, rounding.type)),
          .edit = {.add =
                       [steps, rounding](const OpContext&, AddCall call, Kernels& kernels) {
                         const std::vector<float> added = rounded(call.b, call.count, rounding);
                         const std::vector<float> stream = rounded(call.a, call.count, rounding);
                         call.b = added.data();
                         if (steps.stream) call.a = stream.data();
                         kernels.run(call);
                         float* end = call.out + call.count;
                         if (steps.result) std::transform(call.out, end, call.out, rounding.round);
                       }},
          .possible = [](const Network&, Op op) {
            return op.checkpoint == Checkpoint::kAttnResidual ||
                   op.checkpoint == Checkpoint::kOutput;
          }};
}

}  // namespace

std::vector<Mistake> rounded_sum_mistakes() {
  std::vector<Mistake> mistakes;
  for (const Rounding& rounding : kRoundings) {
    for (const RotationSteps& steps : kRotationSteps) {
      mistakes.push_back(rounded_rotation(steps, rounding));
    }
    for (const SumSteps& steps : kSumSteps) mistakes.push_back(rounded_sum(steps, rounding));
  }
  return mistakes;
}

}  // namespace assay::mistakes
