#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "assay/mistakes/routing.h"

// Of layers with experts: how a token's few are chosen, weighed and mixed.
namespace assay::mistakes {
namespace {

// The weights by another routing, where there is such a one.
Mistake weighed(const char* cause, const char* text, void (*edit)(Routing&), const Needs& has,
                std::vector<Injected> faults) {
  return {.cause = cause,
          .text = plainly(text),
          .edit = {.weigh =
                       [edit](const OpContext&, WeighCall call, Kernels& kernels) {
                         edit(call.routing);
                         kernels.run(call);
                       }},
          .possible = routed(has),
          .faults = std::move(faults)};
}

std::vector<Mistake> weight_mistakes() {
  constexpr Checkpoint kAt = Checkpoint::kExpertWeights;
  const Needs is_normalised = [](const Routing& r) {
    return r.normalise && r.gating != Gating::kSoftmaxOfUsed;
  };
  const Needs is_plain = [](const Routing& r) {
    return !r.normalise && r.gating != Gating::kSoftmaxOfUsed;
  };
  const Needs is_of_all = [](const Routing& r) {
    return !r.normalise && r.gating == Gating::kSoftmax;
  };
  const Needs is_of_used = [](const Routing& r) { return r.gating == Gating::kSoftmaxOfUsed; };
  const Needs is_sigmoid = [](const Routing& r) { return r.gating == Gating::kSigmoid; };
  const Needs is_no_sigmoid = [](const Routing& r) { return r.gating != Gating::kSigmoid; };
  const Needs is_normalised_softmax = [](const Routing& r) {
    return r.normalise && r.gating == Gating::kSoftmax;
  };
  const Needs is_plain_softmax = [](const Routing& r) {
    return !r.normalise && r.gating != Gating::kSigmoid;
  };
  const Needs is_normalised_sigmoid = [](const Routing& r) {
    return r.normalise && r.gating == Gating::kSigmoid;
  };
  const Needs is_plain_sigmoid = [](const Routing& r) {
    return !r.normalise && r.gating == Gating::kSigmoid;
  };
  const Needs has_scale = [](const Routing& r) { return r.scale != 1.0F; };
  return {
      weighed("router_weights", "does not divide the experts' weights by their sum",
              [](Routing& r) { r.normalise = false; }, is_normalised,
              {routing_fault("router-not-normalised",
                             "the experts' weights are not divided by their sum", kAt,
                             "normalised weights of experts", is_normalised)}),
      weighed("router_weights", "divides the experts' weights by their sum",
              [](Routing& r) { r.normalise = true; }, is_plain,
              {routing_fault("router-normalised", "the experts' weights are divided by their sum",
                             kAt, "weights of experts that are not normalised", is_plain)}),
      weighed("router_weights", "takes the softmax over the experts that are used, not over all",
              [](Routing& r) { r.gating = Gating::kSoftmaxOfUsed; }, is_of_all, {}),
      weighed("router_weights", "takes the softmax over all experts, not over those that are used",
              [](Routing& r) { r.gating = Gating::kSoftmax; }, is_of_used,
              {routing_fault("router-softmax-of-all",
                             "softmax is over all experts, not over those that are used", kAt,
                             "softmax over the experts that are used", is_of_used)}),
      weighed(
          "router_weights", "weighs the experts by a sigmoid in place of a softmax",
          [](Routing& r) { r.gating = Gating::kSigmoid; }, is_no_sigmoid,
          {routing_fault("router-sigmoid", "scores of experts go through a sigmoid, not a softmax",
                         kAt, "softmax over experts", is_no_sigmoid)}),
      weighed(
          "router_weights", "weighs the experts by a softmax in place of a sigmoid",
          [](Routing& r) { r.gating = Gating::kSoftmax; }, is_sigmoid,
          {routing_fault("router-softmax", "scores of experts go through a softmax, not a sigmoid",
                         kAt, "sigmoid of experts", is_sigmoid)}),
      weighed(
          "router_weights",
          "weighs the experts by a sigmoid in place of a softmax, without dividing by their sum",
          [](Routing& r) {
            r.gating = Gating::kSigmoid;
            r.normalise = false;
          },
          is_normalised_softmax,
          {routing_fault("router-sigmoid-not-normalised",
                         "scores of experts go through a sigmoid, and are not divided by their sum",
                         kAt, "normalised softmax over experts", is_normalised_softmax)}),
      weighed("router_weights",
              "weighs the experts by a sigmoid in place of a softmax, and divides by their sum",
              [](Routing& r) {
                r.gating = Gating::kSigmoid;
                r.normalise = true;
              },
              is_plain_softmax,
              {routing_fault("router-sigmoid-normalised",
                             "scores of experts go through a sigmoid, and are divided by their sum",
                             kAt, "softmax over experts that is not divided", is_plain_softmax)}),
      weighed(
          "router_weights",
          "weighs the experts by a softmax in place of a sigmoid, without dividing by their sum",
          [](Routing& r) {
            r.gating = Gating::kSoftmax;
            r.normalise = false;
          },
          is_normalised_sigmoid,
          {routing_fault("router-softmax-not-normalised",
                         "scores of experts go through a softmax, and are not divided by their sum",
                         kAt, "normalised sigmoid of experts", is_normalised_sigmoid)}),
      weighed("router_weights",
              "weighs the experts by a softmax in place of a sigmoid, and divides by their sum",
              [](Routing& r) {
                r.gating = Gating::kSoftmax;
                r.normalise = true;
              },
              is_plain_sigmoid, {}),
      weighed("router_scale", "leaves the scale of the experts' weights out",
              [](Routing& r) { r.scale = 1.0F; }, has_scale,
              {routing_fault("router-scale-missing", "the experts' weights are not scaled", kAt,
                             "scale of the experts' weights", has_scale)}),
      weighed("router_scale", "applies the scale of the experts' weights twice",
              [](Routing& r) { r.scale *= r.scale; }, has_scale,
              {routing_fault("router-scale-twice", "the experts' weights are scaled twice", kAt,
                             "scale of the experts' weights", has_scale)})};
}

// The right weights, each changed.
Mistake reweighed(const char* text, std::function<float(float weight, const Routing&)> change,
                  const Needs& has, Injected fault) {
  return {.cause = "router_weights",
          .text = plainly(text),
          .edit = {.weigh =
                       [change = std::move(change)](const OpContext&, const WeighCall& call,
                                                    Kernels& kernels) {
                         kernels.run(call);
                         for (int64_t i = 0; i < call.n_tokens * call.routing.n_used; ++i) {
                           call.weights[i] = change(call.weights[i], call.routing);
                         }
                       }},
          .possible = routed(has),
          .faults = {std::move(fault)}};
}

// Without a softmax or sigmoid.
void weigh_by_logits(const OpContext&, const WeighCall& call, Kernels&) {
  const Routing& routing = call.routing;
  for (int64_t i = 0; i < call.n_tokens * routing.n_used; ++i) {
    const int64_t token = i / routing.n_used;
    const float logit = call.scores[token * routing.n_experts + call.ids[i]];
    const float own = call.scales == nullptr ? 1.0F : call.scales[call.ids[i]];
    call.weights[i] = logit * routing.scale * own;
  }
}

std::vector<Mistake> reweighing_mistakes() {
  const Needs has_several = [](const Routing& r) { return r.n_used > 1; };
  const Needs has_any = [](const Routing&) { return true; };
  return {
      {.cause = "router_weights",
       .text = plainly("takes the router's logits for the experts' weights"),
       .edit = {.weigh = weigh_by_logits},
       .possible = routed(has_any),
       .faults = {routing_fault("router-logits", "experts are weighed by the router's logits",
                                Checkpoint::kExpertWeights, "experts", has_any)}},
      reweighed(
          "weighs all of a token's experts alike",
          [](float, const Routing& r) { return r.scale / static_cast<float>(r.n_used); },
          has_several,
          routing_fault("router-weights-alike", "a token's experts are averaged",
                        Checkpoint::kExpertWeights, "token with several experts", has_several)),
      reweighed(
          "multiplies by the experts' weights twice",
          [](float weight, const Routing&) { return weight * weight; }, has_several,
          routing_fault("router-weights-twice", "each expert is multiplied by its weight twice",
                        Checkpoint::kExpertWeights, "token with several experts", has_several))};
}

// Of a product of an expert, whose input is the token's for all of its experts: of that times the
// expert's weight for the token, which the router's scores give (the weights come after it).
void multiply_weighed(const OpContext& context, MatmulCall call, Kernels& kernels) {
  const Matrix& x = *context.inputs.rows[0];
  const auto scores = context.inputs.other({Checkpoint::kRouter, context.site.layer});
  if (!scores || scores->rows != x.rows) return kernels.run(call);
  const int64_t t = (call.x - x.values.data()) / x.columns;
  const std::span<const float> logged = context.inputs.rows[1]->row_span(t);
  const std::vector<int32_t> ids(logged.begin(), logged.end());
  std::vector<float> weights(ids.size());
  const Routing& routing = context.network.model->config().routing;
  kernels.run(WeighCall{scores->row(t), ids.data(), routing, 1, weights.data(), context.site,
                        context.network.expert_scales(context.op())});
  const Linear& all = *context.network.linear(context.op());
  const int64_t expert = first_row(all.weight, call.w) / all.stride(routing.n_experts);
  const auto slot = std::ranges::find(ids, expert) - ids.begin();
  std::vector<float> weighed(call.x, call.x + call.w.columns);
  for (float& each : weighed) each *= weights[static_cast<size_t>(slot)];
  call.x = weighed.data();
  kernels.run(call);
}

// Whether a layer's weights are on what its experts give.
bool weighs_outputs(const Network& network, int layer) {
  return find_spec(network.layer(layer), Checkpoint::kExpertIn) == nullptr;
}

// Engines that apply the weights to what goes into the experts, as Llama 4 wants it.
Mistake weighed_input_mistake() {
  const auto is_routed = routed([](const Routing&) { return true; });
  return {.cause = "router_weights",
          .text = plainly("has the experts' weights on the experts' input, not on their output"),
          .edit = {.matmul = multiply_weighed,
                   .mix =
                       [](const OpContext&, MixCall call, Kernels& kernels) {
                         const std::vector<float> ones(
                             static_cast<size_t>(call.n_tokens * call.n_used), 1.0F);
                         call.weights = ones.data();
                         kernels.run(call);
                       }},
          .possible = [is_routed](const Network& network, Op op) {
            const OpKind kind = network.kind_of(op);
            const bool is_first =
                kind == OpKind::kExpertLinear &&
                (op.checkpoint == Checkpoint::kFfnGate || op.checkpoint == Checkpoint::kFfnUp);
            return is_routed(network, op) && weighs_outputs(network, op.layer) &&
                   (is_first || kind == OpKind::kMix);
          }};
}

// Of a token's experts only the best so many, which is the parameter. They need not be those with
// the largest weights, where a bias is added to choose them.
void weigh_fewer(const OpContext& context, const WeighCall& call, Kernels& kernels) {
  const int64_t n_used = call.routing.n_used;
  const auto n_weighed = std::clamp(static_cast<int64_t>(context.parameter), int64_t{1}, n_used);
  Routing routing = call.routing;
  routing.n_used = n_weighed;
  std::vector<int32_t> ids(static_cast<size_t>(n_weighed));
  std::vector<float> weights(ids.size());
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    const float* scores = call.scores + t * call.routing.n_experts;
    kernels.run(SelectCall{scores, choice_bias(context.network, context.site.layer), routing, 1,
                           ids.data(), context.site});
    kernels.run(
        WeighCall{scores, ids.data(), routing, 1, weights.data(), context.site, call.scales});
    for (int64_t j = 0; j < n_used; ++j) {
      const auto slot = std::ranges::find(ids, call.ids[t * n_used + j]) - ids.begin();
      call.weights[t * n_used + j] = slot < n_weighed ? weights[static_cast<size_t>(slot)] : 0.0F;
    }
  }
}

// What one expert gives for the input.
void run_expert(const OpContext& context, int64_t expert, const float* input, float* out,
                Kernels& kernels) {
  const Network& network = context.network;
  const auto multiply = [&](Checkpoint by, const float* x, float* result) {
    const Linear& all = *network.linear({by, context.site.layer});
    const int64_t n_experts = network.model->config().routing.n_experts;
    kernels.run(MatmulCall{all.expert(expert, n_experts), all.bias_of_expert(expert, n_experts), x,
                           1, result, context.site});
  };
  const auto inner = static_cast<size_t>(network.model->config().expert_feed_forward_length);
  std::vector<float> gate(inner);
  std::vector<float> up(inner);
  const bool is_gated = network.linear({Checkpoint::kFfnGate, context.site.layer}) != nullptr;
  if (is_gated) multiply(Checkpoint::kFfnGate, input, gate.data());
  multiply(Checkpoint::kFfnUp, input, up.data());
  activate({.x = is_gated ? gate.data() : up.data(),
            .up = is_gated ? up.data() : nullptr,
            .count = static_cast<int64_t>(inner),
            .out = up.data(),
            .site = context.site},
           *network.activation, kernels);
  multiply(Checkpoint::kExpertOut, up.data(), out);
}

// With further experts, so many in all as the parameter says.
void mix_more(const OpContext& context, MixCall call, Kernels& kernels) {
  const int layer = context.site.layer;
  const auto scores = context.inputs.other({Checkpoint::kRouter, layer});
  const bool weighs_inputs = call.weights == nullptr;
  Op input = context.network.inputs({Checkpoint::kFfnUp, layer}).front();
  if (weighs_inputs) input = context.network.inputs(input).front();
  const auto inputs = context.inputs.other(input);
  const auto chosen = context.inputs.other({Checkpoint::kExperts, layer});
  const auto fits = [&](const auto& rows) { return rows && rows->rows == call.n_tokens; };
  if (!fits(scores) || !fits(inputs) || !fits(chosen)) {
    kernels.run(call);
    return;
  }
  const Model& model = *context.network.model;
  Routing routing = model.config().routing;
  const auto n_used = std::max(call.n_used, static_cast<int64_t>(context.parameter));
  routing.n_used = n_used;
  const auto slots = static_cast<size_t>(call.n_tokens * n_used);
  std::vector<int32_t> ids(slots);
  std::vector<float> weights(slots);
  std::vector<float> x(slots * static_cast<size_t>(call.width));
  kernels.run(SelectCall{scores->values.data(),
                         model.layers[static_cast<size_t>(layer)].extra.choice_bias, routing,
                         call.n_tokens, ids.data(), context.site});
  kernels.run(WeighCall{scores->values.data(), ids.data(), routing, call.n_tokens, weights.data(),
                        context.site, context.network.expert_scales(context.op())});
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    const std::span<const float> own = chosen->row_span(t);
    for (int64_t i = 0; i < n_used; ++i) {
      const int32_t id = ids[static_cast<size_t>(t * n_used + i)];
      float* result = x.data() + (t * n_used + i) * call.width;
      // The further ones need not be the last.
      const auto slot = std::ranges::find(own, static_cast<float>(id)) - own.begin();
      if (slot < call.n_used) {
        std::copy_n(call.x + (t * call.n_used + slot) * call.width, call.width, result);
      } else {
        std::vector<float> given(inputs->row(t), inputs->row(t) + inputs->columns);
        const float weight = weighs_inputs ? weights[static_cast<size_t>(t * n_used + i)] : 1.0F;
        for (float& each : given) each *= weight;
        run_expert(context, id, given.data(), result, kernels);
      }
    }
  }
  call.x = x.data();
  if (!weighs_inputs) call.weights = weights.data();
  call.n_used = n_used;
  kernels.run(call);
}

