#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "assay/convert/convert.h"
#include "assay/convert/parquet_script.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/new_file.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): no header declares it

namespace assay {
namespace {

// Removes a file.
class Temporary {
 public:
  explicit Temporary(std::string path) : path_(std::move(path)) {}
  ~Temporary() { unlink(path_.c_str()); }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string python() {
  const char* chosen = std::getenv("ASSAY_PYTHON");
  return chosen == nullptr || *chosen == '\0' ? "python3" : chosen;
}

// Reads what `child` writes until it closes its end; of much, the last: the reason stands there.
std::string read_end(int fd, pid_t child) {
  constexpr size_t kKept = 16384;
  std::string text;
  char piece[4096];
  for (;;) {
    const ssize_t got = read(fd, piece, sizeof(piece));
    if (got < 0 && errno == EINTR) {
      pass_interrupt_on(child);
      continue;
    }
    if (got <= 0) return text;
    text.append(piece, static_cast<size_t>(got));
    if (text.size() > kKept) text.erase(0, text.size() - kKept);
  }
}

// Runs parquet.py. Throws Error about `file` with what it says on standard error.
void run_script(const std::string& mode, const std::string& input, const std::string& output,
                const std::string& file) {
  std::vector<std::string> arguments = {python(), "-c", kParquetScript, mode, input, output};
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  int ends[2];
  if (pipe(ends) != 0) throw Error(std::string("cannot run Python: ") + std::strerror(errno), file);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string said = failed == 0 ? read_end(ends[0], child) : std::string();
  close(ends[0]);
  const std::string hint = "Parquet needs python3 with pyarrow; name another in ASSAY_PYTHON";
  if (failed != 0) {
    throw Error(fmt::format("cannot run {}: {}", arguments[0], std::strerror(failed)), file, hint);
  }
  const int status = wait_for_child(child, arguments[0]);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  while (said.ends_with('\n')) said.pop_back();
  said.erase(0, said.rfind('\n') + 1);  // a stack trace ends with its reason
  throw Error(said.empty() ? "Python ended without a word" : said, file);
}

}  // namespace

std::vector<std::string> log_to_parquet(const std::string& log, const std::string& parquet) {
  const std::string place = place_of(parquet);
  const Temporary arrays(fmt::format("{}.{}.safetensors", place, getpid()));
  const Temporary part(fmt::format("{}.{}.tmp", place, getpid()));
  std::vector<std::string> warnings = log_to_arrays(log, arrays.path());
  run_script("to-parquet", arrays.path(), part.path(), parquet);
  if (std::rename(part.path().c_str(), place.c_str()) != 0) {
    throw Error(std::string("cannot write: ") + std::strerror(errno), parquet);
  }
  return warnings;
}

void parquet_to_log(const std::string& parquet, const std::string& beside,
                    const std::function<void(std::string_view)>& sink) {
  const Temporary arrays(fmt::format("{}.{}.safetensors", beside, getpid()));
  run_script("to-safetensors", parquet, arrays.path(), parquet);
  arrays_to_log(arrays.path(), sink);
}

}  // namespace assay
