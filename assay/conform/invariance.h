#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "assay/conform/conformance.h"

namespace assay {

struct InvarianceOptions {
  SuiteOptions suite;
  // A model of the user's in place of the suite's: its folder, its GGUF file, or both; and tokens.
  std::string model_dir;
  std::string gguf;
  std::vector<int32_t> tokens;
  std::vector<std::string> surfaces;  // names of rows; none: all
};

// The ways in which tokens are evaluated, beside alone: "again", "after" another prompt, and the
// surfaces of the protocol.
std::vector<std::string> default_surfaces();

// Evaluates the same tokens on each engine in each way, and compares what it logs with what it logs
// of the tokens alone: the same bits, within noise, or dependent. Noise is what separates repeats
// of one surface, twice. Throws Error as conform() does, and about a surface that does not exist.
EngineTable invariance(const std::vector<EngineDeclaration>& engines,
                       const InvarianceOptions& options);

}  // namespace assay
