#include "base/new_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/interrupt.h"

namespace assay {

std::string place_of(const std::string& path) {
  std::error_code unresolved;
  if (!std::filesystem::is_symlink(path, unresolved)) return path;
  const std::string place = std::filesystem::canonical(path, unresolved).string();
  return unresolved ? path : place;
}

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    check_interrupted();
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

NewFile::NewFile(std::string path) : path_(std::move(path)) {
  struct stat status {};
  if (stat(path_.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    throw Error("is a directory", path_, "give a file");
  }
  if (path_.size() >= PATH_MAX) {  // it could be created from its folder, but not opened
    errno = ENAMETOOLONG;
    fail("cannot create");
  }
  const std::string place = place_of(path_);
  const size_t slash = place.rfind('/') + 1;
  name_ = place.substr(slash);
  // The following is relative to the folder: a path may be as long as the system allows.
  folder_ =
      open(slash == 0 ? "." : place.substr(0, slash).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (folder_ < 0) fail("cannot create");
  try {
    create();
  } catch (...) {
    close_all();
    throw;
  }
}

NewFile::~NewFile() {
  if (!temporary_.empty()) unlinkat(folder_, temporary_.c_str(), 0);
  close_all();
}

void NewFile::fail(const std::string& what) const {
  throw Error(what + ": " + std::strerror(errno), path_,
              errno == ENOENT && folder_ < 0 ? "make its folder first"
                                             : "check permissions and room on the disk");
}

void NewFile::create() {
  constexpr int kTries = 1000;  // names that killed processes of the same number have left
  for (int i = 0; file_ < 0 && i < kTries; ++i) {
    temporary_ = fmt::format(".assay.{}.{}{}", getpid(), i, kTemporarySuffix);
    file_ = openat(folder_, temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file_ < 0 && errno != EEXIST) break;
  }
  if (file_ < 0) fail("cannot create");
  if (name_.size() > NAME_MAX) {  // reported now, and not after hours of work
    unlinkat(folder_, temporary_.c_str(), 0);
    errno = ENAMETOOLONG;
    fail("cannot create");
  }
}

void NewFile::close_all() {
  if (file_ >= 0) close(std::exchange(file_, -1));
  if (folder_ >= 0) close(std::exchange(folder_, -1));
}

void NewFile::write(std::string_view bytes) {
  if (!write_all(file_, bytes)) fail("cannot write");
}

void NewFile::sync() {
  if (fsync(file_) != 0) fail("cannot write");
}

void NewFile::finish() {
  if (close(std::exchange(file_, -1)) != 0 ||
      renameat(folder_, temporary_.c_str(), folder_, name_.c_str()) != 0) {
    fail("cannot write");
  }
  temporary_.clear();
}

}  // namespace assay
