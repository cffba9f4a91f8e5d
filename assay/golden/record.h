#pragma once

#include <string>
#include <vector>

namespace assay {

// What may be done to goldens, by the environment variable ASSAY_UPDATE.
enum class UpdateMode {
  kNo,      // nothing is recorded or accepted
  kNew,     // what is recorded waits for review
  kAlways,  // what is recorded is accepted at once
};

// ASSAY_UPDATE, if it is set; else `no` where CI is set (and not to 0 or false), `new` elsewhere.
// Throws Error if it is none of no, new and always.
UpdateMode update_mode();

// Throws Error that says why, and what to do, unless goldens may be changed.
void check_may_update();

// The command that records a golden, as its manifest states it, whatever else is wrong with that.
// Throws Error if it states none.
std::string stated_command(const std::string& folder);

// Runs `command` by the shell in `root`, with what it prints on standard error, and makes what it
// recorded of `model` wait as *.new files; returns their names, none if nothing differs.
//
// The command must write ASSAY_GOLDEN_OUT/MODEL/..., a new folder: the logs, and the manifest.json
// if more than hashes changes. ROOT/../.cache/venv/bin, if it is there, comes first in its PATH.
// Throws Error, with nothing changed, if the command fails, writes nothing, writes into the golden
// itself, or writes what does not fit together.
std::vector<std::string> record_golden(const std::string& root, const std::string& model,
                                       const std::string& command);

}  // namespace assay
