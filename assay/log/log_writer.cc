#include "assay/log/log_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <functional>
#include <thread>
#include <utility>

#include "assay/log/json_text.h"
#include "assay/log/record_text.h"
#include "assay/log/sketch.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/thread_pool.h"

namespace assay {
namespace {

// A guard takes as long to start as this takes to write line by line.
constexpr int64_t kWorthGuarding = int64_t{512} * 1024;
constexpr size_t kSketchWorthThreads = 16384;  // elements
// Parts of a text for each thread, so many that none waits long for another; and how many are
// written by one call of the system, which takes twice as long for 8 KB as for a quarter of 32.
constexpr int64_t kPartsOfThread = 8;
constexpr size_t kPartsOfWrite = 4;

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

// Locks the log for this writer alone. The helper of one that was killed has the lock until it has
// written the rest, so a lock that is held is tried again for two seconds. False with errno.
bool lock_soon(int fd) {
  constexpr int kTries = 100;
  constexpr auto kPause = std::chrono::milliseconds(20);
  for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; ++i) {
    if ((errno != EWOULDBLOCK && errno != EINTR) || i == kTries) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
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

// The time that a record's text takes, about, in nanoseconds.
int64_t work_of(const RawRecord& record, const LogOptions& options) {
  constexpr int64_t kRecord = 400;
  constexpr int64_t kPrinted = 25;  // a value
  constexpr int64_t kSketch = 1000;
  int64_t work = kRecord + kPrinted * static_cast<int64_t>(printed_values(record, options));
  if (options.sketch) work += kSketch + 2 * std::ssize(record.values);
  return work;
}

// Where the work of `records` is cut into parts that weigh about the same: part i ends before
// record ends[i].
std::vector<size_t> equal_parts(std::span<const RawRecord> records, const LogOptions& options,
                                int64_t parts) {
  std::vector<int64_t> sums;  // of the work up to each record
  int64_t sum = 0;
  for (const RawRecord& record : records) sums.push_back(sum += work_of(record, options));
  std::vector<size_t> ends;
  for (int64_t i = 1; i < parts; ++i) {
    ends.push_back(
        static_cast<size_t>(std::ranges::upper_bound(sums, sum / parts * i) - sums.begin()));
  }
  ends.push_back(records.size());
  return ends;
}

// Parts of a text that are finished in any order and written in theirs, some at once.
class TextQueue {
 public:
  TextQueue(size_t parts, std::function<void(size_t first, size_t end)> write)
      : finished_(parts), write_(std::move(write)) {}

  // A part that no thread makes yet: the last one, which may be the largest, and then the others in
  // order. If none is left, as many as there are or more.
  size_t take() {
    const size_t taken = taken_.fetch_add(1, std::memory_order_relaxed);
    return taken == 0 ? finished_.size() - 1 : taken < finished_.size() ? taken - 1 : taken;
  }

  // Writes the parts whose turn it is, unless another thread does so now.
  void finish(size_t part) {
    finished_[part].store(true, std::memory_order_release);
    const std::unique_lock lock(writing_, std::try_to_lock);
    if (lock) write_finished();
  }

  // What finish() left because another thread was writing. Once all parts are made.
  void write_rest() {
    const std::lock_guard lock(writing_);
    write_finished();
  }

 private:
  void write_finished() {
    const size_t first = written_;
    size_t end = first;
    while (end < finished_.size() && finished_[end].load(std::memory_order_acquire)) ++end;
    if (end - first < (end < finished_.size() ? kPartsOfWrite : 1)) return;
    written_ = finished_.size();  // if it throws, none is written after it
    write_(first, end);
    written_ = end;
  }

  std::vector<std::atomic<bool>> finished_;
  std::function<void(size_t first, size_t end)> write_;
  std::atomic<size_t> taken_{0};
  std::mutex writing_;
  size_t written_ = 0;  // guarded by writing_
};

}  // namespace

LogWriter::LogWriter(const std::string& path, LogOptions options, ThreadPool* pool)
    : path_(path), options_(std::move(options)), pool_(pool) {
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
  if (!lock_soon(fd_)) {
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
  // By this thread alone: after a signal, the pool throws.
  if (failure_.empty() && guard_) write_records(nullptr, nullptr);
  guard_.reset();  // the helper has the file open, too
  struct stat status {};
  const bool is_known = regular_file_ && fstat(file.fd, &status) == 0;
  if (is_known && status.st_size < size_) {
    throw Error(fmt::format("was emptied or cut while it was written: it has {} of {} bytes",
                            status.st_size, size_),
                path_, "leave the log alone until the run ends, and run again");
  }
  const bool removed = is_known && status.st_nlink == 0;
  if (removed) return write_again(file.fd, path_);
  if (!file.close()) {
    throw Error(fmt::format("cannot write: {}", std::strerror(errno)), path_,
                "records may be missing; make room on the disk and run again");
  }
  return {};
}

void LogWriter::write_header(const LogHeader& header) {
  const std::lock_guard lock(mutex_);
  check_open();
  if (size_ > 0) throw Error("the header must be the first line", path_);
  write_text(header_line(header));
}

void LogWriter::set_sequence(std::string name) {
  const std::lock_guard lock(mutex_);
  sequence_ = std::move(name);
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
  std::string time;
  if (options_.times) append_json_time(time);
  const std::lock_guard lock(mutex_);
  check_open();
  const RawRecord record = {checkpoint, token_idx, dtype, shape, values, time, nullptr, sequence_};
  if (!guard_ && guardable_ && regular_file_ && size_ >= kWorthGuarding) {
    guard_ = LogGuard::start(fd_, size_, options_);
    guardable_ = guard_ != nullptr;
  }
  if (!guard_ || !guard_->add(record)) write_records(&record, pool_);
}

void LogWriter::check_open() const {
  if (!failure_.empty()) throw Error(failure_);
  if (fd_ < 0) throw Error("the log is closed", path_, "log before close()");
}

void LogWriter::flush() {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) throw Error(failure_);
  if (guard_) write_records(nullptr, pool_);
}

// Writes what is pending, and then `last`, if it is not null. The threads make the text in parts;
// whoever has finished one writes those that are next in the file, while the others go on.
void LogWriter::write_records(const RawRecord* last, ThreadPool* pool) {
  constexpr size_t kWorthThreads = 8;  // records; fewer take as long as waking a thread
  std::vector<RawRecord> records;
  if (guard_) records = guard_->pending();
  if (last != nullptr) records.push_back(*last);
  if (records.empty()) return;
  const bool many = pool != nullptr && records.size() >= kWorthThreads;
  const int64_t parts = many ? kPartsOfThread * int64_t{pool->n_threads()} : 1;
  Sketch sketch;  // of `last`, where threads share it
  if (!many && pool != nullptr && last != nullptr && options_.sketch &&
      last->values.size() >= kSketchWorthThreads) {
    sketch = compute_sketch(last->values, *pool);
    records.back().sketch = &sketch;
  }
  const std::vector<size_t> ends = equal_parts(records, options_, parts);
  texts_.resize(std::max(texts_.size(), ends.size()));
  TextQueue queue(ends.size(), [this](size_t first, size_t end) { write_texts(first, end); });
  const auto work = [&](int64_t, int64_t) {
    for (size_t part = queue.take(); part < ends.size(); part = queue.take()) {
      std::string& text = texts_[part];
      text.clear();
      for (size_t i = part == 0 ? 0 : ends[part - 1]; i < ends[part]; ++i) {
        append_log_line(text, records[i], options_);
      }
      queue.finish(part);
    }
  };
  const int64_t before = size_;
  try {
    if (parts == 1) {
      work(0, 1);
    } else {
      pool->parallel_for(pool->n_threads(), 1, work);
    }
    queue.write_rest();
  } catch (const std::exception& error) {  // no memory, after some parts were written
    if (failure_.empty() && size_ != before) failure_ = error.what();
    throw;
  }
  if (guard_) guard_->clear(size_);
}

// texts_[first] to texts_[end - 1].
void LogWriter::write_texts(size_t first, size_t end) {
  std::vector<iovec> texts;
  for (size_t i = first; i < end; ++i) texts.push_back({texts_[i].data(), texts_[i].size()});
  // What it does not write, or its error, is left to the calls below.
  auto done = static_cast<size_t>(
      std::max<ssize_t>(0, ::writev(fd_, texts.data(), static_cast<int>(texts.size()))));
  for (const iovec& text : texts) {
    const size_t part = std::min(done, text.iov_len);
    done -= part;
    write_text({static_cast<const char*>(text.iov_base), text.iov_len}, part);
  }
}

// Whole lines, of which `done` bytes are written. Where one cannot be, the log ends with the last
// whole one.
void LogWriter::write_text(std::string_view lines, size_t done) {
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
}

}  // namespace assay
