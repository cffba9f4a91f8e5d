#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "assay/compare/policy.h"
#include "assay/golden/manifest.h"

namespace assay {

// golden/<model>/fast_floors.json: how far Assay's own `fast` is from the golden, which stays
// float64. `fast` rounds activations (rounding_of() of kernels/tensor_type.h), and its error is
// the noise of that rounding: measured on the positions that the golden holds, prompt by prompt,
// since the error of a prompt of 500 tokens is larger than that of one of ten. Of `library` it has
// the error of the emulated backend, whose products round the same inputs to halves, at prompts
// that are long enough for cuBLAS and short enough to emulate.
inline constexpr const char* kFastFloorsName = "fast_floors.json";
inline constexpr const char* kFastFloorName = "assay_fast_vs_f64";  // for --floor
inline constexpr const char* kLibraryFloorName = "assay_library_vs_f64";

// Whether `fast` rounds activations on a model file of this type; otherwise it computes like
// `exact`.
bool rounds_activations(const std::string& type);

// Whether there are floors of `library` for this prompt of a model file.
bool has_library_floors(const GoldenManifest& manifest, const GoldenFile& file,
                        const std::string& prompt);

// Of one checkpoint, over the positions that the golden holds: relative L2.
struct FastFloor {
  double max = 0;
  double median = 0;

  bool operator==(const FastFloor&) const = default;
};

struct FastFloors {
  struct Of {
    std::string type;
    std::string sha256;  // of the model file
    std::string prompt;
    std::vector<std::pair<std::string, FastFloor>> floors;  // by checkpoint, in the network's order
    std::string math = "fast";                              // or "library"
  };
  std::string model;
  std::vector<Of> prompts;
};

// Nothing if the folder (with a slash at its end) has none. Throws Error that names the missing or
// wrong key, or a floor that lets anything pass.
std::optional<FastFloors> read_fast_floors(const std::string& folder);
FastFloors parse_fast_floors(const std::string& text, const std::string& path);
std::string fast_floors_text(const FastFloors& floors);

// The same, or Error if `manifest` has none, or lacks one for a prompt and a model file that rounds
// activations, with the command that measures them.
FastFloors fast_floors_of(const GoldenManifest& manifest);

// Null if the checkpoint has none.
const FastFloor* find_fast_floor(const FastFloors& floors, const std::string& type,
                                 const std::string& prompt, const std::string& checkpoint,
                                 const std::string& math = "fast");

// The tolerances of `fast` on one prompt: a multiple of its floors, kFastFloors for the engine that
// they were measured on, and where that is less, before the first rounding, the tolerance of
// `exact`. For model files where it rounds nothing, that of `exact`. The policy's tolerance()
// throws Error if a checkpoint has no floor.
Policy fast_policy(const GoldenManifest& manifest, const GoldenFile& file,
                   const std::string& prompt, double times);

// kFastFloors times the median over positions; half of a checkpoint's records must be within it.
Policy usual_fast_policy(const GoldenManifest& manifest, const GoldenFile& file,
                         const std::string& prompt);

// The same two for `library`.
Policy library_policy(const GoldenManifest& manifest, const GoldenFile& file,
                      const std::string& prompt, double times);
Policy usual_library_policy(const GoldenManifest& manifest, const GoldenFile& file,
                            const std::string& prompt);

// From the errors of one checkpoint at all its positions, rounded up to three digits. Throws Error
// if one of them is not a number below 1.
FastFloor fast_floor_of(std::vector<double> errors, const std::string& where);

// Whether a golden of the manifest has a type or a prompt that such floors are measured of.
bool needs_fast_floors(const GoldenManifest& manifest);

// A line for each prompt of the manifest without floors, for each that it does not have, for each
// of another model file, and for each with a floor over twice what the manifest says of llama.cpp,
// which rounds as `fast` does, over 1e5 times the floor of float32, or of what has neither.
std::vector<std::string> fast_floor_problems(const GoldenManifest& manifest,
                                             const FastFloors& floors);

// A line for each prompt whose floors change: how many rise, and which rises most.
struct FastFloorChanges {
  std::vector<std::string> notes;
  bool looser = false;
};
FastFloorChanges fast_floor_changes(const FastFloors& before, const FastFloors& after);

}  // namespace assay
