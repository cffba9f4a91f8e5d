#include "assay/log/line_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace assay {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

// A short log needs no whole chunk, which would take longer to clear than the log to read.
LineReader::LineReader(std::shared_ptr<const InputFile> file)
    : file_(std::move(file)),
      buffer_(std::min(kChunkBytes, static_cast<size_t>(file_->size())) + kLinePadding) {}

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
