#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "assay/cli/checks.h"
#include "assay/cli/commands.h"
#include "assay/cli/golden_json.h"
#include "assay/cli/golden_measured.h"
#include "assay/cli/output.h"
#include "assay/golden/change.h"
#include "assay/golden/inventory.h"
#include "assay/golden/record.h"
#include "assay/golden/review.h"
#include "assay/golden/verify.h"
#include "base/count_of.h"
#include "base/error.h"
#include "base/shell.h"

namespace assay {
namespace {

constexpr size_t kReviewRows = 8;

struct GoldenArguments {
  std::string root = "golden";
  std::vector<std::string> models;
  std::string oracle;
  bool json = false;
  bool inventory = false;
  MeasuredArguments measured;
};

// A model that is named twice is checked or accepted once.
std::vector<std::string> distinct(const std::vector<std::string>& models) {
  std::vector<std::string> once;
  for (const std::string& model : models) {
    if (std::ranges::find(once, model) == once.end()) once.push_back(model);
  }
  return once;
}

std::vector<std::string> models_of(const GoldenArguments& arguments) {
  if (arguments.models.empty()) return golden_models(arguments.root);
  for (const std::string& model : arguments.models) golden_folder(arguments.root, model);
  return arguments.models;
}

struct Pending {
  std::vector<std::string> models;  // that have something to review, in the order given
  int exit_code = kInParity;        // not, if another's manifest cannot be read, which is reported
};

Pending models_pending(const GoldenArguments& arguments) {
  Pending pending;
  for (const std::string& model : models_of(arguments)) {
    const std::string folder = golden_folder(arguments.root, model);
    if (!pending_files(folder).empty()) {
      pending.models.push_back(model);
      continue;
    }
    try {
      read_golden_manifest(folder + kManifestName);
    } catch (const Error& error) {
      print_error(error.what());
      pending.exit_code = kNotComparable;
    }
  }
  return pending;
}

std::string names_of(const std::vector<std::string>& files) {
  return printable(fmt::format("{}", fmt::join(files, ", ")), 2000);
}

// Says what verification found; the exit code.
int tell(const std::vector<GoldenCheck>& checks) {
  int exit_code = kInParity;
  for (const GoldenCheck& check : checks) {
    for (const std::string& absent : check.absent_models) {
      print_warning(printable(absent) + " is not here, its hash was not checked");
    }
    for (const std::string& wide : check.wide) {
      print_warning(printable(check.model) + ": " + wide + "; measure the floors again");
    }
    for (const std::string& what : check.unverified) print_warning(what);
    for (const std::string& problem : check.problems) print_error(problem);
    if (!check.problems.empty()) exit_code = kNotComparable;
  }
  return exit_code;
}

// The largest error that passes, over the model files: "; layers within 2e-06, logits within ...".
std::string allowed_text(const GoldenCheck& check) {
  if (check.allowed.empty()) return {};
  double layers = std::numeric_limits<double>::quiet_NaN();
  double logits = layers;
  for (const AllowedErrors& each : check.allowed) {
    layers = std::fmax(layers, each.layers);
    logits = std::fmax(logits, each.logits);
  }
  if (std::isnan(layers) && std::isnan(logits)) return {};
  const AllowedErrors& first = check.allowed.front();
  return fmt::format("; layers within {:.2g}, logits within {:.2g} ({:g} x {})", layers, logits,
                     first.k, printable(first.floor, 40));
}

std::vector<GoldenCheck> checks_of(const GoldenArguments& arguments) {
  if (arguments.models.empty()) return verify_goldens(arguments.root);
  std::vector<GoldenCheck> checks;
  for (const std::string& model : models_of(arguments)) {
    checks.push_back(verify_golden(arguments.root, model));
  }
  return checks;
}

// What is there, as the file that pins it.
int list_inventory(const GoldenArguments& arguments) {
  Inventory all;
  for (const std::string& model : models_of(arguments)) {
    all.merge(
        inventory_of(read_golden_manifest(golden_folder(arguments.root, model) + kManifestName)));
  }
  print_text(inventory_text(all));
  return kInParity;
}

int list(const GoldenArguments& arguments) {
  if (arguments.inventory) return list_inventory(arguments);
  const std::vector<GoldenCheck> checks = checks_of(arguments);
  if (arguments.json) {
    print_text(golden_json(checks));
    return tell(checks);
  }
  TextTable table({"model", "type", "prompt", "set", "log", "state"}, 6);
  size_t n_fixtures = 0;
  size_t n_pending = 0;
  for (const GoldenCheck& check : checks) {
    for (const GoldenState& fixture : check.fixtures) {
      const bool good = fixture.state == "recorded";
      const bool pending = fixture.state == "pending";
      table.add(
          {printable(fixture.model, 30), printable(fixture.type, 12), printable(fixture.prompt, 20),
           printable(fixture.set, 20), printable(fixture.log, 40), fixture.state},
          good      ? Color::kNone
          : pending ? Color::kCaution
                    : Color::kBad);
      ++n_fixtures;
    }
    if (!pending_files(golden_folder(arguments.root, check.model)).empty()) ++n_pending;
  }
  print_text(table.text(output_style("")));
  std::string line = fmt::format("\n  {} of {}", count_of(n_fixtures, "fixture"),
                                 count_of(checks.size(), "model"));
  if (n_pending > 0) line += fmt::format("; {} to review: assay golden review", n_pending);
  print_text(line + "\n");
  return tell(checks);
}

std::string verified_text(const std::vector<GoldenCheck>& checks) {
  std::string text;
  for (const GoldenCheck& check : checks) {
    const std::string word =
        colored(check.problems.empty() ? "verified" : "NOT VERIFIED",
                check.problems.empty() ? Color::kGood : Color::kBad, output_style(""));
    text += fmt::format("{}  {}, {}{}\n", word, printable(check.model),
                        check.problems.empty() ? count_of(check.fixtures.size(), "fixture")
                                               : count_of(check.problems.size(), "problem"),
                        allowed_text(check));
  }
  return text;
}

// Says so where nothing pins what must exist: a warning of goldens that are named. The exit code.
int tell_inventory(const GoldenArguments& arguments) {
  if (read_inventory(arguments.root)) return kInParity;
  const Error missing("is missing, so a golden that is removed is not missed",
                      fmt::format("{}/{}", arguments.root, kInventoryName),
                      "restore it, or write there what assay golden list --inventory prints");
  if (arguments.models.empty()) {
    print_error(missing.what());
    return kNotComparable;
  }
  print_warning(missing.what());
  return kInParity;
}

int verify(const GoldenArguments& arguments) {
  if (arguments.measured.snapshots || arguments.measured.fast_floors) {
    MeasuredArguments measured = arguments.measured;
    measured.root = arguments.root;
    return verify_measured(measured, models_of(arguments));
  }
  const std::vector<GoldenCheck> checks = checks_of(arguments);
  print_text(arguments.json ? golden_json(checks) : verified_text(checks));
  return std::max(tell(checks), tell_inventory(arguments));
}

// Of what waited before a golden was recorded again, what does not wait any more.
std::string removed_text(const std::map<std::string, std::string>& waited,
                         const std::vector<std::string>& names) {
  std::vector<std::string> removed;
  for (const auto& [name, path] : waited) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      removed.push_back(name + kPendingSuffix);
    }
  }
  return removed.empty() ? "" : "; removed what waited: " + names_of(removed);
}

