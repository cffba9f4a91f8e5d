#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "assay/mistakes/routing.h"

namespace assay::mistakes {

std::function<bool(const Network&, Op)> routed(Needs has) {
  return [has = std::move(has)](const Network& network, Op op) {
    return network.model != nullptr && !is_of_shared_expert(op.checkpoint) &&
           has(network.model->config().routing);
  };
}

bool reads_weights(const Network& network, Op op) {
  if (network.model == nullptr) return false;
  const OpKind kind = network.kind_of(op);
  return kind == OpKind::kSpread || (kind == OpKind::kMix && network.inputs(op).size() > 1);
}

Injected routing_fault(const char* name, const char* what, Checkpoint at, const char* needed,
                       Needs has) {
  return {.name = name,
          .group = FaultGroup::kFeedForward,
          .what = what,
          .at = at,
          .unsupported_reason = needs(needed,
                                      [has = std::move(has)](const ModelConfig& config) {
                                        return config.routing.n_experts > 0 && has(config.routing);
                                      }),
          .also = at == Checkpoint::kFfnOut
                      ? std::vector{Checkpoint::kRoutedOut, Checkpoint::kExpertIn}
                      : std::vector<Checkpoint>(),
          .in_arguments = true};
}

namespace {

constexpr const char* kReversedWeights = "gives the weights to a token's experts in reverse order";
constexpr const char* kWeightsOfNext = "gives each of a token's experts the weight of the next";

// Weights that go to other experts of the token: `order` says whose weight each slot has.
Mistake reordered(const char* text,
                  std::function<void(std::vector<int64_t>& order, const float* ids)> reorder,
                  const Needs& has, std::vector<Injected> faults) {
  const auto run = [reorder = std::move(reorder)](const OpContext& context, auto call,
                                                  Kernels& kernels) {
    const auto ids = context.inputs.other({Checkpoint::kExperts, context.site.layer});
    std::vector<float> weights(call.weights, call.weights + call.n_tokens * call.n_used);
    for (int64_t t = 0; t < call.n_tokens && ids; ++t) {
      std::vector<int64_t> order(static_cast<size_t>(call.n_used));
      std::iota(order.begin(), order.end(), t * call.n_used);
      reorder(order, ids->row(t) - t * call.n_used);
      for (size_t j = 0; j < order.size(); ++j) {
        weights[static_cast<size_t>(t * call.n_used) + j] = call.weights[order[j]];
      }
    }
    call.weights = weights.data();
    kernels.run(call);
  };
  return {.cause = "expert_order",
          .text = plainly(text),
          .edit = {.spread = run, .mix = run},
          .possible = [is_routed = routed(has)](
                          const Network& network,
                          Op op) { return is_routed(network, op) && reads_weights(network, op); },
          .faults = std::move(faults)};
}

std::vector<Mistake> order_mistakes() {
  const Needs has_several = [](const Routing& r) { return r.n_used > 1; };
  const Needs has_three = [](const Routing& r) { return r.n_used > 2; };
  std::vector<Mistake> mistakes = {
      reordered(kReversedWeights,
                [](std::vector<int64_t>& order, const float*) { std::ranges::reverse(order); },
                has_several,
                {routing_fault("expert-weights-reversed",
                               "the last of a token's experts has the first's weight",
                               Checkpoint::kFfnOut, "token with several experts", has_several)}),
      reordered(kWeightsOfNext,
                [](std::vector<int64_t>& order, const float*) {
                  std::rotate(order.begin(), order.begin() + 1, order.end());
                },
                has_three, {}),
      // The experts are computed by ascending ids, the weights stay in the order of the choice.
      reordered(
          "gives the weights, best first, to a token's experts by ascending ids",
          [](std::vector<int64_t>& order, const float* ids) {
            const int64_t first = order.front();
            std::vector<int64_t> by_id = order;
            std::ranges::sort(by_id, {}, [&](int64_t slot) { return ids[slot]; });
            for (size_t rank = 0; rank < by_id.size(); ++rank) {
              order[static_cast<size_t>(by_id[rank] - first)] = first + static_cast<int64_t>(rank);
            }
          },
          has_several,
          {routing_fault("expert-weights-by-id",
                         "a token's experts are taken by ascending ids, their weights are not",
                         Checkpoint::kFfnOut, "token with several experts", has_several)})};
  mistakes.push_back(
      {.cause = "expert_order",
       .text = [](const Network&,
                  double by) { return fmt::format("takes the expert of id {:+.0f}", by); },
       .edit = {.select =
                    [](const OpContext& context, const SelectCall& call, Kernels& kernels) {
                      kernels.run(call);
                      const int64_t n_experts = call.routing.n_experts;
                      const auto by = static_cast<int64_t>(context.parameter);
                      for (int64_t i = 0; i < call.n_tokens * call.routing.n_used; ++i) {
                        call.ids[i] =
                            static_cast<int32_t>((call.ids[i] + by + n_experts) % n_experts);
                      }
                    }},
       .grid = among({-1, 1})});
  mistakes.back().faults = {
      routing_fault("expert-ids-off-by-one", "each token has the experts after its own",
                    Checkpoint::kExperts, "experts", [](const Routing&) { return true; })};
  mistakes.back().faults.front().parameter = with(1);
  return mistakes;
}

// By the number of a token's expert in place of its id.
Mistake first_weights_mistake() {
  const Needs has_several = [](const Routing& r) { return r.n_used > 1; };
  return {.cause = "expert_order",
          .text = plainly("weighs a token's experts by the scores of experts 0, 1, ..."),
          .edit = {.weigh =
                       [](const OpContext&, WeighCall call, Kernels& kernels) {
                         std::vector<int32_t> ids;
                         for (int64_t i = 0; i < call.n_tokens * call.routing.n_used; ++i) {
                           ids.push_back(static_cast<int32_t>(i % call.routing.n_used));
                         }
                         call.ids = ids.data();
                         kernels.run(call);
                       }},
          .possible = routed(has_several),
          .faults = {routing_fault(
              "expert-weights-of-first", "a token's experts have the weights of the first experts",
              Checkpoint::kExpertWeights, "token with several experts", has_several)}};
}

// What a router gives, at `at`, to other experts: those that a file or an engine has in another
// order than the router, or those of a token.
Mistake given_to_others(Checkpoint at, std::function<std::string(const Network&, double)> text,
                        int64_t (*other)(int64_t place, int64_t by, int64_t count),
                        std::vector<double> values) {
  return {.cause = "expert_order",
          .text = std::move(text),
          .change =
              [other](const Network&, const Matrix& right, double by) {
                Matrix moved(right.rows, right.columns);
                for (int64_t t = 0; t < right.rows; ++t) {
                  for (int64_t i = 0; i < right.columns; ++i) {
                    const int64_t to = other(i, static_cast<int64_t>(by), right.columns);
                    moved.row(t)[to] = right.row(t)[i];
                  }
                }
                return moved;
              },
          .possible = [at](const Network&, Op op) { return op.checkpoint == at; },
          .grid = values.empty() ? nullptr : among(std::move(values))};
}

// The product with the weights of the expert that `other` says.
KernelHooks with_expert(std::function<int64_t(int64_t expert, int64_t count, double)> other) {
  return {.matmul = [other = std::move(other)](const OpContext& context, MatmulCall call,
                                               Kernels& kernels) {
    const Linear& all = *context.network.linear(context.op());
    const int64_t count = context.network.model->config().routing.n_experts;
    const int64_t own = first_row(all.weight, call.w) / all.stride(count);
    const int64_t expert = other(own, count, context.parameter);
    call.w = all.expert(expert, count);
    call.bias = all.bias_of_expert(expert, count);
    kernels.run(call);
  }};
}

bool is_of_experts(const Network& network, Op op) {
  return network.kind_of(op) == OpKind::kExpertLinear;
}

// The weights of another expert, where the ids are right.
Mistake other_expert_mistake() {
  return {.cause = "expert_order",
          .text =
              [](const Network&, double by) {
                return fmt::format("multiplies by the weights of the expert of id {:+.0f}", by);
              },
          .edit = with_expert([](int64_t expert, int64_t count, double by) {
            return (expert + static_cast<int64_t>(by) + count) % count;
          }),
          .possible = is_of_experts,
          .grid = among({-1, 1}),
          .faults = {{.name = "expert-weights-of-next",
                      .group = FaultGroup::kFeedForward,
                      .what = "the weights of an expert are those of the one after it",
                      .at = Checkpoint::kFfnGate,
                      .unsupported_reason = needs("experts with gates",
                                                  [](const ModelConfig& config) {
                                                    return config.routing.n_experts > 0 &&
                                                           config.find(Checkpoint::kFfnGate) !=
                                                               nullptr;
                                                  }),
                      .parameter = with(1),
                      .also = {Checkpoint::kFfnUp, Checkpoint::kExpertOut},
                      .in_arguments = true}}};
}

// Two experts as one number.
constexpr int64_t kPair = 1 << 16;

// All pairs of few experts; of many those of neighbours.
std::vector<double> pairs_of_experts(const Network& network) {
  constexpr int64_t kFew = 16;
  const int64_t count = network.model->config().routing.n_experts;
  std::vector<double> pairs;
  for (int64_t a = 0; a < count; ++a) {
    const int64_t end = count <= kFew ? count : std::min(a + 2, count);
    for (int64_t b = a + 1; b < end; ++b) pairs.push_back(static_cast<double>(a * kPair + b));
  }
  return pairs;
}

// The place of each expert where their numbers are sorted as text: 0, 1, 10, 11, ..., 2.
std::vector<int64_t> sorted_as_text(int64_t count) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::ranges::sort(order, {}, [](int64_t id) { return std::to_string(id); });
  return order;
}

// Experts of one matrix that stand in another order than the router's.
std::vector<Mistake> matrix_order_mistakes() {
  const auto has_two_digits = [](const Network& network, Op op) {
    return is_of_experts(network, op) && network.model->config().routing.n_experts > 10;
  };
  return {{.cause = "expert_order",
           .text =
               [](const Network&, double pair) {
                 const auto both = static_cast<int64_t>(pair);
                 return fmt::format("exchanges the weights of experts {} and {}", both / kPair,
                                    both % kPair);
               },
           .edit = with_expert([](int64_t expert, int64_t, double pair) {
             const int64_t a = static_cast<int64_t>(pair) / kPair;
             const int64_t b = static_cast<int64_t>(pair) % kPair;
             return expert == a ? b : expert == b ? a : expert;
           }),
           .possible = is_of_experts,
           .grid = pairs_of_experts,
           .generic = true},
          {.cause = "expert_order",
           .text = plainly("has the weights of the experts in reverse order"),
           .edit = with_expert(
               [](int64_t expert, int64_t count, double) { return count - 1 - expert; }),
           .possible = is_of_experts},
          {.cause = "expert_order",
           .text = plainly("has the weights of the experts in the order of their numbers as text "
                           "(0, 1, 10, 11, ..., 2)"),
           .edit = with_expert([](int64_t expert, int64_t count, double) {
             return sorted_as_text(count)[static_cast<size_t>(expert)];
           }),
           .possible = has_two_digits}};
}

std::vector<Mistake> router_order_mistakes() {
  const auto next = [](int64_t place, int64_t by, int64_t count) {
    return (place + by + count) % count;
  };
  const auto reverse = [](int64_t place, int64_t, int64_t count) { return count - 1 - place; };
  return {given_to_others(Checkpoint::kRouter,
                          [](const Network&, double by) {
                            return fmt::format(
                                "gives the score of each expert to that of id {:+.0f}", by);
                          },
                          next, {-2, -1, 1, 2}),
          given_to_others(Checkpoint::kRouter,
                          plainly("gives the scores to the experts in reverse order"), reverse, {}),
          given_to_others(Checkpoint::kExpertWeights, plainly(kReversedWeights), reverse, {}),
          given_to_others(Checkpoint::kExpertWeights, plainly(kWeightsOfNext), next, {-1})};
}

}  // namespace

std::vector<Mistake> expert_order_mistakes() {
  std::vector<Mistake> mistakes = order_mistakes();
  for (Mistake& mistake : router_order_mistakes()) mistakes.push_back(std::move(mistake));
  mistakes.push_back(other_expert_mistake());
  for (Mistake& mistake : matrix_order_mistakes()) mistakes.push_back(std::move(mistake));
  mistakes.push_back(first_weights_mistake());
  return mistakes;
}

}  // namespace assay::mistakes
