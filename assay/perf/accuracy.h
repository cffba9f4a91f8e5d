#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace assay {

// What is measured and held to goldens together: "smollm2", "Q4_1", "fast".
struct ModelKey {
  std::string model;
  std::string type;
  std::string math;
  // NOLINTNEXTLINE(modernize-use-nullptr): it takes the compiler's own comparison for a 0
  auto operator<=>(const ModelKey&) const = default;
};

// What the records of one checkpoint at one token were held to.
struct HeldRecord {
  std::optional<double> floor;
  double tolerance = 0;
  int64_t count = 0;  // of such records
};

// What the log of one prompt was held to.
struct HeldPrompt {
  int64_t missing = 0;  // records of the golden that the log lacks
  // By checkpoint, with its sequence if it has one, and token. Without those that failed and have
  // no floor: a record that the log alone has may fail by itself.
  std::map<std::string, std::map<int64_t, HeldRecord>> records = {};
};

// How far from its goldens an engine computed a model: the worst over their prompts.
struct Accuracy {
  double x_floor = 0;  // its error as a multiple of the floor, where it is largest; may be infinite
  double allowed = 0;  // so many floors are allowed there; at most kFastFloors where math is "fast"
  bool pass = true;
  std::string place;  // where it is largest: "layer_3_output at token 7 of haiku"
  std::map<std::string, HeldPrompt> prompts = {};  // those that were held to their goldens
};

// Reads every file MODEL-TYPE-MATH-PROMPT.json in `folder`: what `assay compare GOLDEN LOG --policy
// MANIFEST --format json` wrote of one prompt. Throws Error naming the file if one has another name
// or is no such comparison, or the folder has none.
std::map<ModelKey, Accuracy> read_accuracy(const std::string& folder);

}  // namespace assay
