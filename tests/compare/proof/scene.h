#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "tests/compare/proof/chance.h"
#include "tests/compare/proof/form.h"
#include "tests/compare/proof/model_run.h"

namespace assay::proof {

// A run of the reference and an honest one of an engine, and how each is logged. Positions are
// those of `ref`, whatever the logs count from.
struct Scene {
  Network network;
  Run ref;
  Run got;
  LogForm ref_form;
  LogForm got_form;
  std::optional<int64_t> split;  // the first token at which the two are not the same
  int ref_copies = 0;            // lines that are written twice
  int got_copies = 0;
  bool final_newline = true;
};

// What is special of a scene in which the engine is right; each is in parity.
enum class Variant {
  kPlain,
  kOffsetOne,         // got counts from 1
  kBosLeftOut,        // got has no record of the first token, nor a place for it
  kBosAdded,          // ref has none
  kSplit,             // at a tie the two go on with other tokens
  kTieFlip,           // the argmax differs by less than the noise
  kSharedMaximum,     // several elements are the largest
  kPadding,           // both have rows of logits beyond the vocabulary
  kMasked,            // both mask the same tokens
  kPaddedVocabulary,  // one has, to a multiple of 64
  kOwnCheckpoints,    // got logs more
  kOwnTokens,         // got logs further tokens
  kCopies,            // records are there twice
  kNoFinalNewline,
  kHeapWordsInGot,  // over the first values of some records
  kHeapWordsInRef,
  kLogProbabilities,  // instead of the logits, in one log
  kTopLogprobs,       // nothing but the largest of them
  kWholeSequence,     // a checkpoint is one record
  kNestedValues,
};
inline constexpr int kVariants = static_cast<int>(Variant::kNestedValues) + 1;
// Those from here on came with the contract of records of whole sequences and log-probabilities.
inline constexpr Variant kFirstOfSequences = Variant::kLogProbabilities;

std::string_view variant_name(Variant variant);

Scene make_scene(Variant variant, Chance& chance);

// Gives the log that a form makes of each run, with the copies.
Log ref_log(const Scene& scene, Chance& chance);
Log got_log(const Scene& scene, Chance& chance);

}  // namespace assay::proof
