#pragma once

#include <functional>
#include <vector>

#include "assay/mistakes/mistake.h"

namespace assay::mistakes {

// What a mistake needs of a layer's experts.
using Needs = std::function<bool(const Routing&)>;

// Whether the network has experts, and such; not of the shared one.
std::function<bool(const Network&, Op)> routed(Needs has);

// Whether the op reads the weights of experts, to multiply by them.
bool reads_weights(const Network& network, Op op);

// What is wrong with the mixture is so too where a shared expert is added to it.
Injected routing_fault(const char* name, const char* what, Checkpoint at, const char* needed,
                       Needs has);

// Added to what the layer's experts are chosen by; null: nothing.
const float* choice_bias(const Network& network, int layer);

// How experts are chosen.
std::vector<Mistake> expert_choice_mistakes();

// Which of a token's experts has which weight, and what is taken for which expert.
std::vector<Mistake> expert_order_mistakes();

// Tokens for which an expert has no room.
std::vector<Mistake> expert_capacity_mistakes();

// Where the weights are applied, and SparseMixer's.
std::vector<Mistake> expert_weight_mistakes();

// What the router reads, and scales of experts.
std::vector<Mistake> router_input_mistakes();

// What becomes of the shared one.
std::vector<Mistake> shared_expert_mistakes();

}  // namespace assay::mistakes
