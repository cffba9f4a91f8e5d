#pragma once

#include <string>
#include <vector>

namespace assay {

// What may change goldens, by the environment variable ASSAY_UPDATE.
enum class UpdateMode {
  kNo,      // nothing is recorded or accepted
  kNew,     // a recording is pending until it is reviewed
  kAlways,  // a recording is accepted at once
};

// ASSAY_UPDATE, if it is set; else `no` if CI is set (and not to 0 or false), otherwise `new`.
// Throws Error unless it is no, new or always.
UpdateMode update_mode();

// Throws Error with the reason, and what to do, unless goldens may be changed.
void check_may_update();

// The command that records a golden, from its manifest, even if the manifest has other errors.
// Throws Error if there is none.
std::string stated_command(const std::string& folder);

// Runs `command` by the shell in `root`, with its output on standard error, and makes what it
// recorded for `model` pending as *.new files; returns their names, none if nothing differs.
//
// The command must write ASSAY_GOLDEN_OUT/MODEL/..., a new folder: the logs, and the manifest.json
// if more than hashes changes. ROOT/../.cache/venv/bin, if it is there, comes first in its PATH.
// Throws Error, with nothing changed, if the command fails, writes nothing, writes into the golden
// itself, or writes inconsistent files.
std::vector<std::string> record_golden(const std::string& root, const std::string& model,
                                       const std::string& command);

}  // namespace assay
