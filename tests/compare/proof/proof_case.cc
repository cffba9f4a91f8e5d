#include "tests/compare/proof/proof_case.h"

#include <fmt/format.h>

#include <algorithm>

#include "assay/compare/compare_logs.h"
#include "assay/compare/log_index.h"
#include "base/error.h"

namespace assay::proof {
namespace {

constexpr int kAttempts = 60;

// The scenes that are damaged; most of them plain.
Variant base_variant(std::string_view damage, Chance& chance) {
  if (damage == "nan_after_split" || damage == "split_into_another_token") return Variant::kSplit;
  if (damage == "logits_restated_wrong") return Variant::kPlain;
  if (damage.starts_with("logprobs_")) return Variant::kTopLogprobs;
  static const std::vector<Variant> kBases = {
      Variant::kPlain,        Variant::kPlain,        Variant::kPlain,     Variant::kPlain,
      Variant::kPadding,      Variant::kTieFlip,      Variant::kOwnTokens, Variant::kOwnCheckpoints,
      Variant::kOffsetOne,    Variant::kSplit,        Variant::kCopies,    Variant::kNoFinalNewline,
      Variant::kNestedValues, Variant::kWholeSequence};
  return chance.pick(kBases);
}

// What a damaged scene must come to; kPass where the damage does not show.
Outcome outcome_of(const Patient& patient, Variant variant) {
  if (patient.outcome) return *patient.outcome;
  const Scene& scene = patient.scene;
  const Outcome outcome = outcome_of(scene);
  const bool told = scene.ref_form.names_tokens() && scene.got_form.names_tokens();
  // Further tokens of got may make a log of one that began earlier.
  if (patient.shifts && !told && scene.ref_form.to != scene.got_form.to) return Outcome::kPass;
  if (outcome == Outcome::kDiverge && !told && (patient.shifts || variant == Variant::kOffsetOne)) {
    return Outcome::kNotPass;
  }
  return outcome;
}

ProofCase right_case(Variant variant, Chance& chance) {
  const Scene scene = make_scene(variant, chance);
  ProofCase made;
  made.kind = "right: " + std::string(variant_name(variant));
  made.of_sequences = variant >= kFirstOfSequences;
  // A summary lists five of the largest, and more may be as large.
  const auto is_whole = [](const RecordForm& form) {
    return form.head == RecordForm::kAll || form.sketch;
  };
  made.may_hide_tie = variant == Variant::kSharedMaximum &&
                      !(is_whole(scene.ref_form.logits) && is_whole(scene.got_form.logits));
  made.ref = text_of(ref_log(scene, chance), scene.ref_form);
  made.got = text_of(got_log(scene, chance), scene.got_form);
  return made;
}

ProofCase wrong_case(const Damage& damage, Chance& chance) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const Variant variant = base_variant(damage.name, chance);
    Scene scene = make_scene(variant, chance);
    // After a tie of logs that do not tell where the prompt ends, other values may be a split.
    if (variant == Variant::kTieFlip) scene.ref_form.header = LogForm::Header::kTokens;
    Patient patient{scene, chance};
    if (!damage.apply(patient)) continue;
    // A record of a whole sequence has no line of its own to edit, nor a form.
    const bool by_line = patient.outcome || patient.edit_logs;
    if (variant == Variant::kWholeSequence && by_line) continue;
    ProofCase made;
    made.outcome = outcome_of(patient, variant);
    if (made.outcome == Outcome::kPass) continue;
    made.kind = damage.name;
    made.details = variant_name(variant);
    made.of_sequences = variant >= kFirstOfSequences;
    Log ref = ref_log(scene, chance);
    Log got = got_log(scene, chance);
    if (patient.edit_logs) patient.edit_logs(ref, got);
    made.ref = text_of(ref, scene.ref_form);
    made.got = text_of(got, scene.got_form);
    return made;
  }
  return {};
}

// Whether each record of the reference ended in exactly one state.
bool adds_up(const Comparison& comparison) {
  const EvidenceCounts& counts = comparison.evidence;
  const int64_t failed =
      std::count_if(comparison.results.begin(), comparison.results.end(),
                    [](const RecordResult& result) { return result.of_ref && result.failed(); });
  return counts.whole + counts.partial + counts.excused + counts.unproven + failed ==
         std::ssize(comparison.ref_log->entries());
}

// Whether a pass shows what was asked.
bool shows_enough(const Comparison& comparison, bool whole) {
  const EvidenceCounts& counts = comparison.evidence;
  if (!comparison.pass) return true;
  if (counts.unproven > 0) return false;
  return !whole ||
         (counts.partial == 0 && counts.excused == 0 && counts.argmax_known == counts.argmax_total);
}

}  // namespace

int count_kinds() {
  return kVariants + static_cast<int>(all_damages().size());
}

std::string kind_name(int kind) {
  if (is_right(kind)) {
    return "right: " + std::string(variant_name(static_cast<Variant>(kind)));
  }
  return std::string(all_damages()[static_cast<size_t>(kind - kVariants)].name);
}

bool is_right(int kind) {
  return kind < kVariants;
}

ProofCase make_case(int kind, Chance& chance) {
  if (is_right(kind)) return right_case(static_cast<Variant>(kind), chance);
  return wrong_case(all_damages()[static_cast<size_t>(kind - kVariants)], chance);
}

Answer compare_files(const std::string& ref, const std::string& got, bool whole) {
  CompareOptions options;
  options.n_threads = 1;
  options.whole_required = whole;
  try {
    const Comparison comparison = compare_logs(ref, got, options);
    Answer answer;
    answer.text = verdict_name(comparison.verdict);
    answer.sound = adds_up(comparison) && shows_enough(comparison, whole);
    if (!answer.sound) answer.text += ": the counts of evidence do not add up";
    if (comparison.first_divergence) {
      const FirstDivergence& first = *comparison.first_divergence;
      answer.text +=
          fmt::format(": {} at token {}: {} {} > {}", first.checkpoint.name, first.token_idx,
                      metric_name(first.metric), first.value, first.tolerance);
    }
    if (const auto& unproven = comparison.evidence.first_unproven) {
      answer.text += fmt::format("; unproven: {} at token {}: {}", unproven->checkpoint.name,
                                 unproven->token_idx, unproven->reason);
    }
    for (const std::string& warning : comparison.warnings) answer.text += "; " + warning;
    answer.exit = comparison.pass         ? Answer::Exit::kPass
                  : comparison.failed > 0 ? Answer::Exit::kDiverged
                                          : Answer::Exit::kNotComparable;
    return answer;
  } catch (const Error& error) {
    return {Answer::Exit::kNotComparable, error.what()};
  }
}

bool is_proper(const ProofCase& proof_case, const Answer& answer) {
  if (!answer.sound) return false;
  switch (proof_case.outcome) {
    case Outcome::kPass:
      return answer.exit == Answer::Exit::kPass ||
             (proof_case.may_hide_tie && answer.exit == Answer::Exit::kNotComparable);
    case Outcome::kNotPass:
      return answer.exit != Answer::Exit::kPass;
    case Outcome::kDiverge:
      return answer.exit == Answer::Exit::kDiverged;
  }
  return false;
}

}  // namespace assay::proof
