#pragma once

#include <string>

#include "assay/golden/manifest.h"

namespace assay {

// Throws Error, with `hint`, what to do about it, unless the log at `path` is of this model
// and prompt and holds each checkpoint once at each of its positions: of the sets `logits`,
// `layers` and `ops` those that the set is made of and all that `file` has floors of by name; of
// other sets, which are globs, those that it has. With `whole`, values and sketches are read too.
void check_golden_log(const std::string& path, const GoldenManifest& manifest,
                      const GoldenFile& file, const GoldenLog& log, bool whole,
                      const std::string& hint);

}  // namespace assay
