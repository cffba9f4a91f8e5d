#include "assay/golden/record.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <system_error>

#include "assay/golden/change.h"
#include "assay/golden/files.h"
#include "assay/golden/verify.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/json_file.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

// A new folder, which the destructor removes.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "assay_golden_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      throw Error(std::string("cannot create: ") + std::strerror(errno), name, "set TMPDIR");
    }
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code none;
    fs::remove_all(path_, none);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Sizes and times of the files of a folder, to detect writes.
std::map<std::string, std::pair<uintmax_t, fs::file_time_type>> state_of(
    const std::string& folder) {
  std::map<std::string, std::pair<uintmax_t, fs::file_time_type>> state;
  for (const std::string& name : files_in(folder)) {
    state[name] = {fs::file_size(folder + name), fs::last_write_time(folder + name)};
  }
  return state;
}

void run_command(const std::string& command, const std::string& root, const std::string& output) {
  std::vector<std::string> variables = {"ASSAY_GOLDEN_OUT=" + output};
  const fs::path venv = fs::absolute(root) / "../.cache/venv/bin";
  const bool has_venv = fs::exists(venv);
  if (has_venv) variables.push_back("PATH=" + venv.string() + ":" + environment("PATH"));
  std::vector<char*> envp;
  envp.reserve(variables.size());
  for (std::string& variable : variables) envp.push_back(variable.data());
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const bool replaced =
        text.starts_with("ASSAY_GOLDEN_OUT=") || (has_venv && text.starts_with("PATH="));
    if (!replaced) envp.push_back(*variable);
  }
  envp.push_back(nullptr);
  std::string arguments[] = {"sh", "-c", command};
  char* argv[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(), nullptr};

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  posix_spawn_file_actions_addchdir_np(&actions, root.c_str());
  pid_t child = 0;
  const int error = posix_spawn(&child, "/bin/sh", &actions, nullptr, argv, envp.data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw Error(std::string("cannot run: ") + std::strerror(error), command);
  const int status = wait_for_child(child, command);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  const std::string how = WIFEXITED(status)
                              ? fmt::format("ended with exit code {}", WEXITSTATUS(status))
                              : fmt::format("was ended by signal {}", WTERMSIG(status));
  throw Error("the oracle " + how + ", nothing was recorded", command,
              "see what it printed, or give another with --oracle");
}

std::map<std::string, std::string> staged_files(const std::string& folder) {
  std::map<std::string, std::string> staged;
  std::error_code none;
  if (!fs::is_directory(folder, none)) return staged;
  for (const std::string& name : files_in(folder)) staged[name] = folder + name;
  return staged;
}

}  // namespace

UpdateMode update_mode() {
  const std::string mode = environment("ASSAY_UPDATE");
  if (mode == "no") return UpdateMode::kNo;
  if (mode == "new") return UpdateMode::kNew;
  if (mode == "always") return UpdateMode::kAlways;
  if (!mode.empty())
    throw Error(fmt::format("'{}' is not known", mode), "ASSAY_UPDATE", "give no, new or always");
  const std::string ci = environment("CI");
  return ci.empty() || ci == "0" || ci == "false" ? UpdateMode::kNew : UpdateMode::kNo;
}

void check_may_update() {
  if (update_mode() != UpdateMode::kNo) return;
  const bool said = !environment("ASSAY_UPDATE").empty();
  throw Error(
      said ? "goldens must not be changed: ASSAY_UPDATE is no" : "goldens are not changed under CI",
      {}, "set ASSAY_UPDATE=new, or always, to change them");
}

std::string stated_command(const std::string& folder) {
  const std::string path = folder + kManifestName;
  constexpr const char* kOracleHint = "give the command with --oracle";
  const rapidjson::Document document = read_json_file(path, kMaxManifestBytes, kOracleHint);
  if (document.IsObject() && document.HasMember("command") && document["command"].IsString()) {
    std::string command = json_text_of(document["command"]);
    if (!command.empty() && command.find('\0') == std::string::npos) return command;
  }
  throw Error("'command' does not state how to record it", path, kOracleHint);
}

std::vector<std::string> record_golden(const std::string& root, const std::string& model,
                                       const std::string& command) {
  const std::string folder = golden_folder(root, model);
  { const FolderLock writable(folder); }  // told now, and not after minutes of an oracle
  const TemporaryFolder output;
  const auto before = state_of(folder);
  run_command(command, root, output.path());
  if (state_of(folder) != before) {
    throw Error("the oracle wrote into the golden itself, and not into $ASSAY_GOLDEN_OUT", folder,
                "restore it with git checkout, and fix the oracle");
  }
  const auto staged = staged_files(output.path() + "/" + model + "/");
  if (staged.empty()) {
    throw Error(fmt::format("the oracle wrote nothing to $ASSAY_GOLDEN_OUT/{}", model), command,
                "see golden/README.md for what an oracle must write");
  }
  return make_pending(folder, staged);
}

}  // namespace assay
