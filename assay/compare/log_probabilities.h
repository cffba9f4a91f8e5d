#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "assay/log/record.h"

namespace assay {

inline constexpr std::string_view kLogitsName = "logits";
inline constexpr std::string_view kLogProbabilitiesName = "logprobs";

inline bool is_logits_name(std::string_view checkpoint) {
  return checkpoint == kLogitsName || checkpoint == kLogProbabilitiesName;
}

// Whether a vocabulary of `shorter` elements may be padded to `longer`: a multiple of 64 that is
// the next one or at most a sixteenth further; DeepSeek's, from 100,015 to 102,400, is the most of
// the published ones that we know. More is a part of a vocabulary, such as one rank's, and a single
// element more is an error of one.
inline bool may_be_padded(int64_t shorter, int64_t longer) {
  const int64_t further = longer - shorter;
  return further > 1 && longer % 64 == 0 && further <= std::max<int64_t>(63, shorter / 16);
}

// The other name under which a log may hold the same record; empty for all but logits.
std::string sibling_of(std::string_view checkpoint);

// Reads what a record of logits chooses from the largest elements that its summary lists, where it
// has no `argmax`. A `logprobs` record becomes one of logits: its list of the most probable tokens
// is the largest elements of a summary that states nothing else. Infinite sums of padded logits are
// dropped.
void read_as_logits(Record& record);

// What no element is above that is not in `top`, the largest elements of `record`: the least of
// these, and of log-probabilities what those listed leave of 1. Nothing where `top` is empty.
std::optional<double> most_of_unlisted(const Record& record, std::span<const TopValue> top);

// Whether exactly one of two records of logits holds log-probabilities: it is called so, or has all
// values and the sum of their exponentials is 1 within kUnitSum.
bool are_log_probabilities(const Record& ref, const Record& got);
inline constexpr double kUnitSum = 1e-3;

// Of two such records: whether the constant between logits and log-probabilities is known, and not
// what fits the two best: one of them has all values. Where it is not, any constant would do.
bool is_constant_known(const Record& ref, const Record& got);

// `got` with the constant added that lies between logits and log-probabilities: the logarithm of
// the sum of the exponentials of the one that has all values; else the difference of the two means,
// or of the most probable token that both list. Where nothing tells the constant, a record that
// holds nothing but what is not finite.
Record in_terms_of(const Record& ref, const Record& got);

}  // namespace assay
