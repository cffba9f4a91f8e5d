#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "assay/golden/manifest.h"

namespace assay {

// How many layers the model has, by the floors of `file` and its logs; 0 if these do not show it.
// `place` gives the path of a log by its name; unreadable logs are ignored.
int64_t layers_of(const GoldenFile& file,
                  const std::function<std::string(const std::string&)>& place);

// Throws Error, with `hint`, what to do about it, unless the log at `path` is of this model
// and prompt and holds each checkpoint once at each of its positions: of the sets `logits`,
// `layers` and `ops` those that the set is made of and all that `file` has floors of by name; of
// other sets, which are globs, those that it has. `layers` and `ops` are made of each layer up to
// the last of `n_layers` and of the log's own, and of `ops` each has every op that one of them has.
// All records of a checkpoint have as many elements. Every record must state something that an
// engine can be held to: no NaN, and not nothing but zeros or infinities. Its logits must choose
// what the manifest states (see StatedChoices).
void check_golden_log(const std::string& path, const GoldenManifest& manifest,
                      const GoldenFile& file, const GoldenLog& log, int64_t n_layers,
                      const std::string& hint);

}  // namespace assay
