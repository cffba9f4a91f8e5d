#include "assay/cli/signals.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string_view>

#include "assay/cli/commands.h"
#include "base/interrupt.h"

namespace assay {
namespace {

void on_interrupt(int signal) {
  interrupt(signal);
}

// All below runs in a signal handler: it takes no memory and calls nothing that does.

void put(std::string_view text) {
  // Where that fails, nothing can be reported.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

// Reads /proc/self/maps, whose lines are "begin-end rights offset device inode      /path".
class MapsReader {
 public:
  // The path of the file mapped at `address`, as far as it fits; empty where none is.
  std::string_view file_at(uintptr_t address) {
    for (;;) {
      const uintptr_t begin = number();
      const uintptr_t end = number();
      if (last_ == '\0') return {};
      size_t length = 0;
      for (char c = last_; c != '\n' && c != '\0'; c = next()) {
        if (length == 0 && c != '/') continue;
        // The kernel writes a line feed as \012; nothing else may command a terminal either.
        const bool control = (c >= 0 && c < ' ') || c == 0x7F;
        if (length < sizeof(path_)) path_[length++] = control ? '?' : c;
      }
      if (begin <= address && address < end) return {path_, length};
    }
  }

 private:
  // A hexadecimal number; the character after it is last_.
  uintptr_t number() {
    for (uintptr_t value = 0;;) {
      last_ = next();
      const bool digit = last_ >= '0' && last_ <= '9';
      if (!digit && (last_ < 'a' || last_ > 'f')) return value;
      value = value * 16 + static_cast<uintptr_t>(digit ? last_ - '0' : last_ - 'a' + 10);
    }
  }

  char next() {  // zero at the end
    if (at_ == held_) {
      held_ = file_ < 0 ? 0 : read(file_, buffer_, sizeof(buffer_));
      at_ = 0;
      if (held_ <= 0) return '\0';
    }
    return buffer_[at_++];
  }

  int file_ = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  char last_ = '\0';
  char buffer_[4096];
  char path_[4096];
  ssize_t held_ = 0;
  ssize_t at_ = 0;
};

void on_bus_error(int signal_number, siginfo_t* info, void* /*context*/) {
  MapsReader maps;
  const std::string_view path = maps.file_at(reinterpret_cast<uintptr_t>(info->si_addr));
  if (path.empty()) {  // no fault of a file: the default action, when it is met again
    signal(signal_number, SIG_DFL);
    return;
  }
  put("assay: ");
  put(path);
  put(": was cut, or cannot be read any more, while it was in use; run again with the whole "
      "file\n");
  _exit(kNotComparable);
}

void handle(int signal_number, void (*handler)(int), int flags) {
  struct sigaction before {};
  if (sigaction(signal_number, nullptr, &before) != 0 || before.sa_handler == SIG_IGN) return;
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(signal_number, &action, nullptr);
}

}  // namespace

void handle_signals() {
  // Not SA_RESTART: what waits for input or a child must notice.
  for (const int number : {SIGINT, SIGTERM, SIGHUP})
    handle(number, on_interrupt, static_cast<int>(SA_RESETHAND));
  for (const int number : {SIGPIPE, SIGXFSZ}) handle(number, SIG_IGN, 0);
  signal(SIGCHLD, SIG_DFL);
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace assay
