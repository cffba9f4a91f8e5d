#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/input_file.h"

namespace assay {

// Readable bytes after the end of each line of LineReader and LineBuffer, which are not part of the
// text: number parsing loads words.
inline constexpr size_t kLinePadding = 64;

// Longer lines are rejected: 256 MiB are about twenty million values.
inline constexpr size_t kMaxLineBytes = size_t{1} << 28;

struct Line {
  std::string_view text;   // without its "\n" or "\r\n"; valid until the next call
  int64_t offset = 0;      // of its first byte in the file
  int64_t number = 0;      // 1-based
  bool terminated = true;  // false: the file ends without a newline
};

// The lines of a file, one after the other, through a buffer that holds the longest of them.
class LineReader {
 public:
  explicit LineReader(std::shared_ptr<const InputFile> file);

  // The next line; false at the end of the file. A byte order mark is skipped. Throws Error if the
  // file cannot be read or the line is too long.
  bool next(Line& line);

 private:
  bool fill();
  [[noreturn]] void fail_too_long() const;

  std::shared_ptr<const InputFile> file_;
  std::vector<char> buffer_;
  size_t begin_ = 0;  // of the text not yet returned, in buffer_
  size_t end_ = 0;
  int64_t offset_ = 0;  // of buffer_[begin_] in the file
  int64_t number_ = 0;
  bool at_end_ = false;
};

// A line that is read again at a known place.
class LineBuffer {
 public:
  // The `bytes` at `offset`, valid until the next call. Throws Error if the file has shrunk.
  std::string_view read(const InputFile& file, int64_t offset, size_t bytes);

 private:
  std::vector<char> buffer_;
};

}  // namespace assay
