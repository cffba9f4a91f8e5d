#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "assay/golden/manifest.h"
#include "assay/log/record.h"
#include "engine/gguf.h"
#include "kernels/kernels.h"

namespace assay {

// What an oracle computed for one checkpoint at one token, and how far from it is right.
struct GoldenRecord {
  Record record;
  double tolerance = 0;   // of relative L2
  bool op_level = false;  // from a log that holds every op
};

// What the engine's values of a checkpoint hash to (assay/golden/snapshots.h).
struct CheckpointHash {
  std::string checkpoint;
  std::string hash;
};

// One prompt on one model file, with all records of it that the goldens hold.
struct GoldenCase {
  std::string model;   // "tinyllama"
  std::string type;    // "F32"
  std::string prompt;  // its name: "haiku"
  std::string prompt_text;
  std::string model_path;
  std::string manifest_path;
  std::shared_ptr<const Gguf> gguf;
  std::vector<int32_t> tokens;
  std::vector<int32_t> greedy;       // what is chosen after them
  std::vector<int32_t> padding_ids;  // what never is
  std::vector<GoldenRecord> records;
  double k = 0;  // a tolerance is this many times a floor
  Math math = Math::kExact;
  // Of the sound engine, as the network computes; empty where the golden has no snapshots.
  std::vector<CheckpointHash> snapshot;

  // "tinyllama F32 haiku", "tinyllama Q4_K_M fast haiku"
  std::string name() const {
    return model + " " + type + (math == Math::kFast ? " fast " : " ") + prompt;
  }
};

// A model file that is neither where its goldens are nor in the cache.
struct MissingModel {
  std::string model;
  std::string what;  // "smollm2 Q4_1: no SmolLM2-135M-Instruct.Q4_1.gguf"
};

// Which of the goldens to read; empty lists: all.
struct GoldenFilter {
  std::vector<std::string> models = {};
  std::vector<std::string> types = {};
  std::vector<std::string> prompts = {};
};

// The cases under `folder` in one kind of math: in `fast` those of model files where it rounds
// activations, with the tolerances of fast_floors.json; elsewhere it computes as `exact`. `folder`
// holds a folder with a manifest for each model. Model files that are not there are looked for in
// the cache that scripts/fetch.sh fills; those that are in neither are listed in `missing`. Throws
// Error if a manifest, a log or a model is damaged, is not the one that the manifest states, or
// nothing is found.
std::vector<GoldenCase> read_golden_cases(const std::string& folder, const GoldenFilter& filter,
                                          std::vector<MissingModel>& missing,
                                          Math math = Math::kExact);

}  // namespace assay
