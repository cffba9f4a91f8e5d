#pragma once

#include <map>
#include <string>
#include <vector>

#include "assay/golden/manifest.h"

namespace assay {

inline constexpr const char* kManifestName = "manifest.json";
inline constexpr const char* kPendingSuffix = ".new";

// The next state of a golden, fully checked.
struct GoldenChange {
  GoldenManifest manifest;
  std::string manifest_text;
  std::vector<std::string> replaced;  // names of logs and model files, without the manifest
  std::vector<std::string> dropped;   // that the manifest in place names and this one does not
};

// The golden in `folder` (with a slash at its end) after each file of `replacements`, by name, has
// replaced that in the folder. A manifest among them states the hash of every file; without one,
// the current manifest does, with the hashes of the replaced files.
//
// Throws Error, with the command that repairs it, unless everything is consistent: every log and
// model file that the manifest names exists with its hash, it names every replacement, and every
// replaced log is whole and of the model and prompt that the manifest states.
GoldenChange plan_change(const std::string& folder,
                         const std::map<std::string, std::string>& replacements);

// The pending files of the folder: their names to their paths, NAME to FOLDER/NAME.new.
std::map<std::string, std::string> pending_files(const std::string& folder);

// Adds files that the engine measured (snapshots.h, fast_floors.h) to the pending ones.
void make_measured_pending(const std::string& folder, const std::string& name,
                           const std::string& text);

// Installs the pending files and updates the hashes in the manifest, which is written last. If it
// is interrupted, verify reports that, and accepting again completes it. Returns the change made;
// throws Error, and changes nothing, if nothing is pending or it is inconsistent.
GoldenChange accept_pending(const std::string& folder);

// Removes the pending files and returns their number. Throws Error, and removes nothing, if an
// accept was interrupted: some pending files are installed, and the old ones are gone.
int64_t reject_pending(const std::string& folder);

// Makes each file of `replacements`, which are all logs that the manifest names, that differs from
// the current one pending, after removing earlier pending files. Returns their names; none if
// nothing differs. Throws what plan_change() does, with the advice to repair the oracle, before it
// writes anything.
std::vector<std::string> make_pending(const std::string& folder,
                                      const std::map<std::string, std::string>& replacements);

}  // namespace assay
