#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace assay {

// golden/<model>/manifest.json, schema 2; golden/README.md has the keys.

// The error between two correct computations of one checkpoint: relative L2 over all recorded
// tokens and prompts.
struct Floor {
  double max = 0;
  std::optional<double> p99;
  std::optional<double> regret;  // at most, of the argmax; logits only

  bool operator==(const Floor&) const = default;
};

using Floors = std::map<std::string, Floor>;  // by name, such as f32_vs_f64

struct GoldenPrompt {
  std::string text;
  std::vector<int32_t> tokens;
};

// One fixture: what the oracle computed for one prompt.
struct GoldenLog {
  std::string file;  // in the manifest's folder
  std::string sha256;
  std::string prompt;                             // its key in GoldenManifest::prompts
  std::string set;                                // a value of --checkpoints: layers, ops, ...
  std::optional<std::vector<int64_t>> positions;  // those logged; all if it is not set
  int64_t n_predict = 0;                          // tokens that were generated after the prompt
  std::vector<int32_t> greedy;                    // the tokens [n_predict]
  std::vector<double> greedy_gaps;       // for each, how far its logit is above the runner-up's
  std::optional<double> argmax_min_gap;  // the smallest such gap over all logged positions
  // The smallest of both kinds of gaps as a share of the logits' L2 norm.
  std::optional<double> argmax_margin;
  std::optional<std::string> text;  // of `greedy`
};

// A prompt of which only the generated tokens are compared with the oracle's.
struct GoldenText {
  std::string prompt;  // its key in GoldenManifest::prompts
  std::vector<int32_t> greedy;
};

// One model file with its logs and floors.
struct GoldenFile {
  std::string type;    // "Q4_K_M"
  std::string gguf;    // in the manifest's folder, unless `source` is set
  std::string sha256;  // of the model file
  // The source of a model file that is not in the folder, as text; else empty.
  std::string source;
  std::string command;                   // that makes such a file, if `source` has one; else empty
  std::map<std::string, Floors> floors;  // by checkpoint_kind()
  std::map<std::string, Floors> floors_by_checkpoint;  // by name
  std::vector<GoldenLog> logs;
  std::vector<GoldenText> texts;
};

struct GoldenTolerance {
  double k = 0;       // the error of a checkpoint may be k times its floor
  std::string floor;  // which floor
  std::string why;
};

struct GoldenManifest {
  std::string path;
  std::string model;
  std::string arch;
  std::map<std::string, GoldenPrompt> prompts;
  std::vector<int32_t> padding_ids;            // never generated
  std::map<std::string, std::string> oracles;  // what recorded the logs: name to version
  std::string command;                         // that records them again, run in golden/
  GoldenTolerance tolerance;
  std::vector<GoldenFile> files;

  std::string folder() const;  // with a slash at its end; empty for the current one
  const GoldenFile* file_of_type(const std::string& type) const;  // nullptr: of no such type
};

inline constexpr int64_t kManifestSchema = 2;
inline constexpr int64_t kMaxManifestBytes = int64_t{64} << 20;

// A manifest of a newer schema, which recording again would not repair.
class NewerManifest : public Error {
 public:
  using Error::Error;
};

// Whether the file at `path` is JSON that claims to be a manifest: an object with the key "schema".
bool is_golden_manifest(const std::string& path);

// Throws Error that names the file and the key ("files[0].logs[2].sha256") if anything is missing,
// of a wrong type or schema, out of range, or inconsistent. Unknown keys are notes and are ignored.
// Files that it names are not opened; their names are single path components, so that they cannot
// be outside the folder.
GoldenManifest read_golden_manifest(const std::string& path);
// The same for a text; errors name `path`.
GoldenManifest parse_golden_manifest(const std::string& text, const std::string& path);

// The manifest's text with the sha256 of each model file and log in `hashes`, by name, replaced,
// and no other byte changed. Throws Error if it is not a manifest.
std::string with_hashes(const std::string& text, const std::string& path,
                        const std::map<std::string, std::string>& hashes);

// The checkpoint's name without its layer: "q_rope" of layer_7_q_rope, "logits" of logits.
std::string checkpoint_kind(const std::string& checkpoint);

}  // namespace assay
