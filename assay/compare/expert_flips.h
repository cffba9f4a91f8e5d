#pragma once

#include "assay/compare/comparison.h"
#include "assay/compare/measure.h"

namespace assay {

// Judges each record of layer_N_experts whose ids differ: a near tie in the router's logits
// (expert_choice.h), which takes the record layer_N_router of the same token whole or partial in
// the results, or a fault. `request`: what the results were measured with.
//
// A near tie passes as kTieFlip, or fails under strict_argmax, and is listed in comparison.flips.
// Where both list the same experts in another order, each expert's values are compared by its id
// (expert_order.h), and so are the ids if the weights are logged whole; else the order takes a
// near tie. Both are listed, too. After another choice of experts,
// failing records that read what these computed are excused: in that layer what comes after the
// choice, but for shared experts; all later layers; at later tokens, of the next layer what comes
// from attention on. Their reason is kAfterFlip; they stay in the results until
// move_excused_by_flips(), so that find_split() sees what they choose. NaN, sizes and
// contradictions still fail, and so does a choice whose own router passes or denies it.
//
// The positions that a layer's attention sees (layer_N_indexed) are judged likewise, by the scores
// that the log's own index_q_rope, index_weights and index_k_rope give (index_scores.h); what reads
// them begins with the layer's attention.
//
// The results are sorted by token and as the network computes.
void judge_expert_flips(const MeasureRequest& request, Comparison& comparison);

// Moves what was excused from the results to the gaps.
void move_excused_by_flips(Comparison& comparison);

// How many records of the reference flips excused, or left unproven where whole evidence is
// required.
int64_t count_after_flips(const Comparison& comparison);

}  // namespace assay