// Says how large the changes of the engine's snapshots are, moves what waits into its place, and
// says what that changes of the inventory.
GoldenChange take(const std::string& root, const std::string& model) {
  print_snapshot_changes(golden_folder(root, model));
  GoldenChange change = accept_pending(golden_folder(root, model));
  for (const std::string& line : update_inventory(root, change.manifest)) {
    print_text(fmt::format("{}: {}\n", kInventoryName, printable(line)));
  }
  return change;
}

int record_engine(const GoldenArguments& arguments) {
  MeasuredArguments measured = arguments.measured;
  measured.root = arguments.root;
  for (const std::string& model : arguments.models) {
    if (!record_measured(measured, model)) continue;
    if (update_mode() == UpdateMode::kAlways) {
      take(arguments.root, model);
      print_text(fmt::format("{}: accepted\n", printable(model)));
    } else {
      print_text(fmt::format("{0}: pending; assay golden review {0}\n", printable(model)));
    }
  }
  return kInParity;
}

int record(const GoldenArguments& arguments) {
  check_may_update();
  if (arguments.measured.snapshots || arguments.measured.fast_floors) {
    return record_engine(arguments);
  }
  for (const std::string& model : arguments.models) {
    const std::string folder = golden_folder(arguments.root, model);
    const std::string command =
        arguments.oracle.empty() ? stated_command(folder) : arguments.oracle;
    print_status(fmt::format("assay: recording {}: {}\n", printable(model),
                             printable(command, std::string::npos)));
    const auto waited = pending_files(folder);
    const std::vector<std::string> names = record_golden(arguments.root, model, command);
    const std::string removed = removed_text(waited, names);
    if (names.empty()) {
      print_text(fmt::format("{}: nothing changes{}\n", printable(model), removed));
    } else if (update_mode() == UpdateMode::kAlways) {
      take(arguments.root, model);
      print_text(fmt::format("{}: recorded and accepted: {}{}\n", printable(model), names_of(names),
                             removed));
    } else {
      print_text(fmt::format("{}: pending: {}{}; assay golden review {}\n", printable(model),
                             names_of(names), removed, printable(model)));
    }
  }
  return kInParity;
}

