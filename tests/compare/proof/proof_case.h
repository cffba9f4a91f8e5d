#pragma once

#include <string>

#include "tests/compare/proof/chance.h"
#include "tests/compare/proof/damage.h"

namespace assay::proof {

// Two logs, and what their comparison must come to.
struct ProofCase {
  std::string kind;     // "right: split", or the damage
  std::string details;  // the variant under a damage
  Outcome outcome = Outcome::kPass;
  bool of_sequences = false;  // of a variant from kFirstOfSequences on
  bool may_hide_tie = false;  // a right one, of which the logs may not show that a choice was a tie
  std::string ref;
  std::string got;
};

// The kinds of cases: those of right logs first, then those of wrong ones.
int count_kinds();
std::string kind_name(int kind);
bool is_right(int kind);

// Of `kind`; where the damage cannot be done in many scenes, an empty `kind`.
ProofCase make_case(int kind, Chance& chance);

// What compare_logs() reports for two files.
struct Answer {
  enum class Exit { kPass = 0, kDiverged = 1, kNotComparable = 2 };
  Exit exit = Exit::kPass;
  std::string text;   // the verdict and its first divergence, or the error
  bool sound = true;  // each record is counted once, and a pass shows what was asked
};

// `whole`: as with --evidence whole.
Answer compare_files(const std::string& ref, const std::string& got, bool whole = false);

// Whether an answer is what the case asks for.
bool is_proper(const ProofCase& proof_case, const Answer& answer);

}  // namespace assay::proof
