#include "base/replace_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace assay {
namespace {

[[noreturn]] void fail(const std::string& what, const std::string& path) {
  throw Error(what + ": " + std::strerror(errno), path, "check permissions and room on the disk");
}

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags)
      : fd_(open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (fd_ < 0) fail("cannot open", path);
  }
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }
  bool close() { return fd_ < 0 || ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

void write_all(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot write", path);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

void replace_file(std::string_view bytes, const std::string& path) {
  const std::string temporary = path + kTemporarySuffix;
  try {
    Descriptor file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
    write_all(file.get(), bytes, temporary);
    if (fsync(file.get()) != 0 || !file.close()) fail("cannot write", temporary);
    move_file(temporary, path);
  } catch (...) {
    unlink(temporary.c_str());
    throw;
  }
}

void move_file(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) fail("cannot put it in place", to);
  const std::string folder = to.substr(0, to.rfind('/') + 1);
  const Descriptor descriptor(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY);
  fsync(descriptor.get());  // not every file system can, and the file is in place
}

}  // namespace assay
