#include "assay/cli/golden_measured.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "assay/cli/commands.h"
#include "assay/cli/output.h"
#include "assay/golden/change.h"
#include "assay/golden/files.h"
#include "assay/golden/snapshot_review.h"
#include "assay/golden/verify.h"
#include "assay/record/golden_engine.h"
#include "base/count_of.h"
#include "base/error.h"

namespace assay {
namespace {

GoldenEngineOptions engine_options(const MeasuredArguments& arguments) {
  GoldenEngineOptions options;
  options.n_threads = arguments.n_threads;
  if (isatty(STDERR_FILENO) == 1) {
    options.progress = [](const std::string& what) {
      print_status(fmt::format("\r\x1b[K{}", printable(what)));
    };
  }
  return options;
}

void end_progress(const GoldenEngineOptions& options) {
  if (options.progress) print_status("\r\x1b[K");
}

void warn_of_absent(const std::string& model, const std::vector<std::string>& absent,
                    const char* what) {
  for (const std::string& each : absent) {
    print_warning(fmt::format("{} {}: the model file is not here, {}", printable(model),
                              printable(each), what));
  }
}

std::string line_of(const std::string& model, const SnapshotReview& review) {
  return printable(model + " " + review.line, std::string::npos) + "\n";
}

bool record_snapshots(const MeasuredArguments& arguments, const GoldenManifest& manifest) {
  const std::string folder = manifest.folder();
  const auto before = read_snapshots(folder);
  const GoldenEngineOptions options = engine_options(arguments);
  std::vector<std::string> absent;
  const GoldenSnapshots after =
      take_snapshots(manifest, before ? &*before : nullptr, options, absent);
  end_progress(options);
  warn_of_absent(manifest.model, absent, "its snapshots stay as they are");
  const auto reviews =
      review_snapshots(manifest, read_fast_floors(folder), before ? &*before : nullptr, after);
  if (reviews.empty()) {
    print_text(fmt::format("{}: no snapshot changes\n", printable(manifest.model)));
    return false;
  }
  for (const SnapshotReview& review : reviews) print_text(line_of(manifest.model, review));
  make_measured_pending(folder, kSnapshotsName, snapshots_text(after));
  return true;
}

bool record_fast_floors(const MeasuredArguments& arguments, const GoldenManifest& manifest) {
  const std::string folder = manifest.folder();
  const auto before = read_fast_floors(folder);
  const GoldenEngineOptions options = engine_options(arguments);
  std::vector<std::string> absent;
  const FastFloors after =
      measure_fast_floors(manifest, before ? &*before : nullptr, options, absent);
  end_progress(options);
  warn_of_absent(manifest.model, absent, "its floors stay as they are");
  const auto changes = fast_floor_changes(before.value_or(FastFloors{}), after);
  if (changes.notes.empty()) {
    print_text(fmt::format("{}: no floor changes\n", printable(manifest.model)));
    return false;
  }
  for (const std::string& note : changes.notes) {
    print_text(
        fmt::format("{}: {}\n", printable(manifest.model), printable(note, std::string::npos)));
  }
  make_measured_pending(folder, kFastFloorsName, fast_floors_text(after));
  return true;
}

// Throws Error where the golden lacks what it is to be held to.
[[noreturn]] void fail_for_missing(const std::string& path, const char* what,
                                   const std::string& hint) {
  throw Error(fmt::format("is missing: {}", what), path, hint);
}

// "12 snapshots", or "8 of 12 snapshots checked" where the model files of some types are absent.
template <class Each>
std::string checked_text(const std::vector<Each>& all, const char* what,
                         const std::vector<std::string>& absent) {
  if (absent.empty()) return count_of(all.size(), what);
  const auto checked = std::ranges::count_if(
      all, [&](const Each& each) { return std::ranges::find(absent, each.type) == absent.end(); });
  return fmt::format("{} of {} checked", checked, count_of(all.size(), what));
}

// Says whether the engine still gives what was measured: one line, and one for each difference.
// `absent`: types of whose model files nothing could be measured.
int tell_changes(const std::string& model, const std::string& checked,
                 const std::vector<std::string>& changes, const std::vector<std::string>& absent) {
  const TextStyle style = output_style("");
  const bool good = changes.empty() && absent.empty();
  const char* word = !changes.empty() ? "CHANGED" : good ? "unchanged" : "NOT CHECKED";
  print_text(fmt::format("{}  {}, {}\n", colored(word, good ? Color::kGood : Color::kBad, style),
                         printable(model), checked));
  for (const std::string& change : changes) {
    print_text(fmt::format("  {} {}\n", printable(model), printable(change, std::string::npos)));
  }
  for (const std::string& each : absent) {
    print_error(
        fmt::format("{} {}: the model file is not here, so it was not checked; fetch it as "
                    "the manifest says, or name other models",
                    printable(model), printable(each)));
  }
  if (!changes.empty()) return kDiverged;
  return good ? kInParity : kNotComparable;
}

int verify_snapshots_of(const MeasuredArguments& arguments, const GoldenManifest& manifest) {
  const std::string folder = manifest.folder();
  const auto before = read_snapshots(folder);
  if (!before) {
    fail_for_missing(folder + kSnapshotsName, "nothing says what the engine computed",
                     "assay golden record --snapshots " + manifest.model);
  }
  const GoldenEngineOptions options = engine_options(arguments);
  std::vector<std::string> absent;
  const GoldenSnapshots after = take_snapshots(manifest, &*before, options, absent);
  end_progress(options);
  std::vector<std::string> changes;
  for (const SnapshotReview& each :
       review_snapshots(manifest, read_fast_floors(folder), &*before, after)) {
    changes.push_back(each.line);
  }
  return tell_changes(manifest.model, checked_text(after.snapshots, "snapshot", absent), changes,
                      absent);
}

int verify_fast_floors_of(const MeasuredArguments& arguments, const GoldenManifest& manifest) {
  const std::string folder = manifest.folder();
  const auto before = read_fast_floors(folder);
  if (!before && !needs_fast_floors(manifest)) {
    print_text(printable(manifest.model) + ": fast rounds none of its types, no floors to check\n");
    return kInParity;
  }
  if (!before) {
    fail_for_missing(folder + kFastFloorsName, "fast has no floors",
                     "assay golden record --fast-floors " + manifest.model);
  }
  const GoldenEngineOptions options = engine_options(arguments);
  std::vector<std::string> absent;
  const FastFloors after = measure_fast_floors(manifest, &*before, options, absent);
  end_progress(options);
  return tell_changes(manifest.model, checked_text(after.prompts, "measured prompt", absent),
                      fast_floor_changes(*before, after).notes, absent);
}

}  // namespace

bool record_measured(const MeasuredArguments& arguments, const std::string& model) {
  const GoldenManifest manifest =
      read_golden_manifest(golden_folder(arguments.root, model) + kManifestName);
  bool waits = false;
  // The floors first: the size of a change is reported in them.
  if (arguments.fast_floors) waits = record_fast_floors(arguments, manifest);
  if (arguments.snapshots) waits = record_snapshots(arguments, manifest) || waits;
  return waits;
}

int verify_measured(const MeasuredArguments& arguments, const std::vector<std::string>& models) {
  int exit_code = kInParity;
  for (const std::string& model : models) {
    const GoldenManifest manifest =
        read_golden_manifest(golden_folder(arguments.root, model) + kManifestName);
    if (arguments.snapshots) {
      exit_code = std::max(exit_code, verify_snapshots_of(arguments, manifest));
    }
    if (arguments.fast_floors) {
      exit_code = std::max(exit_code, verify_fast_floors_of(arguments, manifest));
    }
  }
  return exit_code;
}

void print_snapshot_changes(const std::string& folder) {
  const std::string path = folder.substr(0, folder.find_last_not_of('/') + 1);
  const std::string model = path.substr(path.rfind('/') + 1);
  for (const SnapshotReview& review : review_pending_snapshots(folder)) {
    print_text(line_of(model, review));
  }
}

}  // namespace assay
