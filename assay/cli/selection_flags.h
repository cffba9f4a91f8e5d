#pragma once

#include <string>
#include <vector>

#include "assay/cli/flags.h"
#include "assay/compare/name_map.h"
#include "assay/compare/selection.h"

namespace assay {

// Adds --tokens and --checkpoints: what of two logs is compared. `selection` must outlive `flags`.
void add_selection_flags(Flags& flags, Selection& selection, const std::string& tokens_help);

// Adds the map of names that a flag gives to each of `maps`.
Flags::Set load_into(std::vector<NameMap*> maps);

}  // namespace assay
