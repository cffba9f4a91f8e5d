#include "assay/convert/python_script.h"

#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "assay/convert/python.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/new_file.h"

namespace assay {
namespace {

// Reads what `child` writes until it closes its end; keeps the last part, which has the reason.
// Looks for an interrupt again and again: a read that waits would miss one that comes just before
// it.
std::string read_end(int fd, pid_t child) {
  constexpr size_t kKept = 16384;
  constexpr int kWait = 50;  // ms
  std::string text;
  char piece[4096];
  bool asked = false;
  for (;;) {
    asked = asked || pass_interrupt_on(child);
    pollfd waiting{fd, POLLIN, 0};
    const int ready = poll(&waiting, 1, kWait);
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    const ssize_t got = read(fd, piece, sizeof(piece));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(piece, static_cast<size_t>(got));
    if (text.size() > kKept) text.erase(0, text.size() - kKept);
  }
}

}  // namespace

ScriptFolder::ScriptFolder(const std::string& file) {
  const std::string place = place_of(file);
  path_ = fmt::format("{}.assay.XXXXXX", place.substr(0, place.rfind('/') + 1));
  if (mkdtemp(path_.data()) == nullptr) {
    throw Error(std::string("cannot create: ") + std::strerror(errno), file,
                "check permissions and room on the disk");
  }
}

ScriptFolder::~ScriptFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void run_python(std::string_view script, const std::vector<std::string>& arguments,
                const std::string& file, const std::string& hint) {
  PythonCommand command = python_command(script, arguments);
  const std::vector<char*> argv = pointers_to(command.arguments);
  const std::vector<char*> envp = pointers_to(command.environment);
  int ends[2];
  if (pipe(ends) != 0) throw Error(std::string("cannot run Python: ") + std::strerror(errno), file);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string said = failed == 0 ? read_end(ends[0], child) : std::string();
  close(ends[0]);
  if (failed != 0) {
    throw Error(fmt::format("cannot run {}: {}", argv[0], std::strerror(failed)), file, hint);
  }
  const int status = wait_for_child(child, argv[0]);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  while (said.ends_with('\n')) said.pop_back();
  said.erase(0, said.rfind('\n') + 1);  // a stack trace ends with its reason
  throw Error(said.empty() ? "Python failed without a message" : said, file);
}

}  // namespace assay
