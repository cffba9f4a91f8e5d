#pragma once

#include "model/layers.h"

// The rows of architecture.cc of GPT's kin: networks whose feed-forward has no gate.
namespace assay::layers {

inline constexpr Architecture kPlainArchitectures[] = {
    {.name = "gpt2",
     .layer = kGpt2Layer,
     .norm = NormKind::kLayer,
     .activation = ActivationKind::kGeluTanh,
     .position = PositionKind::kLearned},
    {.name = "mpt",
     .layer = kMptLayer,
     .norm = NormKind::kLayer,
     .norm_bias = false,
     .activation = ActivationKind::kGelu,
     .position = PositionKind::kAlibi},
    {.name = "bloom",
     .layer = kGpt2Layer,
     .norm = NormKind::kLayer,
     .activation = ActivationKind::kGeluTanh,
     .position = PositionKind::kAlibi,
     .embedding_norm = true,
     .default_alibi_bias = 8.0},
    {.name = "starcoder",
     .layer = kGpt2Layer,
     .norm = NormKind::kLayer,
     .activation = ActivationKind::kGeluTanh,
     .position = PositionKind::kLearned},
    {.name = "starcoder2",
     .layer = kPlainLayer,
     .norm = NormKind::kLayer,
     .activation = ActivationKind::kGeluTanh},
    {.name = "gptneox",
     .layer = kGptneoxLayer,
     .variants = kGptneoxVariants,
     .norm = NormKind::kLayer,
     .activation = ActivationKind::kGelu},
    {.name = "gptj",
     .layer = kGptJLayer,
     .norm = NormKind::kLayer,
     .output_bias = Presence::kAlways,
     .activation = ActivationKind::kGeluTanh,
     .rope_pairing = RopePairing::kAdjacent},
    {.name = "persimmon",
     .layer = kPersimmonLayer,
     .norm = NormKind::kLayer,
     .activation = ActivationKind::kReluSquared},
    {.name = "phi2",
     .layer = kPhi2Layer,
     .norm = NormKind::kLayer,
     .output_bias = Presence::kAlways,
     .activation = ActivationKind::kGeluTanh},
};

}  // namespace assay::layers
