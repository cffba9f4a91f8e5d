#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "assay/mistakes/mistake.h"

// Of scores that fall with the distance of the key (ALiBi).
namespace assay::mistakes {
namespace {

bool has_alibi(const Network& network, Op op) {
  return network.attention_shape(op).alibi.n_first > 0;
}

double max_bias(const Network& network) {
  return network.model->config().max_alibi_bias;
}

Injected of_slopes(const char* name, const char* what,
                   std::function<double(const OpContext&)> parameter = {}) {
  return {.name = name,
          .group = FaultGroup::kAttention,
          .what = what,
          .at = Checkpoint::kAttn,
          .unsupported_reason =
              needs("ALiBi", [](const ModelConfig& config) { return config.max_alibi_bias > 0.0; }),
          .parameter = std::move(parameter),
          .in_arguments = true};
}

Injected of_single_series() {
  Injected fault = of_slopes("alibi-single-series",
                             "the slopes of all heads are one series, whatever their number");
  fault.unsupported_reason =
      needs("ALiBi of a number of heads that is no power of 2", [](const ModelConfig& config) {
        return config.max_alibi_bias > 0.0 && (config.n_heads & (config.n_heads - 1)) != 0;
      });
  return fault;
}

// Powers of two around the number of heads: others are no slip, and have the slopes of these.
std::vector<double> other_head_counts(const Network& network) {
  const int64_t right = AlibiSlopes::of(max_bias(network), network.n_heads).n_first;
  std::vector<double> counts;
  for (const int64_t count : {right / 2, 2 * right, 4 * right}) {
    if (count > 0) counts.push_back(static_cast<double>(count));
  }
  return counts;
}

}  // namespace

std::vector<Mistake> alibi_mistakes() {
  return {
      {.cause = "alibi_slopes",
       .text = plainly("leaves out the bias of scores by distance (ALiBi)"),
       .edit = called([](AttentionCall& call, double) { call.shape.alibi = {}; }),
       .possible = has_alibi,
       .faults = {of_slopes("alibi-missing", "scores do not fall with the distance of the key")}},
      {.cause = "alibi_slopes",
       .text =
           [](const Network& network, double count) {
             return fmt::format("has ALiBi's slopes of {:.0f} heads in place of {}", count,
                                network.n_heads);
           },
       .edit = {.attention =
                    [](const OpContext& context, AttentionCall call, Kernels& kernels) {
                      call.shape.alibi =
                          AlibiSlopes::of(max_bias(context.network),
                                          static_cast<int64_t>(std::lround(context.parameter)));
                      kernels.run(call);
                    }},
       .possible = has_alibi,
       .grid = other_head_counts,
       .faults = {of_slopes("alibi-of-twice-the-heads",
                            "the slopes are those of twice as many heads",
                            [](const OpContext& context) {
                              return static_cast<double>(2 * context.network.n_heads);
                            })}},
      {.cause = "alibi_slopes",
       .text =
           plainly("has ALiBi's slopes in one series for a number of heads that is no power of 2"),
       .edit = {.attention =
                    [](const OpContext& context, AttentionCall call, Kernels& kernels) {
                      const double count = static_cast<double>(call.shape.n_heads);
                      call.shape.alibi.n_first = call.shape.n_heads;
                      call.shape.alibi.first = std::exp2(-max_bias(context.network) / count);
                      kernels.run(call);
                    }},
       .possible =
           [](const Network& network, Op op) {
             return has_alibi(network, op) && (network.n_heads & (network.n_heads - 1)) != 0;
           },
       .faults = {of_single_series()}}};
}

}  // namespace assay::mistakes
