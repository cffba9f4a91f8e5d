#pragma once

#include <vector>

#include "engine/config_keys.h"
#include "engine/model_config.h"

// Hyperparameters of several residual streams, and of activations that have a cutoff (Gemma 3n).
namespace assay {

// ModelConfig::n_streams and laurel_rank, which files state by their tensors alone.
void read_streams(const ConfigKeys& keys, ModelConfig& config);

// By how many deviations what passes each layer's activation lies above the mean; -infinity where
// all passes. Empty if no layer has a cutoff.
std::vector<double> read_cutoffs(const ConfigKeys& keys, const ModelConfig& config);

// That of one layer, whose op is dropped where it has none.
void set_cutoff(const ConfigKeys& keys, double cutoff, LayerConfig& layer);

}  // namespace assay
