#pragma once

#include <map>
#include <string>
#include <vector>

#include "assay/golden/manifest.h"

namespace assay {

inline constexpr const char* kManifestName = "manifest.json";
inline constexpr const char* kPendingSuffix = ".new";

// What a golden is to become, with all of it checked.
struct GoldenChange {
  GoldenManifest manifest;
  std::string manifest_text;
  std::vector<std::string> replaced;  // names of logs and model files, without the manifest
  std::vector<std::string> dropped;   // that the manifest in place names and this one does not
};

// The golden in `folder` (with a slash at its end) after each file of `replacements`, by name, has
// taken the place of that in the folder. A manifest among them states the hash of every file; if
// there is none, the one in place does, with the hashes of what is replaced.
//
// Throws Error, with the command to mend it, unless the whole fits: every log and model file that
// the manifest names is there with its hash, every replacement is named by it, and every replaced
// log is whole and of the model and prompt that the manifest says.
GoldenChange plan_change(const std::string& folder,
                         const std::map<std::string, std::string>& replacements);

// The files that wait in the folder: their names to their paths, NAME to FOLDER/NAME.new.
std::map<std::string, std::string> pending_files(const std::string& folder);

// Makes what the engine measured (snapshots.h, fast_floors.h) wait beside whatever else does.
void make_measured_pending(const std::string& folder, const std::string& name,
                           const std::string& text);

// Moves what waits into its place and updates the hashes in the manifest, which goes last. Cut off
// at any point, verify tells it, and accepting again completes it. Returns the change made; throws
// Error, and changes nothing, if nothing waits or it does not fit.
GoldenChange accept_pending(const std::string& folder);

// Removes what waits; the number of files. Throws Error, and removes nothing, where an accept was
// cut off: part of what waited is in its place, and what was there is gone.
int64_t reject_pending(const std::string& folder);

// Makes each file of `replacements` that differs from the one in place wait, after what waited
// before is removed. Returns their names; none if nothing differs. Throws what plan_change() does,
// with the advice to mend what wrote them, before anything is written.
std::vector<std::string> make_pending(const std::string& folder,
                                      const std::map<std::string, std::string>& replacements);

}  // namespace assay
