#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "assay/log/log_line.h"

namespace assay {

// Records of a log that are not in its file yet, in memory that outlives the process: copying a
// record takes a tenth of the time that its text does, so the text can wait until it is made for
// many records by all threads. A helper process sleeps until this one ends; if records are left
// then, after a kill or an abort, it writes them.
class LogGuard {
 public:
  // `fd`: the log, a regular file opened for appending, which has `file_size` bytes. Null if the
  // system refuses the memory or the process.
  static std::unique_ptr<LogGuard> start(int fd, int64_t file_size, const LogOptions& options);

  // Ends the helper: what is pending is lost.
  ~LogGuard();
  LogGuard(const LogGuard&) = delete;
  LogGuard& operator=(const LogGuard&) = delete;

  // Copies a record, which is pending whatever happens to this process from now on. False if there
  // is no room, or never would be: a large record costs too much to copy.
  bool add(const RawRecord& record);

  // In order; views of the guard's memory until clear().
  std::vector<RawRecord> pending() const;

  // Drops what is pending: it has been written, or never will be. The file has `file_size` bytes.
  void clear(int64_t file_size);

 private:
  struct Shared;

  static std::vector<RawRecord> records_of(const Shared& shared);
  [[noreturn]] static void stand_guard(const Shared* shared, int log, int owner,
                                       const LogOptions& options);
  static void write_rest(const Shared& shared, int log, const LogOptions& options);

  LogGuard(Shared* shared, int helper) : shared_(shared), helper_(helper) {}

  Shared* shared_;
  int helper_;
};

}  // namespace assay
