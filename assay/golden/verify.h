#pragma once

#include <string>
#include <vector>

#include "assay/golden/allowed_errors.h"
#include "assay/golden/manifest.h"

namespace assay {

// The state of one fixture, which may be unreadable, or of a golden whose manifest is.
struct GoldenState {
  std::string model;
  std::string type;
  std::string prompt;
  std::string set;
  std::string log;
  std::string state;  // recorded, pending, missing, changed, unreadable
};

struct GoldenCheck {
  std::string model;
  std::vector<GoldenState> fixtures;
  // Deviations from what the golden states: "FILE: what; command that repairs it". None: all is
  // right.
  std::vector<std::string> problems;
  // Model files that come from elsewhere and were not found: their hashes were not checked.
  std::vector<std::string> absent_models;
  // Of what the engine computed, what no golden here has, so that it is held to nothing.
  std::vector<std::string> unverified;
  std::vector<AllowedErrors> allowed;  // of each model file
  std::vector<std::string> wide;       // wide_tolerances()
};

// Names of the models that have a folder in the folder of all goldens, sorted: with a manifest, a
// pending one, or logs or model files that lack one. Throws Error if it cannot be read or has none.
std::vector<std::string> golden_models(const std::string& root);

// The folder of one model, with a slash at its end. Throws Error if there is none of that name.
std::string golden_folder(const std::string& root, const std::string& model);

// The path of a model file: in the manifest's folder, or among the files of scripts/fetch.sh; empty
// if it is in neither.
std::string find_model_file(const GoldenManifest& manifest, const GoldenFile& file);

// Checks one golden: its manifest's schema, that the versions of its oracles are those pinned in
// ROOT/generate/requirements.txt, where there is one, the hashes of its model files and logs, that
// its logs are of those models and prompts and hold what it states (check_golden_log), and that it
// has what ROOT/inventory.txt lists of the model, where there is one, and no more. Throws Error
// only if the folder cannot be read.
GoldenCheck verify_golden(const std::string& root, const std::string& model);

// All goldens of a folder, and a check that fails for each model that only its inventory has.
std::vector<GoldenCheck> verify_goldens(const std::string& root);

}  // namespace assay
