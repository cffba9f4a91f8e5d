#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <vector>

#include "assay/cli/checks.h"
#include "assay/cli/commands.h"
#include "assay/cli/failed_report.h"
#include "assay/cli/output.h"
#include "assay/cli/signals.h"
#include "base/error.h"
#include "base/interrupt.h"

namespace assay {
namespace {

std::string command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return fmt::format("{}", fmt::join(names, ", "));
}

bool has_command(const CLI::App& app, const std::string& name) {
  const auto commands = app.get_subcommands({});
  return std::any_of(commands.begin(), commands.end(),
                     [&](const CLI::App* command) { return command->get_name() == name; });
}

// CLI11 would call an unknown command an argument that was not expected.
void check_command(const CLI::App& app, int argc, char** argv) {
  const std::string hint = "the commands are " + command_names(app) + "; see assay --help";
  if (argc < 2) throw Error("no command", {}, hint);
  const std::string first = argv[1];
  if (!has_command(app, first) && !first.starts_with('-')) {
    throw Error(fmt::format("'{}' is not a command", printable(first, 40)), {}, hint);
  }
}

// The same of a command that has commands of its own.
void check_subcommand(const CLI::App& app, int argc, char** argv) {
  for (const CLI::App* command : app.get_subcommands({})) {
    const auto names = command_names(*command);
    if (command->get_name() != argv[1] || names.empty()) continue;
    const std::string hint = fmt::format("{0} has {1}; see assay {0} --help", argv[1], names);
    if (argc < 3) throw Error(fmt::format("{} is given nothing to do", argv[1]), {}, hint);
    const std::string name = argv[2];
    if (name.starts_with('-') || has_command(*command, name)) continue;
    throw Error(fmt::format("'{}' is not a command of {}", printable(name, 40), argv[1]), {}, hint);
  }
}

// What CLI11 says; a flag that it does not know before what is missing, which may be that flag's.
std::string message_of(const CLI::ParseError& error, const std::vector<CLI::App*>& parsed) {
  if (parsed.empty()) return error.what();
  std::vector<std::string> left = parsed[0]->remaining(true);
  std::erase_if(left, [](const std::string& one) { return !one.starts_with('-') || one == "-"; });
  if (!left.empty()) return CLI::ExtrasError(left).what();
  const std::string text = error.what();
  const size_t more = text.find(": At Most 1 required");
  return more == std::string::npos ? text : text.substr(0, more) + " is given more than once";
}

// Shows "--map TEXT, repeatable" where CLI11 would show "--map TEXT ..." for a flag that takes
// one value each time.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text = CLI::Formatter::make_option_opts(option);
    const bool takes_one = !option->get_positional() && !option->get_allow_extra_args();
    const size_t more = text.find(" ...");
    if (takes_one && more != std::string::npos) text.replace(more, 4, ", repeatable");
    return text;
  }
};

// Runs the command. Throws CLI::Success where help was asked for.
void parse(CLI::App& app, int argc, char** argv) {
  check_command(app, argc, argv);
  check_subcommand(app, argc, argv);
  try {
    app.parse(arguments_for_cli11(argc, argv));
  } catch (const CLI::Success&) {
    throw;
  } catch (const CLI::ParseError& error) {
    const auto parsed = app.get_subcommands();
    std::string command;
    for (const CLI::App* each = &app; !each->get_subcommands().empty();) {
      each = each->get_subcommands().front();
      command += " " + each->get_name();
    }
    throw Error(message_of(error, parsed), {}, fmt::format("see assay{} --help", command));
  }
}

// One line, of our own errors as they are.
std::string message_of(const std::exception& error) {
  const bool ours = dynamic_cast<const Error*>(&error) != nullptr;
  return ours ? error.what() : printable(error.what());
}

int run(int argc, char** argv) {
  CLI::App app(
      "Assay tells whether an engine for language models computes what its reference "
      "computes, and where it first goes wrong.",
      "assay");
  app.formatter(std::make_shared<HelpFormatter>());  // of the commands, too, which are added below
  app.set_version_flag("--version", "assay " ASSAY_VERSION);
  app.require_subcommand(1);
  int exit_code = kInParity;
  add_run(app, exit_code);
  add_tokenize(app, exit_code);
  add_inspect(app, exit_code);
  add_weights(app, exit_code);
  add_synth(app, exit_code);
  add_compare(app, exit_code);
  add_analyze(app, exit_code);
  add_convert(app, exit_code);
  add_import(app, exit_code);
  add_golden(app, exit_code);
  add_floors(app, exit_code);
  add_matrix(app, exit_code);
  add_mutate(app, exit_code);
  add_perf(app, exit_code);
  add_conform(app, exit_code);
  add_invariance(app, exit_code);
  add_fleet(app, exit_code);
  add_engine(app, exit_code);
  refuse_empty_values(app);
  try {
    parse(app, argc, argv);
  } catch (const CLI::Success& asked) {  // --help, --version
    std::ostringstream text;
    const int code = app.exit(asked, text, text);
    print_text(text.str());
    return code;
  } catch (const Interrupted&) {
    throw;  // whoever ended it knows: what was there stays
  } catch (const std::exception& error) {
    replace_report(app, message_of(error));
    throw;
  }
  return exit_code;
}

// A log may be a folder of thousands of files, which all stay open while records are read from
// them; most systems let a process have 1024 until it asks for more.
void allow_open_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);  // where that is refused, opening one too many says so
}

// As shells tell the signal that ended a command.
int interrupted() {
  const int signal = interrupting_signal();
  print_error(fmt::format("interrupted by SIG{}", sigabbrev_np(signal)));
  return kSignalled + signal;
}

}  // namespace
}  // namespace assay

int main(int argc, char** argv) {
  // A file opened later must not become standard output because the caller had closed that: what
  // is printed would land in it. Read-only, so that printing fails and is reported.
  for (int fd = 0; fd <= 2; ++fd) {
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0) return assay::kNotComparable;
  }
  assay::handle_signals();
  assay::allow_open_files();
  try {
    return assay::run(argc, argv);
  } catch (const assay::Interrupted&) {
    return assay::interrupted();
  } catch (const std::bad_alloc&) {
    assay::print_error("out of memory; use a smaller input or a machine with more");
  } catch (const std::exception& error) {
    // A call that a signal has broken off looks like a failed one.
    if (assay::interrupting_signal() != 0) return assay::interrupted();
    assay::print_error(assay::message_of(error));
  }
  return assay::kNotComparable;
}
