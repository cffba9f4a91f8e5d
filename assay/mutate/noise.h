#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "assay/mutate/golden_case.h"
#include "assay/mutate/golden_lane.h"

namespace assay {

// Relative L2 of the noise that is added to each row of a checkpoint, by its name.
using NoiseSizes = std::map<std::string, double>;

// An engine whose ops add noise of these sizes, in directions that follow from the seed.
Fault noise_fault(const NoiseSizes& sizes, uint64_t seed);

// The sizes of noise at each op with which every checkpoint is off, at the token where it is most,
// by the floor that the manifest states for it, which is a maximum over tokens too: what an engine
// as good as those that the floors were measured on would show, at the most. Noise of earlier ops
// comes through; where that alone is above the floor, the op adds none.
NoiseSizes calibrate_noise(const GoldenCase& golden, Kernels& kernels);

struct NoiseRuns {
  int64_t runs = 0;
  int64_t false_alarms = 0;
  double worst_ratio = 0;  // of an error to its tolerance, over all runs
  std::string worst_case;  // where that was
};

// `runs` engines with noise at the floor, each with another seed, held to the golden.
NoiseRuns run_noise(const GoldenCase& golden, int64_t runs, Kernels& kernels);

// The smallest noise at one checkpoint alone that the golden catches.
struct Sensitivity {
  std::string model;
  std::string checkpoint;
  double smallest = 0;   // relative L2; infinite if nothing up to 1 is caught
  double tolerance = 0;  // of that checkpoint in the golden
};

// One for each checkpoint that the golden holds. `told` is called after each.
std::vector<Sensitivity> measure_sensitivity(const GoldenCase& golden, Kernels& kernels);

}  // namespace assay
