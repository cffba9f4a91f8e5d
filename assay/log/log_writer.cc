#include "assay/log/log_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>

#include "assay/log/json_text.h"
#include "assay/log/record_text.h"
#include "assay/log/sketch.h"
#include "base/error.h"
#include "base/interrupt.h"

namespace assay {
namespace {

constexpr size_t kBytesPerValue = 14;  // a guess that avoids most reallocations of the line
constexpr size_t kKeptBuffers = 16;

// A guard takes as long to start as this takes to write line by line.
constexpr int64_t kWorthGuarding = int64_t{512} * 1024;

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }

  // Some file systems report only now that they could not write. False with errno if so. After
  // EINTR the file is closed on Linux, and nothing is lost.
  bool close() { return ::close(std::exchange(fd, -1)) == 0 || errno == EINTR; }
};

[[noreturn]] void fail_to_write_again(const std::string& path) {
  throw Error(fmt::format("was removed while it was written, and cannot be written again: {}",
                          std::strerror(errno)),
              path, "its records are lost; run again");
}

// A new file at `path`, or at the first of path.1, path.2, ... that is free, and its path.
std::pair<int, std::string> create_at_or_beside(const std::string& path) {
  constexpr int kTries = 100;
  std::string place = path;
  for (int i = 1;; ++i) {
    const int fd = open(place.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) return {fd, place};
    if (errno != EEXIST || i == kTries) fail_to_write_again(path);
    place = fmt::format("{}.{}", path, i);
  }
}

// Copies the log that is open as `log` and whose name was removed; returns its new path.
std::string write_again(int log, const std::string& path) {
  const std::string name = fmt::format("/proc/self/fd/{}", log);
  const Descriptor from{open(name.c_str(), O_RDONLY | O_CLOEXEC)};
  if (from.fd < 0) fail_to_write_again(path);
  const auto [fd, place] = create_at_or_beside(path);
  Descriptor to{fd};
  for (ssize_t copied = 1; copied != 0;) {
    copied = sendfile(to.fd, from.fd, nullptr, size_t{1} << 30);
    if (copied < 0 && errno != EINTR) fail_to_write_again(path);
  }
  if (!to.close()) fail_to_write_again(path);
  return place;
}

}  // namespace

LogWriter::LogWriter(const std::string& path, LogOptions options)
    : path_(path), options_(std::move(options)) {
  if (options_.head_values < kAllValues) {
    throw Error(fmt::format("{} is not a count of values", options_.head_values), path,
                "give a number of 0 or more, or all");
  }
  const auto fail = [&](const std::string& what, const std::string& hint = {}) {
    const std::string reason = std::strerror(errno);
    if (fd_ >= 0) ::close(fd_);
    throw Error(what + (hint.empty() ? ": " + reason : ""), path_, hint);
  };
  fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd_ < 0) {
    fail(fmt::format("cannot open the log for writing: {}", std::strerror(errno)),
         "log into an existing folder that is writable");
  }
  if (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      fail("another writer has this log open", "give each running engine a log of its own");
    }
    fail("cannot lock the log");
  }
  struct stat status {};
  if (fstat(fd_, &status) != 0) fail("cannot read the log's status");
  regular_file_ = S_ISREG(status.st_mode);
  // Only after taking the lock: emptying it earlier would destroy another writer's records.
  if (regular_file_ && ftruncate(fd_, 0) != 0) fail("cannot empty the log");
}

LogWriter::~LogWriter() {
  try {
    close();
  } catch (const std::exception&) {
    // A destructor cannot report it.
  }
}

std::string LogWriter::close() {
  const std::lock_guard lock(mutex_);
  if (fd_ < 0) return {};
  Descriptor file{fd_};
  struct End {
    LogWriter& log;
    ~End() {
      log.guard_.reset();
      log.fd_ = -1;
    }
  } const end{*this};
  if (failure_.empty()) flush_pending();
  guard_.reset();  // the helper has the file open, too
  struct stat status {};
  const bool removed = regular_file_ && fstat(file.fd, &status) == 0 && status.st_nlink == 0;
  if (removed) return write_again(file.fd, path_);
  if (!file.close()) {
    throw Error(fmt::format("cannot write: {}", std::strerror(errno)), path_,
                "records may be missing; make room on the disk and run again");
  }
  return {};
}

