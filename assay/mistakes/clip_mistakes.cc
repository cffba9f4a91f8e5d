#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "assay/mistakes/mistake.h"
#include "assay/mistakes/number_text.h"

// Of queries, keys and values whose magnitude has a limit.
namespace assay::mistakes {
namespace {

Mistake clip_mistake(std::function<std::string(const Network&, double)> text,
                     Hook<ActivateCall> edit) {
  return {.cause = "clip",
          .text = std::move(text),
          .edit = {.activate = std::move(edit)},
          .possible = [](const Network& network, Op op) { return network.is_clip(op); }};
}

void run_without(const OpContext&, ActivateCall call, Kernels& kernels) {
  call.cap = std::numeric_limits<float>::infinity();
  kernels.run(call);
}

void run_above_alone(const OpContext&, const ActivateCall& call, Kernels&) {
  for (int64_t i = 0; i < call.count; ++i) {
    call.out[i] = call.x[i] > call.cap ? call.cap : call.x[i];  // NaN stays
  }
}

void run_with_other(const OpContext& context, ActivateCall call, Kernels& kernels) {
  call.cap = static_cast<float>(context.parameter);
  kernels.run(call);
}

std::vector<double> other_limits(const Network& network) {
  const double right = network.model->config().clip;
  std::vector<double> limits = ratios(right / 16, right * 16, 33);
  for (const double limit : {6.0, 8.0, 10.0, 30.0}) limits.push_back(limit);  // as published
  std::ranges::sort(limits);
  return limits;
}

}  // namespace

std::vector<Mistake> clip_mistakes() {
  Mistake other = clip_mistake(
      [](const Network& network, double limit) {
        const double right = network.model->config().clip;
        return fmt::format("is clipped at {} in place of {}", number_unlike(limit, right),
                           number_unlike(right, limit));
      },
      run_with_other);
  other.grid = other_limits;
  other.refine = true;
  return {clip_mistake(plainly("is not clipped"), run_without),
          clip_mistake(plainly("is clipped from above alone"), run_above_alone), std::move(other)};
}

}  // namespace assay::mistakes
