#include "base/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/interrupt.h"

namespace assay {

std::string open_hint(int error) {
  if (error == EACCES) return "ask for permission to read it";
  if (error == EMFILE) return "allow more open files, as ulimit -n 65536 does";
  return "check the path";
}

int open_regular_file(const std::string& path, int64_t& size) {
  // O_NONBLOCK: opening a named pipe must not wait for its other end.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const int error = errno;
    throw Error(std::string("cannot open: ") + std::strerror(error), path, open_hint(error));
  }
  struct stat status {};
  const bool known = fstat(fd, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    close(fd);
    throw Error(S_ISDIR(status.st_mode) ? "is a directory" : "is not a regular file", path,
                "give the path of a file");
  }
  size = status.st_size;
  return fd;
}

InputFile::InputFile(const std::string& path) : path_(path), fd_(open_regular_file(path, size_)) {}

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
    throw Error(fmt::format("{} bytes are too many, the limit is {}", file.size(), max_bytes), path,
                hint);
  }
  std::string text(static_cast<size_t>(file.size()), '\0');
  text.resize(file.read(text.data(), text.size(), 0));
  return text;
}

}  // namespace assay