void LogWriter::write_header(const LogHeader& header) {
  write_line(header_line(header), true);
}

void LogWriter::write(std::string_view checkpoint, int64_t token_idx, std::span<const float> values,
                      std::string_view dtype) {
  const int64_t shape[] = {1, static_cast<int64_t>(values.size())};
  write(checkpoint, token_idx, shape, values, dtype);
}

void LogWriter::write(std::string_view checkpoint, int64_t token_idx,
                      std::span<const int64_t> shape, std::span<const float> values,
                      std::string_view dtype) {
  if (token_idx < 0 || element_count(shape) != std::ssize(values)) {
    throw Error(fmt::format("checkpoint '{}' at {}: {} values do not fit the shape [{}]",
                            checkpoint, token_idx, values.size(), fmt::join(shape, ",")),
                path_, "log a token_idx of 0 or more and a shape that holds the values");
  }
  const size_t head = options_.head_values == kAllValues
                          ? values.size()
                          : std::min(values.size(), static_cast<size_t>(options_.head_values));
  std::string line = take_buffer();
  line.reserve(head * kBytesPerValue + 4096);
  line += "{\"checkpoint\":";
  append_json_string(line, checkpoint);
  line += ",\"token_idx\":";
  append_json_number(line, token_idx);
  if (options_.times) {
    line += ",\"ts\":";
    append_json_time(line);
  }
  if (!options_.team.empty()) append_json_member(line, "team", options_.team);
  append_json_member(line, "dtype", dtype);
  line += ",\"shape\":";
  append_json_array(line, shape);
  if (head < values.size()) {
    line += ",\"n\":";
    append_json_number(line, static_cast<int64_t>(values.size()));
  }
  line += ",\"values\":";
  append_json_array(line, values.first(head));
  if (options_.summary || options_.sketch) {
    line += ",\"summary\":";
    append_summary(line, summarize(values), std::ssize(values));
  }
  if (options_.sketch) {
    line += ",\"sketch\":";
    append_json_array(line, compute_sketch(values));
  }
  line += "}\n";
  write_line(std::move(line), false);
}

std::string LogWriter::take_buffer() {
  const std::lock_guard lock(mutex_);
  if (buffers_.empty()) return {};
  std::string buffer = std::move(buffers_.back());
  buffers_.pop_back();
  return buffer;
}

void LogWriter::write_line(std::string line, bool first) {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) throw Error(failure_);
  if (fd_ < 0) throw Error("the log is closed", path_, "log before close()");
  if (first && size_ > 0) throw Error("the header must be the first line", path_);
  if (!guard_ && guardable_ && regular_file_ && size_ >= kWorthGuarding) {
    guard_ = LogGuard::start(fd_, size_);
    guardable_ = guard_ != nullptr;
  }
  if (!guard_ || !guard_->add(line)) {
    flush_pending();
    if (!guard_ || !guard_->add(line)) write_text(line);
  }
  line.clear();
  if (buffers_.size() < kKeptBuffers) buffers_.push_back(std::move(line));
}

void LogWriter::flush() {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) throw Error(failure_);
  flush_pending();
}

void LogWriter::flush_pending() {
  if (!guard_ || guard_->pending().empty()) return;
  write_text(guard_->pending());
}

// Whole lines. Where one cannot be written, the log ends with the last whole one.
void LogWriter::write_text(std::string_view lines) {
  size_t done = 0;
  while (done < lines.size()) {
    const ssize_t written = ::write(fd_, lines.data() + done, lines.size() - done);
    if (written < 0 && errno == EINTR) {  // of a closed pipe
      check_interrupted();
      continue;
    }
    if (written <= 0) {
      const Error error(fmt::format("cannot write: {}", std::strerror(errno)), path_,
                        "the log ends with the last whole record");
      failure_ = error.what();
      const std::string_view torn = lines.substr(0, done);
      size_ += static_cast<int64_t>(torn.rfind('\n') + 1);  // npos + 1 is 0
      // Removes the torn record; nothing more can be done if this fails too.
      if (regular_file_ && ftruncate(fd_, size_) != 0) failure_ += " and a torn line";
      if (guard_) guard_->clear(size_);
      throw Error(failure_);
    }
    done += static_cast<size_t>(written);
  }
  size_ += static_cast<int64_t>(lines.size());
  if (guard_) guard_->clear(size_);
}

}  // namespace assay
