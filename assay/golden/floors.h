#pragma once

#include <optional>
#include <string>

#include "assay/compare/policy.h"
#include "assay/golden/manifest.h"
#include "assay/log/record.h"

namespace assay {

// The error of `fast` on weights in blocks may be this many times its floor (fast_floors.h): the
// same rounding in another order has another error of the same size, and a sketch estimates it
// within three deviations of sqrt(2 / 64) / 2 each.
inline constexpr double kFastFloors = 1 + 3 * 0.09;

// The floor of a checkpoint: its own if one was measured, else that of its kind; kLeastFloor at
// least. Nothing if neither has the floor of that name.
std::optional<double> floor_of(const GoldenFile& file, const std::string& floor,
                               const std::string& checkpoint);
// The same for a checkpoint of this kind without a floor of its own.
std::optional<double> floor_of_kind(const GoldenFile& file, const std::string& floor,
                                    const std::string& kind);

// rel_l2 <= k times the floor, kWidestTolerance at most, checkpoint by checkpoint. `floor` names
// another floor than the manifest's; empty: the manifest's. Throws Error if no checkpoint of the
// file has such a floor; the policy's tolerance() does if a single one has none.
Policy floor_policy(const GoldenManifest& manifest, const GoldenFile& file,
                    const std::string& floor = {});

// The model file of two logs: by the sha256 of the model in their headers, or by its type if they
// give none. Throws Error if neither names it, the two disagree, or the manifest has no such file.
const GoldenFile& fitting_file(const GoldenManifest& manifest, const std::optional<LogHeader>& ref,
                               const std::optional<LogHeader>& got);

// The tolerances for two logs: those of a policy file, or from the floors of a golden's manifest;
// `floor` names another floor than the manifest's choice, or kFastFloorName. Throws Error if there
// is none.
Policy policy_for_logs(const std::string& policy_path, const std::string& floor,
                       const std::string& ref_path, const std::string& got_path);

// Whether only whole records count under that policy, as floors were measured on these: it is a
// manifest or a measured policy file. An empty path is neither.
bool requires_whole_records(const std::string& policy_path);

}  // namespace assay
