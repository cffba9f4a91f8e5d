#include "assay/conform/engine_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <rapidjson/document.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "assay/report/json_object.h"
#include "base/error.h"
#include "base/interrupt.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): no header declares it

namespace assay {
namespace {

using Clock = std::chrono::steady_clock;
using Outcome = EngineAnswer::Outcome;

constexpr int kUnsupportedCode = 3;
constexpr auto kStep = std::chrono::milliseconds(5);
constexpr int kPollMs = 20;
constexpr size_t kMaxAnswerBytes = 1 << 20;
constexpr std::streamoff kErrorTail = 4096;

// This process's environment with `more`, which take the place of variables of the same names.
std::vector<std::string> environment_with(const std::vector<std::string>& more) {
  std::vector<std::string> variables = more;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('=') + 1);
    if (std::ranges::none_of(more, [&](const auto& each) { return each.starts_with(name); })) {
      variables.emplace_back(text);
    }
  }
  return variables;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Of a file; 0 if it does not exist.
int64_t bytes_of(const std::string& path) {
  std::error_code failed;
  const auto bytes = std::filesystem::file_size(path, failed);
  return failed ? 0 : static_cast<int64_t>(bytes);
}

int64_t bytes_of_model(const EngineCase& engine_case) {
  int64_t bytes = bytes_of(engine_case.gguf);
  std::error_code failed;
  for (auto at = std::filesystem::directory_iterator(engine_case.model_dir, failed);
       !failed && at != std::filesystem::directory_iterator(); at.increment(failed)) {
    bytes += bytes_of(at->path().string());
  }
  return bytes;
}

// How many prompts are evaluated beside one another.
int64_t prompts_of(const std::string& surface) {
  constexpr std::string_view kBatch = "batch:";
  if (!surface.starts_with(kBatch)) return 1;
  int64_t count = 1;
  std::from_chars(surface.data() + kBatch.size(), surface.data() + surface.size(), count);
  return std::max<int64_t>(count, 1);
}

}  // namespace

int64_t log_limit_of(const EngineCase& engine_case) {
  constexpr double kTimesTheModel = 4;  // of each token
  constexpr double kMost = 1e15;
  const double bytes = kTimesTheModel * static_cast<double>(bytes_of_model(engine_case)) *
                       static_cast<double>(engine_case.tokens.size()) *
                       static_cast<double>(prompts_of(engine_case.surface));
  return std::max(kLeastLogLimit, static_cast<int64_t>(std::min(bytes, kMost)));
}

Finding finding_of(const EngineAnswer& answer) {
  return answer.outcome == Outcome::kUnsupported ? Finding::kUnsupported : Finding::kCrashed;
}

EngineProcess::EngineProcess(std::vector<std::string> command, bool serves, std::string errors,
                             std::chrono::seconds timeout)
    : command_(std::move(command)),
      serves_(serves),
      errors_(std::move(errors)),
      timeout_(timeout) {}

EngineProcess::~EngineProcess() {
  stop();
}

EngineAnswer EngineProcess::run(const EngineCase& engine_case) {
  std::error_code failed;
  std::filesystem::remove(engine_case.log, failed);
  if (failed) {
    throw Error("cannot remove the log of an earlier run: " + failed.message(), engine_case.log,
                "remove it, or give another folder with --work");
  }
  log_ = engine_case.log;
  log_limit_ = log_limit_of(engine_case);
  EngineAnswer answer = serves_ ? ask(engine_case) : run_once(engine_case);
  if (writes_too_much()) answer = wrote_too_much();
  if (answer.outcome == Outcome::kLogged && bytes_of(log_) == 0) {
    answer = {Outcome::kCrashed, "said that it logged, and wrote no log"};
  }
  if (answer.outcome != Outcome::kLogged && answer.message.empty()) {
    answer.message = "does not say why";
  }
  return answer;
}

EngineAnswer EngineProcess::run_once(const EngineCase& engine_case) {
  start(
      {"ASSAY_MODEL_DIR=" + engine_case.model_dir, "ASSAY_GGUF=" + engine_case.gguf,
       fmt::format("ASSAY_TOKENS={}", fmt::join(engine_case.tokens, ",")),
       "ASSAY_SURFACE=" + engine_case.surface, "ASSAY_LOG_FILE=" + engine_case.log, "ASSAY_SERVE="},
      false);
  int status = 0;
  if (!wait_until(Clock::now() + timeout_, status)) return timed_out();
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {Outcome::kLogged, {}};
  if (WIFEXITED(status) && WEXITSTATUS(status) == kUnsupportedCode) {
    return {Outcome::kUnsupported, last_error()};
  }
  return crashed(status);
}