// Experts that a token may have in all.
int64_t most_used(const Routing& routing) {
  return routing.n_experts / routing.n_groups * routing.n_groups_used;
}

// The few numbers that an engine would take: one fewer, one, and all between in small models.
std::vector<double> fewer(const Network& network) {
  std::vector<double> counts;
  const int64_t n_used = network.model->config().routing.n_used;
  for (int64_t n = 1; n < n_used; ++n) {
    if (n == 1 || n + 2 >= n_used) counts.push_back(static_cast<double>(n));
  }
  return counts;
}

std::vector<double> more(const Network& network) {
  const Routing& routing = network.model->config().routing;
  std::vector<double> counts;
  for (int64_t n = routing.n_used + 1; n <= most_used(routing); ++n) {
    if (n <= routing.n_used + 2 || n == 2 * routing.n_used || n == most_used(routing)) {
      counts.push_back(static_cast<double>(n));
    }
  }
  return counts;
}

std::string count_text(const Network& network, double count) {
  return fmt::format("uses {:.0f} experts for a token in place of {}", count,
                     network.model->config().routing.n_used);
}

std::vector<Mistake> count_mistakes() {
  const Needs has_several = [](const Routing& r) { return r.n_used > 1; };
  const Needs has_further = [](const Routing& r) { return r.n_used < most_used(r); };
  const auto beside = [](int64_t step) {
    return [step](const OpContext& context) {
      return static_cast<double>(context.network.model->config().routing.n_used + step);
    };
  };
  Injected one_fewer =
      routing_fault("experts-one-fewer", "each token uses one expert fewer",
                    Checkpoint::kExpertWeights, "token with several experts", has_several);
  one_fewer.parameter = beside(-1);
  Injected one_more =
      routing_fault("experts-one-more", "each token uses one expert more", Checkpoint::kFfnOut,
                    "expert that a token does not use", has_further);
  one_more.parameter = beside(1);
  return {{.cause = "experts_used",
           .text = count_text,
           .edit = {.weigh = weigh_fewer},
           .possible = routed(has_several),
           .grid = fewer,
           .faults = {std::move(one_fewer)}},
          {.cause = "experts_used",
           .text = count_text,
           .edit = {.mix = mix_more},
           .possible = routed(has_further),
           .grid = more,
           .faults = {std::move(one_more)}}};
}

}  // namespace

std::vector<Mistake> expert_mistakes() {
  std::vector<Mistake> mistakes;
  mistakes.push_back(weighed_input_mistake());
  for (auto part :
       {weight_mistakes(), expert_weight_mistakes(), reweighing_mistakes(),
        expert_choice_mistakes(), count_mistakes(), expert_order_mistakes(),
        expert_capacity_mistakes(), router_input_mistakes(), shared_expert_mistakes()}) {
    for (Mistake& mistake : part) mistakes.push_back(std::move(mistake));
  }
  return mistakes;
}

}  // namespace assay::mistakes
