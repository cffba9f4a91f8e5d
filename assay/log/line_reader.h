#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// A file opened for reading at any offset, by several threads at once.
class InputFile {
 public:
  // Throws Error if `path` is missing, may not be read, or is not a regular file.
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // Reads up to `count` bytes at `offset`; fewer only at the end of the file. Throws Error.
  size_t read(char* to, size_t count, int64_t offset) const;

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }

 private:
  std::string path_;
  int fd_ = -1;
  int64_t size_ = 0;
};

// The whole of a file of at most `max_bytes`. Throws Error if it cannot be read or, with `hint`, if
// it is larger.
std::string read_whole_file(const std::string& path, int64_t max_bytes,
                            const std::string& hint = {});

// Bytes that may be read, and hold nothing of the text, after the end of each line that LineReader
// and LineBuffer give: number parsing loads words.
inline constexpr size_t kLinePadding = 64;

// Longer lines are refused: 256 MiB are some twenty million values.
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
  size_t begin_ = 0;  // of what is not yet given out, in buffer_
  size_t end_ = 0;
  int64_t offset_ = 0;  // of buffer_[begin_] in the file
  int64_t number_ = 0;
  bool at_end_ = false;
};

// One line read again at a known place.
class LineBuffer {
 public:
  // The `bytes` at `offset`, valid until the next call. Throws Error if the file has shrunk.
  std::string_view read(const InputFile& file, int64_t offset, size_t bytes);

 private:
  std::vector<char> buffer_;
};

}  // namespace assay