EngineAnswer EngineProcess::ask(const EngineCase& engine_case) {
  if (child_ == 0) start({"ASSAY_SERVE=1"}, true);
  std::string line = json_of([&](JsonObject& object) {
    object.member("model_dir", engine_case.model_dir);
    object.member("gguf", engine_case.gguf);
    object.array("tokens", engine_case.tokens);
    object.member("surface", engine_case.surface);
    object.member("log", engine_case.log);
  });
  line += '\n';
  const auto end = Clock::now() + timeout_;
  const auto gone = [&] {
    int status = 0;
    if (!wait_until(Clock::now() + std::chrono::seconds(5), status)) return timed_out();
    return crashed(status);
  };
  for (std::string_view rest = line; !rest.empty();) {
    const ssize_t sent = send(channel_, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return gone();
    rest.remove_prefix(static_cast<size_t>(sent));
  }
  while (unread_.find('\n') == std::string::npos) {
    check_interrupted();
    if (Clock::now() > end || unread_.size() > kMaxAnswerBytes || writes_too_much()) {
      return timed_out();
    }
    pollfd ready = {channel_, POLLIN, 0};
    if (poll(&ready, 1, kPollMs) <= 0) continue;
    char piece[4096];
    const ssize_t got = recv(channel_, piece, sizeof(piece), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return gone();
    unread_.append(piece, static_cast<size_t>(got));
  }
  const size_t length = unread_.find('\n');
  rapidjson::Document answer;
  answer.Parse(unread_.data(), length);
  const std::string said = unread_.substr(0, length);
  unread_.erase(0, length + 1);
  if (answer.HasParseError() || !answer.IsObject() || !answer.HasMember("exit") ||
      !answer["exit"].IsInt()) {
    stop();
    return {Outcome::kCrashed, "answered with '" + printable(said, 80) + "'"};
  }
  std::string message;
  if (answer.HasMember("message") && answer["message"].IsString()) {
    message = answer["message"].GetString();
  }
  const int code = answer["exit"].GetInt();
  return {code == 0                  ? Outcome::kLogged
          : code == kUnsupportedCode ? Outcome::kUnsupported
                                     : Outcome::kCrashed,
          message};
}

// In a process group of its own, so that what it started ends with it.
void EngineProcess::start(const std::vector<std::string>& more, bool with_pipes) {
  std::vector<std::string> variables = environment_with(more);
  const std::vector<char*> envp = pointers_to(variables);
  const std::vector<char*> argv = pointers_to(command_);
  int ends[2] = {-1, -1};
  if (with_pipes && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw Error(std::string("cannot be run: ") + std::strerror(errno), command_.front());
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (with_pipes) {
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  } else {
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  }
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errors_.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  const int failed =
      posix_spawnp(&child_, argv[0], &actions, &attributes, argv.data(), envp.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (with_pipes) {
    close(ends[1]);
    channel_ = ends[0];
    unread_.clear();
  }
  if (failed != 0) {
    child_ = 0;
    throw Error(std::string("cannot be run: ") + std::strerror(failed), command_.front(),
                "install the engine, or give another with --command");
  }
}

// Whether the process ended until then.
bool EngineProcess::wait_until(Clock::time_point end, int& status) {
  for (;;) {
    const pid_t ended = waitpid(child_, &status, WNOHANG);
    if (ended < 0 && errno != EINTR) {
      throw Error(std::string("cannot tell whether it failed: ") + std::strerror(errno),
                  command_.front(), "run it where SIGCHLD is not ignored");
    }
    if (ended == child_) {
      kill(-child_, SIGKILL);  // what it left behind
      child_ = 0;
      if (channel_ >= 0) close(channel_);
      channel_ = -1;
      return true;
    }
    if (Clock::now() > end || writes_too_much()) return false;
    if (interrupting_signal() != 0) stop();
    check_interrupted();
    std::this_thread::sleep_for(kStep);
  }
}

void EngineProcess::stop() {
  if (channel_ >= 0) close(channel_);
  channel_ = -1;
  if (child_ == 0) return;
  kill(-child_, SIGKILL);
  int status = 0;
  while (waitpid(child_, &status, 0) < 0 && errno == EINTR) continue;
  child_ = 0;
}

std::string EngineProcess::last_error() const {
  std::ifstream file(errors_, std::ios::ate | std::ios::binary);
  if (!file) return {};
  file.seekg(std::max<std::streamoff>(0, file.tellg() - kErrorTail));
  std::string last;
  for (std::string line; std::getline(file, line);) {
    if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
  }
  return last;
}

EngineAnswer EngineProcess::crashed(int status) const {
  constexpr int kNotExecutable = 126;  // as shells say it, and env, nice, timeout
  constexpr int kNotFound = 127;
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  if (code == kNotExecutable || code == kNotFound) {
    throw Error("cannot be run: " + last_error(), command_.back(),
                "install the engine, or give another command");
  }
  std::string text = WIFSIGNALED(status)
                         ? fmt::format("was ended by SIG{}", sigabbrev_np(WTERMSIG(status)))
                         : fmt::format("ended with exit code {}", WEXITSTATUS(status));
  const std::string said = last_error();
  if (!said.empty()) text += ": " + said;
  return {Outcome::kCrashed, text};
}

EngineAnswer EngineProcess::timed_out() {
  stop();
  return {Outcome::kCrashed, fmt::format("gave no answer within {} s", timeout_.count())};
}

bool EngineProcess::writes_too_much() const {
  return bytes_of(log_) > log_limit_ || bytes_of(errors_) > kLeastLogLimit;
}

// Ends it, and keeps nothing of what it wrote.
EngineAnswer EngineProcess::wrote_too_much() {
  stop();
  const bool in_log = bytes_of(log_) > log_limit_;
  std::error_code failed;
  std::filesystem::remove(in_log ? log_ : errors_, failed);
  return {Outcome::kCrashed,
          fmt::format("wrote more than {} MB {}, and was stopped; what it wrote is removed",
                      (in_log ? log_limit_ : kLeastLogLimit) >> 20,
                      in_log ? "to its log, more than the case can need" : "of errors")};
}

}  // namespace assay
