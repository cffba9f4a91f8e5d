// The Python package has the names from model/checkpoint.cc, in a file that is generated from it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "model/checkpoint.h"

namespace assay {
namespace {

constexpr const char* kPath = ASSAY_SOURCE_DIR "/python/assay_tap/names.py";

std::string list_of(Checkpoint first, Checkpoint last) {
  std::string names;
  for (int i = static_cast<int>(first); i <= static_cast<int>(last); ++i) {
    names += fmt::format("    \"{}\",\n", checkpoint_op(static_cast<Checkpoint>(i)));
  }
  return names;
}

std::string generated() {
  return "\"\"\"The checkpoints in the order in which a network computes them.\n\n"
         "Those of a layer, and those after all layers; the embedding comes first. Generated from\n"
         "model/checkpoint.cc: do not edit, run ASSAY_GENERATE=1 model_test.\n\"\"\"\n\n"
         "LAYER = (\n" +
         list_of(Checkpoint::kAttnNorm, Checkpoint::kOutput) + ")\nLAST = (\n" +
         list_of(Checkpoint::kFinalNorm, Checkpoint::kLogits) + ")\n";
}

TEST(PythonNames, AreThoseOfTheDescription) {
  if (std::getenv("ASSAY_GENERATE") != nullptr) std::ofstream(kPath) << generated();
  std::ifstream file(kPath);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_EQ(text, generated()) << "run ASSAY_GENERATE=1 model_test";
}

}  // namespace
}  // namespace assay
