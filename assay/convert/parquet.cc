#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "assay/convert/convert.h"
#include "assay/convert/python.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/new_file.h"

namespace assay {

extern const std::string_view kParquetScript;  // parquet.py, embedded by CMake

namespace {

// A new private folder beside an output file, for temporary files: a predictable name could be a
// symbolic link that another user made. The destructor removes it.
class WorkFolder {
 public:
  explicit WorkFolder(const std::string& file) {
    const std::string place = place_of(file);
    path_ = fmt::format("{}.assay.XXXXXX", place.substr(0, place.rfind('/') + 1));
    if (mkdtemp(path_.data()) == nullptr) {
      throw Error(std::string("cannot create: ") + std::strerror(errno), file,
                  "check permissions and room on the disk");
    }
  }
  ~WorkFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  std::string path(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Reads what `child` writes until it closes its end; keeps the last part, which has the reason.
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

// Runs parquet.py. Throws Error about `file` with its message on standard error.
void run_script(const std::string& mode, const std::string& input, const std::string& output,
                const std::string& file) {
  PythonCommand command = python_command(kParquetScript, {mode, input, output});
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
  const std::string hint = "Parquet needs python3 with pyarrow; name another in ASSAY_PYTHON";
  if (failed != 0) {
    throw Error(fmt::format("cannot run {}: {}", argv[0], std::strerror(failed)), file, hint);
  }
  const int status = wait_for_child(child, argv[0]);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  while (said.ends_with('\n')) said.pop_back();
  said.erase(0, said.rfind('\n') + 1);  // a stack trace ends with its reason
  throw Error(said.empty() ? "Python failed without a message" : said, file);
}

}  // namespace

std::vector<std::string> log_to_parquet(const std::string& log, const std::string& parquet) {
  const std::string place = place_of(parquet);
  const WorkFolder folder(parquet);
  const std::string arrays = folder.path("arrays.safetensors");
  const std::string part = folder.path("part.parquet");
  std::vector<std::string> warnings = log_to_arrays(log, arrays);
  run_script("to-parquet", arrays, part, parquet);
  if (std::rename(part.c_str(), place.c_str()) != 0) {
    throw Error(std::string("cannot write: ") + std::strerror(errno), parquet);
  }
  return warnings;
}

void parquet_to_log(const std::string& parquet, const std::string& beside,
                    const std::function<void(std::string_view)>& sink) {
  const WorkFolder folder(beside);
  const std::string arrays = folder.path("arrays.safetensors");
  run_script("to-safetensors", parquet, arrays, parquet);
  arrays_to_log(arrays, sink);
}

}  // namespace assay
