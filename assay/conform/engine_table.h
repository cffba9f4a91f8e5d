#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/conform/engine_list.h"

namespace assay {

// What was found of an engine in one row of a table.
enum class Finding : uint8_t {
  // of conformance
  kHonoured,
  kIgnored,  // computes the model without the feature
  kMisread,  // makes another known mistake
  kDiffers,  // computes something else
  // of invariance
  kSameBits,
  kWithinNoise,  // not further than the same surface is from itself
  kDependent,
  // of both
  kUnsupported,  // says that it cannot
  kCrashed,      // or wrote no log
};

std::string_view finding_name(Finding finding);

// Whether it is as it should be, or the engine's own decision: neither fails a table.
bool is_right(Finding finding);
bool is_bad(Finding finding);

// What has become of a row since a baseline, which is an earlier run of the same engine.
enum class Change : uint8_t {
  kSame,
  kBetter,  // right, or the engine says by now that it does not support it
  kWorse,   // wrong, or wrong in another way, or further off, or less of it is shown
  kNew,     // the baseline does not have this case
};

std::string_view change_name(Change change);

// How far the records of a checkpoint are from those in another log: the root mean square of rel_l2
// over the positions that could be compared. NaN where one of them is NaN. Of invariance the counts
// are of the records of all checkpoints.
struct OutputError {
  double rel_l2 = 0;
  int64_t positions = 0;  // compared
  int64_t whole = 0;      // of these, with all values of both
  int64_t total = 0;      // that the reference has
  std::string problem;    // why there is no distance; empty where there is one
  int64_t values = -1;    // that were compared at all of these; -1: not known
};

struct TableRow {
  std::string name;
  std::string group;
  std::string title;
  std::vector<std::string> states;  // keys of config.json that say it
  std::string digest = {};          // SHA-256 of its case; empty for a surface
};

struct TableCell {
  Finding finding = Finding::kCrashed;
  std::string cause;                     // of ignored and misread: the name of the mistake
  std::string text;                      // what the engine does, or says
  std::string checkpoint;                // that was judged: logits, or the last layer
  std::optional<OutputError> error;      // from float64; of invariance, from the tokens alone
  std::optional<double> from_explained;  // from the explanation
  // From the nearest mistake of the feature, where a part of the logits has to tell it from that.
  std::optional<double> from_nearest_mistake;
  std::string first_divergence;  // the first checkpoint that differs, where layers were logged
  std::string log;
  std::string cut_line = {};  // which last line of a log was cut off and left out; empty: none was
  std::string compare;        // compares the log again; empty where no log is
  std::string command;        // that repeats all
  double seconds = 0;         // that the engine took for it
  std::optional<Change> change = {};  // nothing where no baseline is given
  std::string before = {};            // what the baseline says, in the words of a verdict

  // Whether it fails the table: what is bad does, but for what the baseline has just so.
  bool fails() const;

  // Adds to `text`, after a semicolon.
  void add_text(std::string_view more);
};

struct TableColumn {
  EngineDeclaration engine;
  std::vector<TableCell> cells;  // in the order of EngineTable::rows

  int64_t count(Finding finding) const;
  int64_t count(Change change) const;
  bool supports_nothing() const;
  double seconds() const;
};

// One run of the program, whose cells a table has.
struct TableRun {
  std::string version;  // of Assay
  std::string time;     // UTC
  std::string command;
};

// What was found of engines: a row a feature or surface, a column an engine.
struct EngineTable {
  enum class Kind : uint8_t { kConformance, kInvariance };
  Kind kind = Kind::kConformance;
  std::vector<TableRow> rows;
  std::vector<TableColumn> columns;
  std::vector<TableRun> runs;  // of which it was put together; none: it is of the present one
  std::string baseline = {};   // the file that cells are held to; empty: none is

  // Those that a table of this kind can have.
  std::vector<Finding> findings() const;
  // What was compared, and how far it is: "2.3e-01 from float64 at 3 of 8 positions".
  std::string distance_text(const OutputError& error) const;
  // Of the logs whose last line was cut off, the first, and how many more there are; empty: none
  // is.
  std::string cut_lines() const;
  // Whether there is an engine, no cell fails, and each engine supports something.
  bool pass() const;
};

}  // namespace assay
