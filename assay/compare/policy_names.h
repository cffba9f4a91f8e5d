#pragma once

#include <string>
#include <vector>

#include "assay/compare/policy.h"

namespace assay {

// Throws Error if a glob of the policy matches none of `names`, all that two logs have, and no name
// that a network or another engine may give: mistyped, its tolerance would never hold. It takes a
// glob for another engine's where the ready maps know such a name, where it has characters that no
// name of Assay's has (`model.layers.*.mlp`) and is not nearly one, and where the layers in the
// logs have no name of Assay's. Plain names that `assay floors` wrote are not looked at.
void check_policy_names(const Policy& policy, const std::vector<std::string>& names);

}  // namespace assay
