#include "assay/cli/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include "assay/report/github_report.h"
#include "base/error.h"

namespace assay {
namespace {

constexpr int kPlainWidth = 120;

struct ReaderGone {};

void write_all(int fd, std::string_view text, const std::string& name) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EPIPE && fd == STDOUT_FILENO) throw ReaderGone();
    if (written < 0) throw Error(std::string("cannot write: ") + std::strerror(errno), name);
    text.remove_prefix(static_cast<size_t>(written));
  }
}

void write_stdout(const std::function<void(const TextSink&)>& write) {
  try {
    write([](std::string_view text) { write_all(STDOUT_FILENO, text, "standard output"); });
  } catch (const ReaderGone&) {
    // It has seen all that it wanted.
  }
}

// A file that is removed again unless it is taken over by rename().
class NewFile {
 public:
  // `name`: what the user calls it, for messages.
  NewFile(std::string path, int flags, const std::string& name) : path_(std::move(path)) {
    fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0666);
    if (fd_ < 0) throw Error(std::string("cannot create: ") + std::strerror(errno), name);
  }
  ~NewFile() {
    if (fd_ >= 0) close(fd_);
    if (remove_) unlink(path_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  int fd() const { return fd_; }
  void remove_if_unfinished() { remove_ = true; }
  void finish(const std::string& place) {
    if (close(std::exchange(fd_, -1)) != 0 || std::rename(path_.c_str(), place.c_str()) != 0) {
      throw Error(std::string("cannot write: ") + std::strerror(errno), place);
    }
    remove_ = false;
  }

 private:
  std::string path_;
  int fd_ = -1;
  bool remove_ = false;
};

}  // namespace

void write_output(const std::string& path, const std::function<void(const TextSink&)>& write) {
  if (path.empty() || path == "-") {
    write_stdout(write);
    return;
  }
  struct stat status {};
  const bool exists = stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) throw Error("is a directory", path, "give a file");
  if (exists && !S_ISREG(status.st_mode)) {  // a device or a pipe: nothing to rename over
    const NewFile file(path, 0, path);
    write([&](std::string_view text) { write_all(file.fd(), text, path); });
    return;
  }
  std::error_code unresolved;
  const std::string place = exists ? std::filesystem::canonical(path, unresolved).string() : path;
  const std::string target = unresolved ? path : place;
  NewFile file(fmt::format("{}.{}.tmp", target, getpid()), O_EXCL, path);
  file.remove_if_unfinished();
  write([&](std::string_view text) { write_all(file.fd(), text, path); });
  file.finish(target);
}

void append_output(const std::string& path,
                   const std::function<void(size_t, const TextSink&)>& write) {
  const NewFile file(path, O_APPEND, path);
  struct stat status {};
  if (fstat(file.fd(), &status) != 0) {
    throw Error(std::string("cannot read: ") + std::strerror(errno), path);
  }
  std::string text;
  write(static_cast<size_t>(status.st_size), [&](std::string_view piece) { text += piece; });
  write_all(file.fd(), text, path);
}

void write_step_summary(const std::string& path,
                        const std::function<void(size_t, const TextSink&)>& write) {
  const char* step_summary = std::getenv("GITHUB_STEP_SUMMARY");
  if (!path.empty() || step_summary == nullptr || *step_summary == '\0') {
    write_output(path, [&](const TextSink& sink) { write(kGithubSummaryBytes, sink); });
    return;
  }
  append_output(step_summary, [&](size_t bytes_there, const TextSink& sink) {
    write(kGithubSummaryBytes - std::min(bytes_there, kGithubSummaryBytes), sink);
  });
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
  return text;
}

TextStyle output_style(const std::string& path) {
  TextStyle style{kPlainWidth, false};
  if ((!path.empty() && path != "-") || isatty(STDOUT_FILENO) == 0) return style;
  const char* no_color = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal == nullptr || std::strcmp(terminal, "dumb") == 0;
  style.color = (no_color == nullptr || *no_color == '\0') && !dumb;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) style.width = size.ws_col;
  return style;
}

std::function<void(int64_t, int64_t)> progress_line(std::string doing) {
  if (isatty(STDERR_FILENO) == 0) return {};
  using Clock = std::chrono::steady_clock;
  struct State {
    Clock::time_point start = Clock::now();
    Clock::time_point last = start;
    bool shown = false;
  };
  return
      [doing = std::move(doing), state = std::make_shared<State>()](int64_t done, int64_t total) {
        const Clock::time_point now = Clock::now();
        if (done >= total || now - state->last >= std::chrono::milliseconds(200)) {
          state->last = now;
          const double seconds = std::chrono::duration<double>(now - state->start).count();
          if (done < total && seconds > 0.5) {
            const double rate = static_cast<double>(done) / seconds;
            print_status(
                fmt::format("\r\x1b[K{}: {:.0f} % of {:.0f} MB, {:.0f} MB/s, {:.0f} s left", doing,
                            100.0 * static_cast<double>(done) / static_cast<double>(total),
                            static_cast<double>(total) / 1e6, rate / 1e6,
                            static_cast<double>(total - done) / std::max(rate, 1.0)));
            state->shown = true;
          }
        }
        if (state->shown && static_cast<double>(done) >= 0.99 * static_cast<double>(total)) {
          print_status("\r\x1b[K");
          state->shown = false;
        }
      };
}

void print_text(std::string_view text) {
  write_stdout([&](const TextSink& sink) { sink(text); });
}

void print_status(const std::string& text) {
  std::fputs(text.c_str(), stderr);
}
void print_warning(const std::string& text) {
  print_status("assay: warning: " + text + "\n");
}
void print_error(const std::string& text) {
  print_status("assay: " + text + "\n");
}

std::string shell_quoted(const std::string& argument) {
  const bool plain = !argument.empty() && argument.find_first_not_of(
                                              "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                              "0123456789_-./:=,+@%") == std::string::npos;
  if (plain) return argument;
  std::string quoted = "'";
  for (const char c : argument) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace assay
