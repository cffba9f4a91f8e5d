#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "assay/compare/compare_options.h"
#include "assay/compare/several.h"
#include "base/error.h"

namespace assay {

struct MatrixOptions {
  CompareOptions compare;
  // The tolerances of one comparison, if there is one; otherwise compare.policy.
  std::function<Policy(const std::string& ref_path, const std::string& got_path)> policy_for;
  // Whether a part of a record is not enough, by the reference's log; otherwise
  // compare.whole_required.
  std::function<bool(const std::string& ref_path)> whole_for;
  std::string reference;  // the engine whose logs are the references, or a part of its name
};

// One engine's run of one model file and prompt against the reference's.
struct MatrixCell {
  std::string engine;
  std::string log;
  std::string reference;        // log that it was held against: of several the one that tells most
  std::optional<RunPair> pair;  // none for the reference itself, and where there is a `problem`
  std::string problem;          // why the two could not be compared
  bool is_reference = false;    // a log of the reference's engine, in parity with its larger ones
  std::vector<std::string> warnings;  // of the comparison
};

// The runs of one model file and prompt: the same sha256 (where a log has none: name and type) and
// the same tokens (where a log has none: text).
struct MatrixRow {
  std::string model;
  std::string type;
  std::string prompt;     // its text or, where that is not known, "N tokens"
  std::string reference;  // its largest log; empty where no run is of the reference's engine
  std::vector<MatrixCell> cells;
};

// A log that cannot be compared: it cannot be read, or it holds no record.
struct UnreadableLog {
  std::string log;
  Error problem;  // names the log
};

struct RunMatrix {
  std::vector<std::string> engines;   // columns, the references' first
  std::vector<MatrixRow> rows;        // by model, type and prompt
  std::vector<std::string> left_out;  // logs with records that no header places
  std::vector<UnreadableLog> unreadable;
  // Each run but the references' is in parity with a reference; false too where it has none, and
  // where a log is unreadable or left out.
  bool pass = true;
};

// Engines x models x types from the headers of logs. `paths`: logs, and folders that are searched
// for *.jsonl with all that is below them; a file that is met again is taken once. In each row the
// runs are held against the run of the reference: the engine that is asked for or, where none is,
// the one whose math is float64. A log of it that fails by a larger one does not pass, either.
// Throws Error if a path is not there, no log has a header, or no row has a reference and another
// run.
RunMatrix compare_matrix(const std::vector<std::string>& paths, const MatrixOptions& options);

}  // namespace assay
