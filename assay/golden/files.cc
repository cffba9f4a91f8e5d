#include "assay/golden/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "assay/log/line_reader.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/sha256.h"

namespace assay {
namespace {

[[noreturn]] void fail(const std::string& what, const std::string& path, int code) {
  throw Error(what + ": " + std::strerror(code), path, "check permissions and room on the disk");
}

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags)
      : fd_(open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (fd_ < 0) fail("cannot open", path, errno);
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
    if (written < 0) fail("cannot write", path, errno);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

void sync_folder_of(const std::string& path) {
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  const Descriptor descriptor(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY);
  fsync(descriptor.get());  // not every file system can, and the file is in place
}

}  // namespace

std::string file_sha256(const std::string& path) {
  return sha256_hex(MappedFile(path).bytes());
}

std::string read_whole_file(const std::string& path, int64_t max_bytes) {
  const InputFile file(path);
  if (file.size() > max_bytes) throw Error("is too large", path);
  std::string text(static_cast<size_t>(file.size()), '\0');
  text.resize(file.read(text.data(), text.size(), 0));
  return text;
}

bool file_exists(const std::string& path) {
  std::error_code none;
  return std::filesystem::exists(path, none);
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder.empty() ? "." : folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    std::error_code none;
    if (std::filesystem::is_regular_file(entry->symlink_status(none))) {
      names.push_back(entry->path().filename().string());
    }
  }
  if (error) throw Error("cannot read the folder: " + error.message(), folder, "check the path");
  std::sort(names.begin(), names.end());
  return names;
}

void replace_file(std::string_view bytes, const std::string& path) {
  const std::string temporary = path + kTemporarySuffix;
  try {
    Descriptor file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
    write_all(file.get(), bytes, temporary);
    if (fsync(file.get()) != 0 || !file.close()) fail("cannot write", temporary, errno);
    move_file(temporary, path);
  } catch (...) {
    unlink(temporary.c_str());
    throw;
  }
}

void replace_file_with_copy(const std::string& from, const std::string& path) {
  const MappedFile file(from);
  replace_file({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path);
}

void move_file(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) != 0) fail("cannot put it in place", to, errno);
  sync_folder_of(to);
}

void remove_file(const std::string& path) {
  if (unlink(path.c_str()) != 0 && errno != ENOENT) fail("cannot remove", path, errno);
}

FolderLock::FolderLock(const std::string& folder) {
  const std::string path = folder.empty() ? "." : folder;
  fd_ = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd_ < 0) fail("cannot open the folder", path, errno);
  const bool writable = access(path.c_str(), W_OK) == 0;
  if (writable && flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
  const int code = errno;
  close(fd_);
  if (!writable) fail("cannot write to the folder", path, code);
  throw Error("another assay is at work on this golden", path, "wait until it is done");
}

FolderLock::~FolderLock() {
  close(fd_);
}

}  // namespace assay
