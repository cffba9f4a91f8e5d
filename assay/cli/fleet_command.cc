#include "assay/cli/fleet_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/cli/checks.h"
#include "assay/cli/commands.h"
#include "assay/cli/output.h"
#include "assay/cli/report_flags.h"
#include "assay/cli/selection_flags.h"
#include "assay/cli/text_file.h"
#include "assay/compare/policy.h"
#include "assay/convert/python.h"
#include "assay/fleet/fleet_page.h"
#include "assay/fleet/judge.h"
#include "assay/golden/fast_floors.h"
#include "assay/golden/floors.h"
#include "assay/golden/manifest.h"
#include "assay/report/json_object.h"
#include "base/error.h"

namespace assay {

extern const std::string_view kFleetScript;  // assay/fleet/*.py, embedded by CMake

namespace {

struct FleetArguments {
  NewRuns runs;
  std::string dataset;
  std::string night;
  std::string reference;
  std::string policy;
  std::string floor;
  std::vector<std::string> maps;
  std::string results;
  std::string ray;
  std::string input;
  std::string output;
  bool json = false;
  int n_threads = 0;
};

std::string own_path() {
  std::error_code failed;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed) throw Error("cannot be read: " + failed.message(), "/proc/self/exe");
  return path.string();
}

// The script takes the place of this process: its output and exit code are the program's.
int run_script(const std::string& options) {
  PythonCommand command = python_command(kFleetScript, {options});
  const std::vector<char*> argv = pointers_to(command.arguments);
  const std::vector<char*> envp = pointers_to(command.environment);
  execvpe(argv[0], argv.data(), envp.data());
  throw Error(fmt::format("cannot run {}: {}", argv[0], std::strerror(errno)), {},
              "assay fleet needs python3 with duckdb and pyarrow; name another in ASSAY_PYTHON");
}

std::string options_with(const std::string& command,
                         const std::function<void(JsonObject&)>& append) {
  return json_of([&](JsonObject& object) {
    object.member("command", command);
    object.member("program", own_path());
    append(object);
  });
}

// Of each map what workers on other machines need: its name, and the text that is in a file.
void append_maps(const std::vector<std::string>& maps, JsonObject& object) {
  object.array("maps", maps, [](JsonObject& element, const std::string& map) {
    NameMap::load(map);
    const std::string file = NameMap::file_of(map);
    element.member("map", file.empty() ? map : map.substr(file.size()));
    element.member("text", file.empty() ? "" : read_text_file(file));
  });
}

// For workers on other machines. Throws Error for what is no policy, before anything is judged.
std::string policy_text(const std::string& path) {
  if (path.empty()) return "";
  if (is_golden_manifest(path)) {
    read_golden_manifest(path);
  } else {
    Policy::from_file(path);
  }
  return read_text_file(path);
}

// What a golden has beside its manifest: the floors of fast.
std::string fast_floors_text(const std::string& policy) {
  if (policy.empty() || !is_golden_manifest(policy)) return "";
  const std::filesystem::path path = std::filesystem::path(policy).parent_path() / kFastFloorsName;
  std::error_code none;
  return std::filesystem::exists(path, none) ? read_text_file(path.string()) : "";
}

int compare_dataset(const FleetArguments& arguments) {
  const std::string policy = policy_text(arguments.policy);
  return run_script(options_with("compare", [&](JsonObject& object) {
    object.member("dataset", arguments.dataset);
    object.member("reference", arguments.reference);
    object.member("policy", policy);
    object.member("floor", arguments.floor);
    object.member("fast_floors", fast_floors_text(arguments.policy));
    append_maps(arguments.maps, object);
    object.member("results", arguments.results);
    object.member("ray", arguments.ray);
    object.member("threads", arguments.n_threads);
  }));
}

int report_results(const FleetArguments& arguments) {
  return run_script(options_with("report", [&](JsonObject& object) {
    object.member("table", arguments.input);
    object.member("dataset", arguments.dataset);
    object.member("night", arguments.night);
    object.member("output", arguments.output);
    object.member("json", arguments.json);
  }));
}

int judge_list(const FleetArguments& arguments) {
  const std::vector<LogPair> pairs =
      parse_log_pairs(read_text_file(arguments.input), arguments.input);
  CompareOptions options;
  options.n_threads = arguments.n_threads;
  options.whole_required = requires_whole_records(arguments.policy);
  for (const std::string& map : arguments.maps)
    load_into({&options.ref_map, &options.got_map})(map);
  const PolicyFor policy_for = [&](const std::string& ref, const std::string& got) {
    return policy_for_logs(arguments.policy, arguments.floor, ref, got);
  };
  const NotInParity counts =
      judge_pairs(pairs, options, policy_for, [](std::string_view row) { print_text(row); });
  if (counts.diverged > 0) return kDiverged;
  return counts.not_proved > 0 ? kNotComparable : kInParity;
}

int check_log(const FleetArguments& arguments) {
  print_text(
      json_of([&](JsonObject& object) { object.member("sound", is_sound(arguments.input)); }) +
      "\n");
  return kInParity;
}

int write_fleet_report(const FleetArguments& arguments) {
  refuse_to_overwrite({arguments.input}, arguments.output, "the page", "-o");
  const ReportContext context{.version = ASSAY_VERSION, .time = utc_now()};
  const std::string data = read_text_file(arguments.input);
  write_output(arguments.output, [&](const TextSink& sink) {
    write_fleet_page(data, arguments.input, context, sink);
  });
  return kInParity;
}

void add_policy_and_maps(CLI::App& command, FleetArguments& arguments) {
  auto* policy = command.add_option("--policy", arguments.policy,
                                    "File with the tolerances, or a golden's manifest");
  command.add_option("--floor", arguments.floor, "With a manifest: another of its floors")
      ->needs(policy);
  command.add_option("--map", arguments.maps, "Names of another engine, as in assay compare")
      ->allow_extra_args(false);
}

}  // namespace