// The record of each checkpoint that is most floors off, worst first.
std::string worst_table(const LogReview& log, const TextStyle& style) {
  const Comparison& comparison = *log.comparison;
  std::vector<const RecordResult*> worst(comparison.checkpoints.size(), nullptr);
  const auto off = [](const RecordResult& result) { return result.times_floor().value_or(0); };
  for (const RecordResult& result : comparison.results) {
    const RecordResult*& held = worst[static_cast<size_t>(result.checkpoint)];
    if (held == nullptr || !(off(result) <= off(*held))) held = &result;
  }
  std::erase(worst, nullptr);
  // NaN, which is as wrong as can be, comes first.
  std::stable_sort(worst.begin(), worst.end(), [&](const RecordResult* a, const RecordResult* b) {
    const bool a_nan = !(off(*a) == off(*a));
    const bool b_nan = !(off(*b) == off(*b));
    return a_nan != b_nan ? a_nan : off(*a) > off(*b);
  });
  TextTable table({"  checkpoint", "worst at", "rel l2", "x floor", "allowed", "status"});
  for (size_t i = 0; i < std::min(worst.size(), kReviewRows); ++i) {
    const RecordResult& result = *worst[i];
    const auto& name = comparison.checkpoints[static_cast<size_t>(result.checkpoint)].name;
    table.add({"  " + printable(name, 40), fmt::format("{}", result.token_idx),
               fmt::format("{:.3g}", result.metrics.rel_l2), fmt::format("{:.3g}", off(result)),
               fmt::format("{:.3g}", log.k), std::string(verdict_name(result.status))},
              result.failed() ? Color::kBad : Color::kNone);
  }
  std::string text = table.text(style);
  if (worst.size() > kReviewRows) {
    text +=
        fmt::format("    ... and {}\n", count_of(worst.size() - kReviewRows, "more checkpoint"));
  }
  return text;
}

std::string review_text(const LogReview& log, const TextStyle& style) {
  std::string text = fmt::format("\n{} ({}, {})  ", printable(log.file), printable(log.type),
                                 printable(log.prompt));
  if (log.added) return text + "new\n";
  if (!log.comparison) {
    return text + colored("not comparable: " + printable(log.not_comparable), Color::kBad, style) +
           "\n";
  }
  const Comparison& comparison = *log.comparison;
  text += colored(std::string(verdict_name(comparison.verdict)),
                  comparison.pass ? Color::kGood : Color::kBad, style);
  text += fmt::format(": {} of {} beyond {:.3g} x the floor", comparison.failed,
                      count_of(comparison.compared, "record"), log.k);
  if (comparison.unmatched_ref + comparison.unmatched_got > 0) {
    text += fmt::format("; {} would go, {} are new", comparison.unmatched_ref,
                        comparison.unmatched_got);
  }
  text += "\n";
  for (const std::string& warning : comparison.warnings) {
    text += "    " + printable(warning, std::string::npos) + "\n";
  }
  size_t told = 0;
  for (const auto& [checkpoint, count] : log.gone) {
    if (told++ == kReviewRows) {
      text += fmt::format("    ... and of {}\n",
                          count_of(log.gone.size() - kReviewRows, "more checkpoint"));
      break;
    }
    text += colored(fmt::format("    {} of {} would go, or hold less\n", count_of(count, "record"),
                                printable(checkpoint, 40)),
                    Color::kBad, style);
  }
  return text + worst_table(log, style);
}

int review(const GoldenArguments& arguments) {
  const TextStyle style = output_style("");
  const auto [models, broken] = models_pending(arguments);
  int exit_code = broken;
  for (const std::string& model : models) {
    const GoldenReview review = review_pending(golden_folder(arguments.root, model));
    std::string text = printable(model) + "\n";
    for (const std::string& note : review.notes)
      text += "  " + printable(note, std::string::npos) + "\n";
    for (const std::string& file : review.removed) {
      text += fmt::format("  {} would go\n", printable(file));
    }
    for (const SnapshotReview& snapshot : review.snapshots) {
      text += "  " +
              colored(printable(snapshot.line, std::string::npos),
                      snapshot.within ? Color::kNone : Color::kBad, style) +
              "\n";
    }
    for (const LogReview& log : review.logs) text += review_text(log, style);
    text += fmt::format("\n  take it: assay golden accept {0}   drop it: assay golden reject {0}\n",
                        shell_quoted(model));
    print_text(text);
    if (!review.within_floors()) exit_code = std::max<int>(exit_code, kDiverged);
  }
  if (models.empty()) print_text("nothing is pending\n");
  return exit_code;
}

