#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "assay/mutate/fault.h"
#include "assay/mutate/golden_lane.h"
#include "assay/mutate/noise.h"
#include "assay/mutate/omission_lane.h"

namespace assay {

struct PowerOptions {
  std::string golden_folder = "golden";
  std::string vectors_folder = "tests/data";  // vector_lane.h
  std::string faults = "*";                   // shell glob of names
  std::vector<std::string> prompts;           // of the small models; empty: all
  bool sound_engine = true;                   // the engine as it is, which no lane may catch
  bool real = true;                           // real weights too, where they are in the cache
  bool compare = true;                        // the comparison of full logs
  bool fast = true;                           // the same faults in fast math
  bool omissions = true;                      // logs of a sound engine that leave something out
  bool sensitivity = true;                    // the smallest noise at each checkpoint
  int64_t noise_runs = 1000;  // engines with noise at the floor, on all models together
  int n_threads = 0;
  std::function<void(const std::string& what, int64_t done, int64_t total)> progress = {};
};

// One lane over all models that can have a fault.
struct LanePower {
  int64_t tried = 0;
  int64_t caught = 0;
  int64_t located = 0;      // of those, at the op where the fault is
  LaneResult weakest = {};  // the catch that is least above its tolerance; if none, the nearest
  std::string weakest_case = {};

  bool any() const { return caught > 0; }
};

struct FaultPower {
  const Fault* fault = nullptr;
  std::string expected = {};  // where it must be found, in the first model that can have it
  LanePower unit = {};        // single kernels against the naive reference
  LanePower small = {};       // goldens of the small models, all their logs
  LanePower small_ops = {};   // the same, logs with every op only
  LanePower vectors = {};     // goldens of blocks and of sampling
  LanePower real = {};        // goldens of real weights
  LanePower compare = {};     // full logs, the default policy
  LanePower snapshot = {};    // bits of all models, where the fault is in the network
  // In fast math, where the fault is in the network: model files whose activations it rounds.
  LanePower fast_small = {};
  LanePower fast_real = {};
  LanePower fast_snapshot = {};

  // By the goldens: models, real weights, vectors.
  bool is_caught() const { return small.any() || vectors.any() || real.any(); }
  bool is_caught_in_fast() const { return fast_small.any() || fast_real.any(); }
};

// How many faults a lane can see, and how many of these it catches in one model at least.
struct LaneCount {
  int64_t tried = 0;
  int64_t caught = 0;
};

struct Power {
  std::vector<FaultPower> faults;
  std::vector<Sensitivity> sensitivity;
  std::vector<OmissionPower> omissions;
  NoiseRuns noise;
  // Goldens that catch the engine as it is: what they say of faults means nothing.
  std::vector<std::string> sound_alarms;
  std::vector<std::string> missing;  // what could not be run, and why: real weights, lanes
  std::vector<std::string> lost;     // the same of small models, which come with their goldens
  double seconds = 0;

  int64_t caught_by_golden() const;
  LaneCount count(LanePower FaultPower::*lane) const;
  LaneCount caught_in_fast() const;    // by goldens, of the faults that are tried in fast math
  int64_t caught_at_op_level() const;  // cells: a fault in a model, on a prompt
  int64_t located() const;             // of those, at the right op
  int64_t omissions_tried() const;
  int64_t omissions_caught() const;
  // What is promised: every fault caught by the goldens, 95 % of the cells at the right op, no log
  // that leaves something out passed, no false alarm, of noise as of the engine as it is, and no
  // golden of a small model left out.
  bool passes() const;
};

// Tries the catalogue on the goldens. Throws Error if they cannot be read, no fault has that
// name, or no small model that prompt.
Power measure_power(const PowerOptions& options);

}  // namespace assay
