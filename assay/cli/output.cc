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
#include <memory>
#include <string_view>
#include <utility>

#include "assay/report/github_report.h"
#include "base/character.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/new_file.h"

namespace assay {
namespace {

constexpr size_t kMostOfLine = 16384;  // two long paths and a message

constexpr const char* kWriteHint = "check permissions and room on the disk";

struct ReaderGone {};

void write_or_fail(int file, std::string_view text, const std::string& name) {
  if (write_all(file, text)) return;
  if (errno == EPIPE && file == STDOUT_FILENO) throw ReaderGone();
  throw Error(std::string("cannot write: ") + std::strerror(errno), name, kWriteHint);
}

void write_stdout(const std::function<void(const TextSink&)>& write) {
  try {
    write([](std::string_view text) { write_or_fail(STDOUT_FILENO, text, "standard output"); });
  } catch (const ReaderGone&) {
    // It has seen all that it wanted.
  }
}

// What is written to where it is: a device, a pipe, the end of a file.
class OpenFile {
 public:
  OpenFile(const std::string& path, int flags)
      : path_(path), fd_(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0666)) {
    if (fd_ < 0) {
      throw Error(std::string("cannot open: ") + std::strerror(errno), path, kWriteHint);
    }
  }
  ~OpenFile() { close(fd_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int fd() const { return fd_; }
  void write(std::string_view text) const { write_or_fail(fd_, text, path_); }

 private:
  std::string path_;
  int fd_;
};

}  // namespace

void write_output(const std::string& path, const std::function<void(const TextSink&)>& write) {
  if (path.empty() || path == "-") {
    write_stdout(write);
    return;
  }
  struct stat status {};
  if (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
    const OpenFile file(path, 0);  // a device or a pipe: nothing to take the place of
    write([&](std::string_view text) { file.write(text); });
    return;
  }
  NewFile file(path);
  write([&](std::string_view text) { file.write(text); });
  file.finish();
}

void append_output(const std::string& path,
                   const std::function<void(size_t, const TextSink&)>& write) {
  const OpenFile file(path, O_APPEND);
  struct stat status {};
  if (fstat(file.fd(), &status) != 0) {
    throw Error(std::string("cannot read: ") + std::strerror(errno), path);
  }
  std::string text;
  write(static_cast<size_t>(status.st_size), [&](std::string_view piece) { text += piece; });
  file.write(text);
}

std::string step_summary_path(const std::string& path) {
  return path.empty() ? environment("GITHUB_STEP_SUMMARY") : "";
}

void write_step_summary(const std::string& path,
                        const std::function<void(size_t, const TextSink&)>& write) {
  const std::string step_summary = step_summary_path(path);
  if (step_summary.empty()) {
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
  TextStyle style;
  if ((!path.empty() && path != "-") || isatty(STDOUT_FILENO) == 0) return style;
  const char* no_color = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal == nullptr || std::strcmp(terminal, "dumb") == 0;
  style.color = (no_color == nullptr || *no_color == '\0') && !dumb;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) style.width = size.ws_col;
  return style;
}

std::function<void(int64_t, int64_t)> progress_line(std::string doing, Work work) {
  if (isatty(STDERR_FILENO) == 0) return {};
  using Clock = std::chrono::steady_clock;
  struct State {
    Clock::time_point start = Clock::now();
    Clock::time_point last = start;
    bool shown = false;
  };
  return [doing = std::move(doing), work, state = std::make_shared<State>()](int64_t done,
                                                                             int64_t total) {
    const Clock::time_point now = Clock::now();
    if (done >= total || now - state->last >= std::chrono::milliseconds(200)) {
      state->last = now;
      const double seconds = std::chrono::duration<double>(now - state->start).count();
      if (done > 0 && done < total && seconds > 0.5) {
        const double rate = static_cast<double>(done) / seconds;
        const std::string bytes = work == Work::kSteps
                                      ? ""
                                      : fmt::format(" of {:.0f} MB, {:.0f} MB/s",
                                                    static_cast<double>(total) / 1e6, rate / 1e6);
        print_status(fmt::format("\r\x1b[K{}: {:.0f} %{}, {:.0f} s left", doing,
                                 100.0 * static_cast<double>(done) / static_cast<double>(total),
                                 bytes, static_cast<double>(total - done) / rate));
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

void print_foreign_text(std::string_view text) {
  print_text(isatty(STDOUT_FILENO) == 1 ? visible_text(text, "\n\t") : std::string(text));
}

void print_status(const std::string& text) {
  std::fputs(text.c_str(), stderr);
}
void print_warning(const std::string& text) {
  print_status("assay: warning: " + printable(text, kMostOfLine) + "\n");
}
void print_error(const char* text) {
  std::fprintf(stderr, "assay: %s\n", text);
}
void print_error(const std::string& text) {
  print_error(printable(text, kMostOfLine).c_str());
}

}  // namespace assay
