// What two logs do not share, in sentences; each is empty where there is nothing to tell.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "assay/compare/comparison.h"
#include "assay/compare/log_index.h"
#include "assay/compare/pairing.h"
#include "assay/compare/policy.h"
#include "assay/compare/selection.h"

namespace assay {

// Throws Error if --checkpoints or --allow-missing names what neither log has, or the policy what
// no log can have: a mistyped name must not leave out what it was to select.
void check_names(const std::vector<std::shared_ptr<LogIndex>>& ref,
                 const std::vector<std::shared_ptr<LogIndex>>& got, const CompareOptions& options);

// Checkpoints of the policy that neither log has.
std::string unused_globs(const Policy& policy, const SharedNames& names);

// The map to give where one log has names of another engine that the other does not have.
std::string fitting_map(const LogIndex& ref, const LogIndex& got);

// Both logs have nothing but names of one other engine.
std::string foreign_names(const LogIndex& ref, const LogIndex& got);

// Each log has checkpoints, of those selected, that the other does not have: they were not
// compared.
std::string other_names(const LogIndex& ref, const LogIndex& got, const Selection& selection);

// The logs are of different sequences, which are compared as if they were one.
std::string other_sequence(const LogIndex& ref, const LogIndex& got);

// Sequences of the judged log that the reference does not have, by their names, which are held to
// nothing.
std::string further_sequences(const std::string& got_path, const std::vector<std::string>& names);

// The headers name different model files, or models.
std::string other_model(const std::optional<LogHeader>& ref, const std::optional<LogHeader>& got);
// The same of what the logs hold, too: models of other sizes are no types of one.
std::string other_model(const LogIndex& ref, const LogIndex& got);

// What differs first is beyond the end of a prompt, where the two may have other tokens: one header
// names the token and the other does not, or it was sampled.
std::string other_continuation(const LogIndex& ref, const LogIndex& got,
                               const Comparison& comparison);

// Logits that neither log calls log-probabilities were compared but for a constant.
std::string fitted_constants(const Comparison& comparison);

// Some records hold nothing but zeros in both logs.
std::string zeros_of_both(const Comparison& comparison);

// It passes by the built-in tolerance, and the error jumps at a layer.
std::string jump_within_tolerance(const Comparison& comparison);

// It passes, with records whose error is large beside their values, since the policy allows that.
std::string large_errors_that_pass(const Comparison& comparison);

// One of the logs is of an engine that was given its choice of experts: equal ids show nothing.
std::string replayed_routing(const LogIndex& ref, const LogIndex& got);

// One of the two has tokens before the other's first: everything else diverges too, which must not
// be looked for in the layers.
std::string shift_warning(const LogIndex& ref, const LogIndex& got, const Alignment& alignment);

// The headers name other inputs, and the offset was asked for: what agrees shows little.
std::string other_input_warning(const LogIndex& ref, const LogIndex& got,
                                const Alignment& alignment);

// The data would match under another offset, which the tokens in both headers exclude.
std::string excluded_offset_warning(int64_t offset);

// That positions were compared with others, because these match.
std::string found_offset_warning(int64_t offset);

}  // namespace assay
