#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/conform/engine_list.h"
#include "assay/conform/feature.h"

namespace assay {

// What an engine does with a feature.
enum class Conformity : uint8_t {
  kHonoured,
  kIgnored,      // computes the model without it
  kMisread,      // makes another known mistake
  kDiffers,      // computes something else
  kUnsupported,  // says that it cannot
  kCrashed,      // or wrote no log
};

std::string_view conformity_name(Conformity conformity);

// How far the records of a checkpoint are from those in another log: the root mean square of rel_l2
// over the positions that could be compared. Not a number where one of them is none.
struct OutputError {
  double rel_l2 = 0;
  int64_t positions = 0;  // compared
  int64_t total = 0;      // that the reference has
};

struct FeatureVerdict {
  std::string feature;
  Conformity conformity = Conformity::kCrashed;
  std::string cause;                     // of ignored and misread: the name of the mistake
  std::string text;                      // what the engine does, or says
  std::string checkpoint;                // that was judged: logits, or the last layer
  std::optional<OutputError> error;      // from float64
  std::optional<double> from_explained;  // from what it is said to do
  std::string first_divergence;  // the first checkpoint that differs, where layers were logged
  std::string log;
  std::string command;  // that compares again
};

struct EngineVerdicts {
  EngineDeclaration engine;
  std::vector<FeatureVerdict> features;  // in the order of Conformance::features

  int64_t count(Conformity conformity) const;
};

struct Conformance {
  std::vector<Feature> features;
  std::vector<EngineVerdicts> engines;

  // Whether each engine honours all features that it supports, and supports one.
  bool pass() const;
};

struct ConformOptions {
  std::string suite;                  // the folder of the features
  std::vector<std::string> features;  // globs; none: all
  std::string work;                   // where models and logs are written, and stay
  std::chrono::seconds timeout{120};  // of one case
  std::function<void(int64_t done, int64_t total)> progress;
};

// Runs every feature on each engine, and judges what it logs. Throws Error about the suite or a
// command that cannot be run; what an engine does wrong is a verdict.
Conformance conform(const std::vector<EngineDeclaration>& engines, const ConformOptions& options);

}  // namespace assay