int accept(const GoldenArguments& arguments) {
  check_may_update();
  const auto [models, exit_code] = models_pending(arguments);
  for (const std::string& model : models) {
    GoldenChange change = take(arguments.root, model);
    change.replaced.emplace_back(kManifestName);
    print_text(fmt::format("{}: accepted {}\n", printable(model), names_of(change.replaced)));
  }
  if (models.empty()) print_text("nothing is pending\n");
  return exit_code;
}

int reject(const GoldenArguments& arguments) {
  bool any = false;
  for (const std::string& model : models_of(arguments)) {
    const int64_t count = reject_pending(golden_folder(arguments.root, model));
    if (count > 0) {
      print_text(
          fmt::format("{}: removed {}\n", printable(model), count_of(count, "pending file")));
      any = true;
    }
  }
  if (!any) print_text("nothing is pending\n");
  return kInParity;
}

using Action = int (*)(const GoldenArguments&);

CLI::App* add_action(CLI::App& golden, const char* name, const char* help, Action action,
                     const std::shared_ptr<GoldenArguments>& arguments, int& exit_code) {
  CLI::App* command = golden.add_subcommand(name, help);
  const bool all = std::string_view(name) != "record";
  auto* models = command->add_option("MODEL", arguments->models,
                                     all ? "Models: names of folders in --folder (default all)"
                                         : "Models: names of folders in --folder");
  if (!all) models->required();
  command->add_option("--folder", arguments->root, "The folder of all goldens (default golden)");
  command->callback([arguments, action, &exit_code] {
    arguments->models = distinct(arguments->models);
    exit_code = action(*arguments);
  });
  return command;
}

}  // namespace

void add_golden(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<GoldenArguments>();
  CLI::App* golden = app.add_subcommand("golden", "List, check, record and review goldens");
  golden->require_subcommand(1);
  golden->footer(
      "ASSAY_UPDATE: no, nothing is recorded or accepted (the default where CI is set); new, what "
      "is recorded waits as *.new files (the default elsewhere); always, it is accepted at once.");
  CLI::App* listing =
      add_action(*golden, "list", "Each fixture and its state", list, arguments, exit_code);
  auto* json = listing->add_flag("--json", arguments->json, "As JSON");
  listing->add_flag("--inventory", arguments->inventory, "As the inventory.txt that pins them")
      ->excludes(json);
  CLI::App* verifying =
      add_action(*golden, "verify", "Whether each golden is what its manifest states", verify,
                 arguments, exit_code);
  json = verifying->add_flag("--json", arguments->json, "As JSON");
  MeasuredArguments& measured = arguments->measured;
  verifying
      ->add_flag("--snapshots", measured.snapshots,
                 "Run the engine, and tell every checkpoint that is not the snapshot's bit for bit")
      ->excludes(json);
  verifying
      ->add_flag("--fast-floors", measured.fast_floors,
                 "Run the engine's fast, and tell every floor of it that is not the one measured")
      ->excludes(json);
  add_threads_flag(*verifying, measured.n_threads);
  CLI::App* command = add_action(*golden, "record", "Record again, as files that wait for review",
                                 record, arguments, exit_code);
  auto* oracle =
      command->add_option("--oracle", arguments->oracle,
                          "Shell command that writes $ASSAY_GOLDEN_OUT/MODEL/ (default: the one "
                          "that the manifest states)");
  command
      ->add_flag("--snapshots", measured.snapshots,
                 "No oracle: the bits that Assay's own engine computes")
      ->excludes(oracle);
  command
      ->add_flag("--fast-floors", measured.fast_floors,
                 "No oracle: how far Assay's own fast is from the golden")
      ->excludes(oracle);
  add_threads_flag(*command, measured.n_threads);
  add_action(*golden, "review", "What accepting would change, in floors", review, arguments,
             exit_code);
  add_action(*golden, "accept", "Take what waits", accept, arguments, exit_code);
  add_action(*golden, "reject", "Remove what waits", reject, arguments, exit_code);
}

}  // namespace assay
