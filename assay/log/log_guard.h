#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace assay {

// Lines of a log that are not in its file yet, in memory that outlives the process: one write(2) of
// many lines costs a fourth of one for each. A helper process sleeps until this one ends; if lines
// are left then, after a kill or an abort, it writes them.
class LogGuard {
 public:
  // `fd`: the log, a regular file opened for appending, which has `file_size` bytes. Null if the
  // system refuses the memory or the process.
  static std::unique_ptr<LogGuard> start(int fd, int64_t file_size);

  // Ends the helper: what is pending is lost.
  ~LogGuard();
  LogGuard(const LogGuard&) = delete;
  LogGuard& operator=(const LogGuard&) = delete;

  // Makes a line pending, whatever happens to this process from now on. False if there is no room.
  bool add(std::string_view line);

  std::string_view pending() const;

  // Drops what is pending: it has been written, or never will be. The file has `file_size` bytes.
  void clear(int64_t file_size);

 private:
  struct Shared;

  [[noreturn]] static void stand_guard(const Shared* shared, int log, int owner);

  LogGuard(Shared* shared, int helper) : shared_(shared), helper_(helper) {}

  Shared* shared_;
  int helper_;
};

}  // namespace assay
