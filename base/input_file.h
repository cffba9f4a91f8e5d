#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace assay {

// What to do about a file that open() refuses with `error`, an errno.
std::string open_hint(int error);

// A descriptor of the file at `path`, for reading; the caller closes it. `size`: its bytes. Throws
// Error if it is missing, may not be read, or is not a regular file.
int open_regular_file(const std::string& path, int64_t& size);

// A file opened for reading at any offset, by several threads at once.
class InputFile {
 public:
  // Throws Error as open_regular_file() does.
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
  int64_t size_ = 0;
  int fd_;
};

// The whole of a file of at most `max_bytes`. Throws Error if it cannot be read or, with `hint`, if
// it is larger.
std::string read_whole_file(const std::string& path, int64_t max_bytes,
                            const std::string& hint = {});

}  // namespace assay
