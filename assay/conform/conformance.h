#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "assay/conform/engine_list.h"
#include "assay/conform/engine_table.h"

namespace assay {

struct Feature;

std::vector<TableRow> rows_of(const std::vector<Feature>& features);

struct SuiteOptions {
  std::string suite;                  // the folder of the features
  std::vector<std::string> features;  // globs; none: all
  std::string work;                   // where models and logs are written, and stay
  std::string flags;                  // further ones of the command that repeats a cell
  std::chrono::seconds timeout{120};  // of one case
  std::function<void(int64_t done, int64_t total)> progress;
};

// Runs every feature on each engine, and judges what it logs. Throws Error about the suite or a
// command that cannot be run; what an engine does wrong is a finding.
EngineTable conform(const std::vector<EngineDeclaration>& engines, const SuiteOptions& options);

}  // namespace assay