int add_to_fleet(const NewRuns& runs) {
  return run_script(options_with("add", [&](JsonObject& object) {
    object.member("dataset", runs.dataset);
    object.array("logs", runs.logs);
    object.member("commit", runs.commit);
    object.member("night", runs.night);
    object.member("threads", runs.n_threads);
    object.member("prints_runs", runs.prints_runs);
  }));
}

void add_fleet(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<FleetArguments>();
  CLI::App* fleet = app.add_subcommand("fleet", "Judge thousands of runs, as one dataset");
  fleet->require_subcommand(1);
  const auto action = [&](const char* name, const char* help, int (*act)(const FleetArguments&)) {
    CLI::App* command = fleet->add_subcommand(name, help);
    command->callback([arguments, act, &exit_code] { exit_code = act(*arguments); });
    return command;
  };

  CLI::App* add = action("add", "Add the logs of runs to a dataset, as Parquet",
                         [](const FleetArguments& given) { return add_to_fleet(given.runs); });
  NewRuns& runs = arguments->runs;
  add->add_option("DATASET", runs.dataset, "Folder; created if missing")->required();
  add->add_option("LOG", runs.logs, "Logs, each of one run")->required();
  add->add_option("--commit", runs.commit, "What was run: the engine's commit or version");
  add->add_option("--night", runs.night, "Date that the runs belong to (default today)");
  add_threads_flag(*add, runs.n_threads);

  CLI::App* compare = action("compare", "Judge each run that is not judged yet", compare_dataset);
  compare->add_option("DATASET", arguments->dataset, "Folder, or a URL that fsspec opens")
      ->required();
  compare->add_option("--reference", arguments->reference,
                      "Part of the reference's engine, backend and math (default: math float64)");
  add_policy_and_maps(*compare, *arguments);
  compare->add_option("--results", arguments->results,
                      "Folder of the results (default: results in the dataset)");
  add_threads_flag(*compare, arguments->n_threads);
  compare->add_option("--ray", arguments->ray,
                      "Judge on a Ray cluster: its address, auto, or local to start one here");

  CLI::App* report = action("report",
                            "Write a page of what is new since yesterday, which engine, "
                            "which op, and the trend over commits",
                            report_results);
  report->add_option("DATASET", arguments->input, "The dataset, or its results.parquet")
      ->required();
  report->add_option("--night", arguments->night, "Report this night (default: the latest)");
  report->add_option("--dataset", arguments->dataset,
                     "Where the runs are, for the commands of the page, if that is elsewhere");
  auto* output =
      report->add_option("-o,--output", arguments->output, "The page (default: standard output)");
  report->add_flag("--json", arguments->json, "What the page shows as JSON")->excludes(output);

  CLI::App* judge = action(
      "judge", "Compare each pair of logs of a list; JSON, one line a pair; exit codes of compare",
      judge_list);
  judge
      ->add_option("PAIRS", arguments->input, "File: the reference's path, a tab, the other's path")
      ->required();
  add_policy_and_maps(*judge, *arguments);
  add_threads_flag(*judge, arguments->n_threads);

  CLI::App* check =
      action("check", "Say whether what a log tells of each tensor agrees, as JSON", check_log);
  check->add_option("LOG", arguments->input, "The log")->required();

  CLI::App* page =
      action("page", "Make the page of what fleet report --json wrote", write_fleet_report);
  page->add_option("DATA", arguments->input, "That file")->required();
  page->add_option("-o,--output", arguments->output, "The page");
}

}  // namespace assay
