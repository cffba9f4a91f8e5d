#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/log/log_guard.h"
#include "assay/log/log_line.h"
#include "assay/log/record.h"

namespace assay {

class ThreadPool;

// Writes a log of one JSON object per line. When the call that logs a record returns, the record is
// in the file, or, in a long log, in the memory of a LogGuard: exit, abort or a kill loses no
// finished record and tears at most the last line. Nothing is left for an exit handler to write.
//
// Calls may come from several threads; each record stays whole. Errors are thrown as Error and
// name the file; after one the log ends with the last whole record, and each further call throws.
// A reader that closes its end of a pipe raises SIGPIPE; where that is ignored it is an Error.
class LogWriter {
 public:
  // Creates or empties `path`. Throws Error if that fails, or if another writer has it open.
  // `pool`, if not null: threads that help to make the text of a long log. They must be free
  // whenever a record is logged; then write() and flush() also throw Interrupted.
  LogWriter(const std::string& path, LogOptions options, ThreadPool* pool = nullptr);
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // Writes the first line. Throws Error if anything has been written before.
  void write_header(const LogHeader& header);

  // Which of several sequences, as the header names them, the records from now on are of; "0" at
  // first.
  void set_sequence(std::string name);

  // Logs the whole tensor `values` of `shape` (whose product is values.size()) at the token
  // position `token_idx` >= 0. `dtype`: as it stands in the log; "i32" for whole numbers.
  void write(std::string_view checkpoint, int64_t token_idx, std::span<const int64_t> shape,
             std::span<const float> values, std::string_view dtype = "f32");
  // The same for values[1, n].
  void write(std::string_view checkpoint, int64_t token_idx, std::span<const float> values,
             std::string_view dtype = "f32");

  // Writes to the file what only the guard has; other programs then read it.
  void flush();

  // Ends the log; write() throws after it. If the file was removed meanwhile, the whole log is
  // copied to a new one, at its path or beside it, and that path is returned; else the text is
  // empty. Throws Error if that fails, or if the file system reports only now that it did not write
  // everything. The destructor does the same but cannot report it.
  std::string close();

  const std::string& path() const { return path_; }
  const LogOptions& options() const { return options_; }

 private:
  void check_open() const;
  void write_records(const RawRecord* last, ThreadPool* pool);
  void write_texts(size_t first, size_t end);
  void write_text(std::string_view lines, size_t done = 0);

  std::string path_;
  LogOptions options_;
  ThreadPool* pool_;
  std::mutex mutex_;  // guards all below
  int fd_ = -1;
  bool regular_file_ = false;
  int64_t size_ = 0;                 // bytes of whole records in the file
  std::unique_ptr<LogGuard> guard_;  // of a long log
  bool guardable_ = true;            // false: the system has refused a guard
  std::string sequence_;             // of the records to come
  std::string failure_;              // what() of the first error, empty before
  std::vector<std::string> texts_;   // of one write; kept to save allocations
};

}  // namespace assay
