#include "assay/log/line_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/interrupt.h"

namespace assay {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

InputFile::InputFile(const std::string& path) : path_(path) {
  // O_NONBLOCK: opening a named pipe must not wait for its other end.
  fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) {
    throw Error(std::string("cannot open: ") + std::strerror(errno), path,
                errno == EACCES ? "ask for permission to read it" : "check the path");
  }
  struct stat status {};
  const bool known = fstat(fd_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    close(fd_);
    throw Error(S_ISDIR(status.st_mode) ? "is a directory" : "not a regular file", path,
                "give the path of a file");
  }
  size_ = status.st_size;
}

InputFile::~InputFile() {
  close(fd_);
}

size_t InputFile::read(char* to, size_t count, int64_t offset) const {
  size_t total = 0;
  while (total < count) {
    check_interrupted();
    const ssize_t got = pread(fd_, to + total, count - total, offset + static_cast<off_t>(total));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(std::string("cannot read: ") + std::strerror(errno), path_);
    if (got == 0) break;
    total += static_cast<size_t>(got);
  }
  return total;
}

std::string read_whole_file(const std::string& path, int64_t max_bytes, const std::string& hint) {
  const InputFile file(path);
  if (file.size() > max_bytes) {
    throw Error(fmt::format("{} bytes are too many, {} is the most", file.size(), max_bytes), path,
                hint);
  }
  std::string text(static_cast<size_t>(file.size()), '\0');
  text.resize(file.read(text.data(), text.size(), 0));
  return text;
}

LineReader::LineReader(std::shared_ptr<const InputFile> file)
    : file_(std::move(file)), buffer_(kChunkBytes + kLinePadding) {}

void LineReader::fail_too_long() const {
  throw Error(fmt::format("the line is longer than {} MiB", kMaxLineBytes >> 20),
              fmt::format("{}:{}", file_->path(), number_ + 1),
              "log fewer values, or check that the file is a log");
}

bool LineReader::fill() {
  if (at_end_) return false;
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ >= kMaxLineBytes) fail_too_long();
  if (buffer_.size() - kLinePadding - end_ < kChunkBytes / 2) {
    buffer_.resize(2 * (buffer_.size() - kLinePadding) + kLinePadding);
  }
  const size_t room = buffer_.size() - kLinePadding - end_;
  const size_t got =
      file_->read(buffer_.data() + end_, room, offset_ + static_cast<int64_t>(end_ - begin_));
  end_ += got;
  at_end_ = got < room;
  return got > 0;
}

bool LineReader::next(Line& line) {
  const void* newline = nullptr;
  for (size_t searched = 0; newline == nullptr;) {
    const char* from = buffer_.data() + begin_;
    const size_t held = end_ - begin_;
    newline = held > searched ? std::memchr(from + searched, '\n', held - searched) : nullptr;
    searched = held;
    if (newline == nullptr && !fill()) break;
  }
  const char* text = buffer_.data() + begin_;
  const size_t bytes = newline != nullptr
                           ? static_cast<size_t>(static_cast<const char*>(newline) - text)
                           : end_ - begin_;
  if (newline == nullptr && bytes == 0) return false;
  if (bytes >= kMaxLineBytes) fail_too_long();
  line = {{text, bytes}, offset_, ++number_, newline != nullptr};
  const size_t consumed = bytes + (newline != nullptr ? 1 : 0);
  begin_ += consumed;
  offset_ += static_cast<int64_t>(consumed);
  if (line.number == 1 && line.text.starts_with(kByteOrderMark)) {
    line.text.remove_prefix(kByteOrderMark.size());
    line.offset += static_cast<int64_t>(kByteOrderMark.size());
  }
  if (line.text.ends_with('\r')) line.text.remove_suffix(1);
  return true;
}

std::string_view LineBuffer::read(const InputFile& file, int64_t offset, size_t bytes) {
  if (buffer_.size() < bytes + kLinePadding) buffer_.resize(bytes + kLinePadding);
  if (file.read(buffer_.data(), bytes, offset) != bytes) {
    throw Error("the file became shorter while it was read", file.path(),
                "try again when it is whole");
  }
  return {buffer_.data(), bytes};
}

}  // namespace assay
